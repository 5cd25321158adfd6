"""The confusion matrix, its dangerous cells by name, and the films of a cell."""

import numpy as np
import pandas as pd

from fedpdc_med.evaluation.intervals import share_interval
from fedpdc_med.runs.predictions import (
    called_class,
    classes_of,
    display_name,
    one_model,
    patients_of,
    probabilities,
    true_class,
)

NORMAL_NAMES = ("normal", "no_findings", "no findings", "no_finding", "no finding", "healthy")
MISSED, MIXED_UP, FALSE_ALARM, OTHER = KINDS = ("disease missed", "wrong disease", "false alarm", "wrong class")


def confusion(frame: pd.DataFrame) -> pd.DataFrame:
    """Counts of films: one row per true class, one column per predicted class."""
    one_model(frame)
    classes = classes_of(frame)
    cells = true_class(frame) * len(classes) + called_class(frame)
    counts = np.bincount(cells, minlength=len(classes) ** 2).reshape(len(classes), -1)
    return pd.DataFrame(counts, index=pd.Index(classes, name="true"), columns=pd.Index(classes, name="called"))


def by_row(counts: pd.DataFrame) -> pd.DataFrame:
    """Proportions of each true class; NaN where a class has no films."""
    return counts.div(counts.sum(axis=1), axis=0)


def normal_class(classes: list[str]) -> str | None:
    return next((name for name in classes if name.lower() in NORMAL_NAMES), None)


def dangerous_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Every possible error of the classes that have films: missed diseases first, then by proportion of their class.

    Columns true, called (predicted), name, kind, count, total, share, low, high. Errors with a count of 0 stay in the
    list: "0 of 12" is not evidence of safety, as its interval shows.
    """
    one_model(frame)
    classes, truth, called, patients = classes_of(frame), true_class(frame), called_class(frame), patients_of(frame)
    rows = []
    for index, name in enumerate(classes):
        of_class = truth == index
        if of_class.any():
            rows += [
                _cell(name, other, called[of_class] == i, patients[of_class], normal_class(classes))
                for i, other in enumerate(classes)
                if i != index
            ]
    table = pd.DataFrame(rows, columns=["true", "called", "name", "kind", "count", "total", "share", "low", "high"])
    rank = table["kind"].map({kind: i for i, kind in enumerate(KINDS)})
    table = table.assign(rank=rank).sort_values(["rank", "share"], ascending=[True, False], kind="stable")
    return table.drop(columns="rank").reset_index(drop=True)


def _cell(true: str, called: str, hits: np.ndarray, patients: np.ndarray, normal: str | None) -> dict[str, object]:
    low, high = share_interval(hits, patients)
    return {
        "true": true,
        "called": called,
        "name": f"{display_name(true)} predicted as {display_name(called)}",
        "kind": _kind(true, called, normal),
        "count": int(hits.sum()),
        "total": len(hits),
        "share": hits.mean(),
        "low": low,
        "high": high,
    }


def _kind(true: str, called: str, normal: str | None) -> str:
    if normal is None:
        return OTHER
    if called == normal:
        return MISSED
    return FALSE_ALARM if true == normal else MIXED_UP


def films_of_cell(frame: pd.DataFrame, true: str, called: str) -> pd.DataFrame:
    """The films of one cell, with `called` and `confidence` added, most confident first."""
    one_model(frame)
    classes = classes_of(frame)
    inside = (true_class(frame) == classes.index(true)) & (called_class(frame) == classes.index(called))
    films = frame[inside].assign(called=called, confidence=probabilities(frame)[inside, classes.index(called)])
    return films.sort_values(["confidence", "film"], ascending=[False, True], kind="stable", ignore_index=True)
