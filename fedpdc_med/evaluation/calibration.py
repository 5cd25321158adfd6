"""Calibration: is a predicted probability of 0.8 right eight times out of ten?"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedpdc_med.evaluation.intervals import share_interval
from fedpdc_med.runs.predictions import (
    PREFIX,
    called_class,
    classes_of,
    one_model,
    patients_of,
    probabilities,
    true_class,
)

BINS = 10


@dataclass(frozen=True)
class Calibration:
    """Brier score (0 best, 2 worst), its baseline from class frequencies alone, and the calibration error (ECE)."""

    films: int
    brier: float
    brier_of_prevalence: float
    ece: float
    note: str = ""


def reliability(frame: pd.DataFrame, label: str | None = None, bins: int = BINS) -> pd.DataFrame:
    """Predicted probability against observed frequency in bins of equal width, for one class or the predicted class.

    Columns from, to, count, predicted, observed, low, high (Wilson, by patient); empty bins: count 0, NaN.
    """
    one_model(frame)
    if label is None:
        predicted, correct = probabilities(frame).max(axis=1), called_class(frame) == true_class(frame)
    else:
        predicted, correct = frame[PREFIX + label].to_numpy(dtype=float), (frame["label"] == label).to_numpy()
    edges = np.linspace(0, 1, bins + 1)
    inside = np.clip(np.searchsorted(edges, predicted, side="right") - 1, 0, bins - 1)
    count = np.bincount(inside, minlength=bins)
    true = np.bincount(inside, weights=correct, minlength=bins)
    patients = patients_of(frame)
    bounds = [share_interval(correct[inside == b], patients[inside == b]) for b in range(bins)]
    with np.errstate(invalid="ignore"):
        mean = np.bincount(inside, weights=predicted, minlength=bins) / count
        observed = true / count
    return pd.DataFrame(
        {
            "from": edges[:-1],
            "to": edges[1:],
            "count": count,
            "predicted": mean,
            "observed": observed,
            "low": [low for low, _ in bounds],
            "high": [high for _, high in bounds],
        }
    )


def expected_calibration_error(curve: pd.DataFrame) -> float:
    """The mean gap between predicted and observed, weighted by the films in each bin; from `reliability`."""
    filled = curve[curve["count"] > 0]
    if filled.empty:
        return np.nan
    return float(np.average((filled["predicted"] - filled["observed"]).abs(), weights=filled["count"]))


def calibration(frame: pd.DataFrame, bins: int = BINS) -> Calibration:
    if frame.empty:
        return Calibration(0, np.nan, np.nan, np.nan, "not estimable: no films")
    truth = np.eye(len(classes_of(frame)))[true_class(frame)]
    brier = float(((probabilities(frame) - truth) ** 2).sum(axis=1).mean())
    prevalence = truth.mean(axis=0)
    return Calibration(
        len(frame), brier, float(1 - (prevalence**2).sum()), expected_calibration_error(reliability(frame, None, bins))
    )
