"""A paired comparison of two models on the same films: which is right where the other is wrong?"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import binom

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.intervals import Z
from fedpdc_med.runs.predictions import called_class, classes_of, one_model, patient_codes, true_class

ALL = "all films"
KEYS = ["split", "site", "film"]


@dataclass(frozen=True)
class Comparison:
    """`overall` is one row with the columns of `by_class`; `note` says what was excluded or counted differently."""

    by_class: pd.DataFrame
    overall: pd.DataFrame
    films: int
    left_out_of_first: int
    left_out_of_second: int
    note: str


def compare(first: pd.DataFrame, second: pd.DataFrame) -> Comparison:
    """McNemar's exact test on the films that both have, overall and per class (Holm-adjusted over the classes).

    Columns class, total, both_right, only_first, only_second, both_wrong, first, second, difference (second - first),
    low, high, p, p_holm, note.
    """
    pairs = _pair(first, second)
    patients = patient_codes(pairs["patient"], pairs["site"])
    right = pairs["right_first"].to_numpy(), pairs["right_second"].to_numpy()
    label = pairs["label"].to_numpy()
    rows = []
    for name in classes_of(first):
        of_class = label == name
        rows.append(_row(name, right[0][of_class], right[1][of_class], patients[of_class]))
    by_class = pd.DataFrame(rows)
    by_class["p_holm"] = holm(by_class["p"].to_numpy())
    overall = pd.DataFrame([_row(ALL, right[0], right[1], patients)]).assign(p_holm=lambda row: row["p"])
    columns = [*[name for name in overall.columns if name != "note"], "note"]
    left, other = len(first) - len(pairs), len(second) - len(pairs)
    return Comparison(by_class[columns], overall[columns], len(pairs), left, other, _note(left, other, patients))


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p for the films on which exactly one of two models is right; 1 if they never differ."""
    fewer, differing = min(only_first, only_second), only_first + only_second
    return float(min(1.0, 2 * binom.cdf(fewer, differing, 0.5))) if differing else 1.0


def sign_flip_exact(differences: np.ndarray) -> float:
    """Two-sided p for whole numbers, one per patient, whose signs are exchangeable under the null hypothesis.

    With one film per patient this is McNemar's exact test. It is exact in general, too: the distribution of the sum is
    a convolution of one binomial for each size of difference.
    """
    sizes, numbers = np.unique(np.abs(differences[differences != 0]).astype(int), return_counts=True)
    chances = np.ones(1)  # of sums -reach, -reach + 2, ...: adding `size` heads out of `number` moves by 2 * size
    for size, number in zip(sizes, numbers, strict=True):
        step = np.zeros(size * number + 1)
        step[::size] = binom.pmf(np.arange(number + 1), number, 0.5)
        chances = np.convolve(chances, step)
    sums = 2 * np.arange(len(chances)) - (len(chances) - 1)
    return float(min(1.0, chances[np.abs(sums) >= abs(int(differences.sum()))].sum()))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment; NaN (no films, no test) is neither counted nor changed."""
    corrected = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1)
    return corrected


def _pair(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    for frame, name in ((first, "first"), (second, "second")):
        one_model(frame)
        if (frame["film"] == "").any():
            raise UserError(f"the {name} run does not name its films, so they cannot be paired")
        if frame.duplicated(KEYS).any():
            raise UserError(f"a film appears twice in the {name} run, so films cannot be paired")
    if classes_of(first) != classes_of(second):
        names = " and ".join(", ".join(classes_of(frame)) for frame in (first, second))
        raise UserError(f"the runs have different classes ({names}): compare runs of the same task")
    sides = [
        frame[[*KEYS, "label", "patient"]].assign(right=called_class(frame) == true_class(frame))
        for frame in (first, second)
    ]
    pairs = sides[0].merge(sides[1].drop(columns="patient"), on=KEYS, suffixes=("_first", "_second"))
    if pairs.empty:
        raise UserError("the two runs have no films in common: compare runs that were tested on the same films")
    changed = int((pairs["label_first"] != pairs["label_second"]).sum())
    if changed:
        raise UserError(f"{changed} films have another label in the second run: test both runs on the same labels")
    return pairs.rename(columns={"label_first": "label"})


def _row(name: str, first: np.ndarray, second: np.ndarray, patients: np.ndarray) -> dict[str, object]:
    total = len(first)
    only_first, only_second = int((first & ~second).sum()), int((~first & second).sum())
    cells = {
        "class": name,
        "total": total,
        "both_right": int((first & second).sum()),
        "only_first": only_first,
        "only_second": only_second,
        "both_wrong": int((~first & ~second).sum()),
    }
    if total == 0:
        empty = dict.fromkeys(("first", "second", "difference", "low", "high", "p"), np.nan)
        return {**cells, **empty, "note": "not estimable: no films of this class"}
    better = second.astype(int) - first.astype(int)
    of_patient = np.bincount(patients, weights=better)
    repeated = len(np.unique(patients)) < total
    p = sign_flip_exact(of_patient) if repeated else mcnemar_exact(only_first, only_second)
    low, high = _difference_interval(better, of_patient)
    never = "the models never differ" if not better.any() else ""
    return {
        **cells,
        "first": first.mean(),
        "second": second.mean(),
        "difference": better.mean(),
        "low": low,
        "high": high,
        "p": p,
        "note": never,
    }


def _difference_interval(better: np.ndarray, of_patient: np.ndarray) -> tuple[float, float]:
    """Bonett and Price's interval of a paired difference, widened where a patient's films agree."""
    n, differing = len(better), int(np.abs(better).sum())
    up, down = (int((better > 0).sum()) + 1) / (n + 2), (int((better < 0).sum()) + 1) / (n + 2)
    swing = max(1.0, float((of_patient**2).sum()) / differing) if differing else 1.0
    half = Z * np.sqrt(swing * (up + down - (up - down) ** 2) / (n + 2))
    return max(-1.0, up - down - half), min(1.0, up - down + half)


def _note(left: int, other: int, patients: np.ndarray) -> str:
    parts = []
    if left or other:
        parts.append(f"{left} films only in the first run and {other} only in the second are excluded")
    if len(np.unique(patients)) < len(patients):
        parts.append("some patients have several films, so the tests count patients, not films")
    return "; ".join(parts)
