"""Recall per class: n of N with a 95% CI, worst class first."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from fedpdc_med.evaluation.intervals import clopper_pearson, mover, share_interval
from fedpdc_med.runs.predictions import called_class, classes_of, display_name, one_model, patients_of, true_class

Interval = Literal["wilson", "exact"]
# Below 30 patients one error changes recall by over 3 points; an interval wider than 0.2 cannot separate 0.9 from 0.7.
SMALL, WIDE = 30, 0.2


@dataclass(frozen=True)
class Estimate:
    """A proportion with its 95% CI; `correct` and `total` are 0 if it is a mean of proportions."""

    name: str
    value: float
    low: float
    high: float
    correct: int = 0
    total: int = 0
    note: str = ""


def per_class_recall(frame: pd.DataFrame, interval: Interval = "wilson") -> pd.DataFrame:
    """Recall of each class, worst first, not estimable last.

    Columns class, correct, total, patients, recall, low, high, method, small, note. `wilson` is Wilson's interval,
    adjusted for several films of one patient; `exact` treats every film as independent.
    """
    one_model(frame)
    return recall_table(true_class(frame), called_class(frame), patients_of(frame), classes_of(frame), interval)


def recall_table(
    truth: np.ndarray,
    called: np.ndarray,
    patients: np.ndarray,
    classes: list[str],
    interval: Interval = "wilson",
) -> pd.DataFrame:
    rows = []
    for index, name in enumerate(classes):
        of_class = truth == index
        rows.append({"class": name, **_recall(called[of_class] == index, patients[of_class], interval)})
    return pd.DataFrame(rows).sort_values("recall", kind="stable", na_position="last", ignore_index=True)


def worst_class(table: pd.DataFrame) -> Estimate:
    """The class with the lowest recall, from `per_class_recall`; its CI does not account for this selection."""
    row = table.iloc[0]
    return Estimate(
        row["class"],
        float(row["recall"]),
        float(row["low"]),
        float(row["high"]),
        int(row["correct"]),
        int(row["total"]),
        row["note"],
    )


def macro_recall(table: pd.DataFrame) -> Estimate:
    """The unweighted mean recall of the classes that have films.

    The CI combines those of the classes as if independent, which they are unless a patient has films of several.
    """
    known = table[table["total"] > 0]
    if known.empty:
        return Estimate("macro recall", np.nan, np.nan, np.nan, note="not estimable: no films")
    value, low, high = mover(known["recall"], known["low"], known["high"], np.full(len(known), 1 / len(known)))
    absent = sorted(table.loc[table["total"] == 0, "class"])
    note = f"without {', '.join(map(display_name, absent))}: no films" if absent else ""
    return Estimate("macro recall", value, max(low, 0.0), min(high, 1.0), note=note)


def _recall(hits: np.ndarray, patients: np.ndarray, interval: Interval) -> dict[str, object]:
    correct, total = int(hits.sum()), len(hits)
    if total == 0:
        return {
            "correct": 0,
            "total": 0,
            "patients": 0,
            "recall": np.nan,
            "low": np.nan,
            "high": np.nan,
            "method": "",
            "small": True,
            "note": "not estimable: no films of this class",
        }
    people = len(np.unique(patients))
    if interval == "exact":
        low, high = map(float, clopper_pearson(correct, total))
        method = "exact"
    else:
        low, high = share_interval(hits, patients)
        method = "Wilson" if people == total else "Wilson, by patient"
    small = people < SMALL or high - low > WIDE
    return {
        "correct": correct,
        "total": total,
        "patients": people,
        "recall": correct / total,
        "low": low,
        "high": high,
        "method": method,
        "small": small,
        "note": _note(total, people, high - low),
    }


def _note(total: int, people: int, width: float) -> str:
    films = f"{total} film" if total == 1 else f"{total} films"
    of = "" if people == total else f" of {people} patient" + "s" * (people > 1)
    if people < SMALL:
        return f"only {films}{of}"
    return f"wide interval: {films}{of}" if width > WIDE else ""
