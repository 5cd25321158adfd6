"""Which class is called what: the confusion matrix, its dangerous cells by name, and the films of a cell."""

from itertools import product

import numpy as np
import pandas as pd

from fedpdc_med.evaluation.intervals import wilson
from fedpdc_med.evaluation.predictions import called_class, classes_of, one_model, probabilities, spoken, true_class

NORMAL_NAMES = ("normal", "no_findings", "no findings", "no_finding", "no finding", "healthy")
MISSED, MIXED_UP, FALSE_ALARM, OTHER = "disease missed", "wrong disease", "false alarm", "wrong class"


def confusion(frame: pd.DataFrame) -> pd.DataFrame:
    """Counts of films: one row a true class, one column a called class."""
    one_model(frame)
    classes = classes_of(frame)
    cells = true_class(frame) * len(classes) + called_class(frame)
    counts = np.bincount(cells, minlength=len(classes) ** 2).reshape(len(classes), -1)
    return pd.DataFrame(counts, index=pd.Index(classes, name="true"), columns=pd.Index(classes, name="called"))


def by_row(counts: pd.DataFrame) -> pd.DataFrame:
    """Shares of each true class; NaN where a class has no films."""
    return counts.div(counts.sum(axis=1), axis=0)


def normal_class(classes: list[str]) -> str | None:
    return next((name for name in classes if name.lower() in NORMAL_NAMES), None)


def dangerous_cells(counts: pd.DataFrame) -> pd.DataFrame:
    """Every mistake a class with films can meet: diseases called normal first, then by share of their class.

    Columns true, called, name, kind, count, total, share, low, high. Mistakes that never happened stay in the list:
    "0 of 12" is no proof of safety, as its interval says.
    """
    normal = normal_class(list(counts.index))
    ranks = [MISSED, MIXED_UP, FALSE_ALARM, OTHER]
    numbers = counts.to_numpy()
    rows = []
    for (row, true), (column, called) in product(enumerate(counts.index), enumerate(counts.columns)):
        count, total = int(numbers[row, column]), int(numbers[row].sum())
        if true == called or total == 0:
            continue
        low, high = wilson(count, total)
        rows.append(
            {
                "true": true,
                "called": called,
                "name": f"{spoken(true)} called {spoken(called)}",
                "kind": _kind(true, called, normal),
                "count": count,
                "total": total,
                "share": count / total,
                "low": float(low),
                "high": float(high),
            }
        )
    columns = ["true", "called", "name", "kind", "count", "total", "share", "low", "high"]
    table = pd.DataFrame(rows, columns=columns)
    rank = table["kind"].map({kind: i for i, kind in enumerate(ranks)})
    return (
        table.assign(rank=rank)
        .sort_values(["rank", "share"], ascending=[True, False], kind="stable", ignore_index=True)
        .drop(columns="rank")
    )


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
