"""One class against the rest: ROC and precision-recall curves, and the areas under them with 95% CIs.

Both CIs are by patient and use one idea: how much each film changes the area (its influence), summed over the films of
a patient. For the AUC this is DeLong's method with one film per patient, and Obuchowski's with several.
"""

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from sklearn.metrics import precision_recall_curve, roc_curve

from fedpdc_med.evaluation.intervals import Z, logit_interval, wilson
from fedpdc_med.evaluation.recall import SMALL
from fedpdc_med.runs.predictions import PREFIX, classes_of, one_model, patients_of

POINTS = 500
FEW = 5  # below this number of patients their estimated spread is not reliable


def roc(frame: pd.DataFrame, label: str, points: int = POINTS) -> pd.DataFrame:
    """Columns threshold, false_positive_rate, sensitivity; empty if undefined, thinned to what a screen can show."""
    scores, positive = _one_against_rest(frame, label)
    if positive.all() or not positive.any():
        return pd.DataFrame(columns=["threshold", "false_positive_rate", "sensitivity"], dtype=float)
    false_rate, rate, thresholds = roc_curve(positive, scores)
    return _thin(
        pd.DataFrame({"threshold": thresholds, "false_positive_rate": false_rate, "sensitivity": rate}), points
    )


def precision_recall(frame: pd.DataFrame, label: str, points: int = POINTS) -> pd.DataFrame:
    """Columns threshold, recall, precision; empty if the class has no films."""
    scores, positive = _one_against_rest(frame, label)
    if not positive.any():
        return pd.DataFrame(columns=["threshold", "recall", "precision"], dtype=float)
    precision, recall, thresholds = precision_recall_curve(positive, scores, drop_intermediate=True)
    return _thin(
        pd.DataFrame({"threshold": np.append(thresholds, np.inf), "recall": recall, "precision": precision}), points
    )


def discrimination(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per class: class, positives, negatives, auc, auc_low, auc_high, ap, ap_low, ap_high, prevalence, note.

    `prevalence` is the average precision of a model that only guesses.
    """
    one_model(frame)
    patients = patients_of(frame)
    rows = []
    for label in classes_of(frame):
        scores, positive = _one_against_rest(frame, label)
        rows.append({"class": label, **areas(scores, positive, patients)})
    return pd.DataFrame(rows)


def areas(scores: np.ndarray, positive: np.ndarray, patients: np.ndarray) -> dict[str, object]:
    m, n = int(positive.sum()), int((~positive).sum())
    if m == 0 or n == 0:
        missing = "films" if m + n == 0 else "films of this class" if m == 0 else "films of any other class"
        undefined = dict.fromkeys(("auc", "auc_low", "auc_high", "ap", "ap_low", "ap_high"), np.nan)
        return {
            "positives": m,
            "negatives": n,
            **undefined,
            "prevalence": np.nan,
            "note": f"not estimable: no {missing}",
        }
    people = len(np.unique(patients[positive]))
    auc, auc_low, auc_high = auc_interval(scores, positive, patients)
    ap, ap_low, ap_high = average_precision_interval(scores, positive, patients)
    return {
        "positives": m,
        "negatives": n,
        "auc": auc,
        "auc_low": auc_low,
        "auc_high": auc_high,
        "ap": ap,
        "ap_low": ap_low,
        "ap_high": ap_high,
        "prevalence": m / (m + n),
        "note": f"only {people} patients of the class" if people < SMALL else "",
    }


def auc_interval(scores: np.ndarray, positive: np.ndarray, patients: np.ndarray) -> tuple[float, float, float]:
    m, n = int(positive.sum()), int((~positive).sum())
    beaten = np.empty(len(scores))  # proportion of the other class that each film is ranked correctly against
    beaten[positive] = _share_below(scores[positive], scores[~positive])
    beaten[~positive] = 1 - _share_below(scores[~positive], scores[positive])
    auc = float(beaten[positive].mean())
    people, others = len(np.unique(patients[positive])), len(np.unique(patients[~positive]))
    if min(people, others) >= FEW:
        side, count = np.where(positive, m, n), np.where(positive, people, others)
        spread = _spread_by_patient((beaten - auc) / side * np.sqrt(count / (count - 1)), patients)
        if spread >= 1e-9:
            return auc, *logit_interval(auc, spread)
    # With few patients or perfect ranking there is too little spread to estimate; Newcombe's method needs none.
    return auc, *_newcombe(auc, people, others)


def average_precision_interval(
    scores: np.ndarray, positive: np.ndarray, patients: np.ndarray
) -> tuple[float, float, float]:
    order = np.argsort(-scores, kind="stable")
    hit = positive[order]
    falls = np.diff(scores[order]) != 0  # equal scores cross the threshold together
    last, group = np.flatnonzero(np.append(falls, True)), np.append(0, np.cumsum(falls))
    found, called = np.cumsum(hit)[last], last + 1
    hits = np.diff(found, prepend=0)
    precision, m = found / called, int(hit.sum())
    value = float((hits * precision).sum() / m)
    # One more film at a rank changes the precision of every hit at or below it: by -found / called²,
    # and by +1 / called if it is a hit itself.
    loss = np.cumsum((hits * found / called**2)[::-1])[::-1][group]
    gain = np.cumsum((hits / called)[::-1])[::-1][group]
    influence = np.where(hit, precision[group] - value + gain - loss, -loss) / m
    spread = _spread_by_patient(influence, patients[order])
    people = len(np.unique(patients[positive]))
    if value > 1 - 1e-9 or people < FEW:
        low, high = wilson(value * people, people)
        return value, float(low), float(high)
    return value, *logit_interval(value, spread)


def _share_below(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The proportion of the others below each value; equal ones count half."""
    ordered = np.sort(others)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(ordered))


def _spread_by_patient(influence: np.ndarray, patients: np.ndarray) -> float:
    return float(np.sqrt((np.bincount(patients, weights=influence) ** 2).sum()))


def _newcombe(auc: float, m: int, n: int) -> tuple[float, float]:
    """The score-like interval of Newcombe (2006, method 5), which has a width even at an area of 0 or 1."""
    middle = (m + n) / 2 - 1

    def excess(theta: float) -> float:
        shape = 1 + middle * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return (auc - theta) ** 2 - Z**2 * theta * (1 - theta) * shape / (m * n)

    inside = min(max(auc, 1e-12), 1 - 1e-12)  # at 0 and 1 the area itself is also a root
    low = brentq(excess, 0, inside) if auc > 0 else 0.0
    high = brentq(excess, inside, 1) if auc < 1 else 1.0
    return float(low), float(high)


def _one_against_rest(frame: pd.DataFrame, label: str) -> tuple[np.ndarray, np.ndarray]:
    return frame[PREFIX + label].to_numpy(dtype=float), (frame["label"] == label).to_numpy()


def _thin(curve: pd.DataFrame, points: int) -> pd.DataFrame:
    keep = np.unique(np.linspace(0, len(curve) - 1, min(points, len(curve))).round().astype(int))
    return curve.iloc[keep].reset_index(drop=True)
