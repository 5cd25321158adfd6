"""A threshold per class, chosen on films that are not reported, and its meaning at the reader's prevalence."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.metrics import roc_curve

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.intervals import effective_total, wilson
from fedpdc_med.evaluation.recall import SMALL
from fedpdc_med.runs.predictions import PREFIX, display_name, one_model, patients_of

Rule = Literal["youden", "sensitivity"]
# Splits whose results are reported; a threshold chosen on them would give optimistic results.
REPORTED = ("holdout", "test", "external")


@dataclass(frozen=True)
class Threshold:
    """The threshold of a class; its sensitivity and specificity are optimistic, because these films chose it."""

    label: str
    value: float
    rule: Rule
    sensitivity: float
    specificity: float
    positives: int
    negatives: int
    note: str = ""


def choose_threshold(frame: pd.DataFrame, label: str, rule: Rule = "youden", wanted: float = 0.9) -> Threshold:
    """The threshold with the best sensitivity + specificity, or the highest one that reaches the wanted sensitivity."""
    one_model(frame)
    seen = sorted(set(frame["split"].unique()) & set(REPORTED))
    if seen:
        raise UserError(f"a threshold must not be chosen on the reported films ({seen[0]}); use the weighting split")
    if not 0 < wanted <= 1:
        raise UserError(f"wanted sensitivity is {wanted}; choose a number above 0 and at most 1")
    positive = (frame["label"] == label).to_numpy()
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if positives == 0 or negatives == 0:
        which = f"no films of {display_name(label)}" if positives == 0 else f"only films of {display_name(label)}"
        return Threshold(
            label, np.nan, rule, np.nan, np.nan, positives, negatives, f"not estimable: {which} for choosing it"
        )
    false_rate, rate, thresholds = roc_curve(
        positive, frame[PREFIX + label].to_numpy(dtype=float), drop_intermediate=False
    )
    # The first point of the curve (nothing is predicted) has an infinite threshold, which no slider can show.
    best = 1 + int((rate - false_rate)[1:].argmax()) if rule == "youden" else int(np.argmax(rate >= wanted))
    note = f"chosen on only {positives} films of {display_name(label)}" if positives < SMALL else ""
    return Threshold(
        label, float(thresholds[best]), rule, float(rate[best]), float(1 - false_rate[best]), positives, negatives, note
    )


def threshold_table(frame: pd.DataFrame, label: str, thresholds: ArrayLike | None = None) -> pd.DataFrame:
    """Sensitivity and specificity with intervals at many thresholds at once (0 to 1 by 0.01), one row each.

    A film is positive if its probability is at or above the threshold. Columns threshold, tp, fn, fp, tn, sensitivity,
    sensitivity_low, sensitivity_high, specificity, specificity_low, specificity_high. The intervals are adjusted for
    several films of one patient.
    """
    one_model(frame)
    steps = np.linspace(0, 1, 101) if thresholds is None else np.atleast_1d(np.asarray(thresholds, dtype=float))
    scores, positive = frame[PREFIX + label].to_numpy(dtype=float), (frame["label"] == label).to_numpy()
    patients = patients_of(frame)
    tp, found, found_low, found_high = _share(scores[positive], patients[positive], steps, called=True)
    tn, spared, spared_low, spared_high = _share(scores[~positive], patients[~positive], steps, called=False)
    return pd.DataFrame(
        {
            "threshold": steps,
            "tp": tp,
            "fn": int(positive.sum()) - tp,
            "fp": int((~positive).sum()) - tn,
            "tn": tn,
            "sensitivity": found,
            "sensitivity_low": found_low,
            "sensitivity_high": found_high,
            "specificity": spared,
            "specificity_low": spared_low,
            "specificity_high": spared_high,
        }
    )


def _share(
    scores: np.ndarray, patients: np.ndarray, steps: np.ndarray, called: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The number and proportion of films that are positive (or negative) at each step, with an interval."""
    below = np.searchsorted(np.sort(scores), steps, side="left")
    count = len(scores) - below if called else below
    with np.errstate(invalid="ignore"):
        share = count / np.float64(len(scores))
    if len(np.unique(patients)) == len(patients):
        return count, share, *wilson(count, len(scores))
    worth = effective_total(scores, patients, steps)
    return count, share, *wilson(share * worth, worth)


def predictive_values(
    sensitivity: ArrayLike, specificity: ArrayLike, prevalence: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """PPV and NPV by Bayes' rule; NaN where nobody would be positive (or negative)."""
    sens, spec, prev = (np.asarray(a, dtype=float) for a in (sensitivity, specificity, prevalence))
    if ((prev < 0) | (prev > 1)).any():
        raise UserError(f"prevalence is {float(np.ravel(prev)[0])}; choose a number between 0 and 1")
    sick_called, well_called = sens * prev, (1 - spec) * (1 - prev)
    well_spared, sick_spared = spec * (1 - prev), (1 - sens) * prev
    with np.errstate(divide="ignore", invalid="ignore"):
        return sick_called / (sick_called + well_called), well_spared / (well_spared + sick_spared)


def with_predictive_values(table: pd.DataFrame, prevalence: float) -> pd.DataFrame:
    """`threshold_table` with ppv, ppv_low, ppv_high, npv, npv_low, npv_high at a prevalence.

    The bounds use both ends of sensitivity and specificity at once. Specificity is for the frame's mix of the other
    classes; `predictive_by_rest` shows the effect of another mix.
    """
    ppv, npv = predictive_values(table["sensitivity"], table["specificity"], prevalence)
    low, npv_low = predictive_values(table["sensitivity_low"], table["specificity_low"], prevalence)
    high, npv_high = predictive_values(table["sensitivity_high"], table["specificity_high"], prevalence)
    return table.assign(ppv=ppv, ppv_low=low, ppv_high=high, npv=npv, npv_low=npv_low, npv_high=npv_high)


def predictive_by_rest(frame: pd.DataFrame, label: str, threshold: float, prevalence: float) -> pd.DataFrame:
    """PPV and NPV if all other patients had one other class: columns class, ppv, npv; lowest PPV first."""
    called = frame[PREFIX + label].to_numpy(dtype=float) >= threshold
    truth = frame["label"].to_numpy()
    sensitivity = called[truth == label].mean() if (truth == label).any() else np.nan
    rows = []
    for other in sorted(set(truth) - {label}):
        ppv, npv = predictive_values(sensitivity, 1 - called[truth == other].mean(), prevalence)
        rows.append({"class": other, "ppv": float(ppv), "npv": float(npv)})
    return pd.DataFrame(rows, columns=["class", "ppv", "npv"]).sort_values("ppv", kind="stable", ignore_index=True)
