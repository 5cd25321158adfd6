"""Recall by sex, age band and view, with the numbers of very small groups suppressed."""

import numpy as np
import pandas as pd
from scipy.linalg import null_space

from fedpdc_med.evaluation.recall import Interval, recall_table
from fedpdc_med.runs.predictions import called_class, classes_of, one_model, patients_of, true_class

ATTRIBUTES = ("sex", "age_band", "view")
FEWEST = 10
UNKNOWN = "unknown"
COLUMNS = [
    "attribute",
    "value",
    "class",
    "correct",
    "total",
    "patients",
    "recall",
    "low",
    "high",
    "method",
    "small",
    "note",
    "suppressed",
]


def subgroup_recall(frame: pd.DataFrame, interval: Interval = "wilson", fewest: int = FEWEST) -> pd.DataFrame:
    """Columns attribute, value, those of `per_class_recall`, suppressed; no rows for an attribute never recorded.

    Cells of fewer than ten patients are suppressed, and so are cells from which those could be derived with the totals
    of a class or a subgroup.
    """
    one_model(frame)
    classes = classes_of(frame)
    truth, called, patients = true_class(frame), called_class(frame), patients_of(frame)
    pieces = []
    for attribute in ATTRIBUTES:
        values = frame[attribute].to_numpy(dtype=object)
        values = np.where(values == "", UNKNOWN, values)
        names = sorted(set(values), key=lambda value: (value == UNKNOWN, value))
        if names in ([], [UNKNOWN]):
            continue
        tables = []
        for name in names:
            here = values == name
            table = recall_table(truth[here], called[here], patients[here], classes, interval)
            tables.append(table.set_index("class").loc[classes].reset_index())
        hidden = suppress(np.stack([table["patients"].to_numpy() for table in tables]), fewest)
        for name, table, row in zip(names, tables, hidden, strict=True):
            pieces.append(_hide(table.assign(attribute=attribute, value=name, suppressed=row), fewest))
    return pd.concat(pieces, ignore_index=True)[COLUMNS] if pieces else pd.DataFrame(columns=COLUMNS)


def suppress(patients: np.ndarray, fewest: int = FEWEST) -> np.ndarray:
    """Which cells of a table (subgroups, classes) must be hidden if the totals of its rows and columns are known.

    These are the small cells; then, smallest first, other cells of their rows and columns, until every row and column
    with a hidden cell has two that together have `fewest` patients and no small cell follows from the totals. Empty
    cells concern nobody and stay visible, unless no other cell is left to hide.
    """
    small = (patients > 0) & (patients < fewest)
    hidden = small.copy()
    while (beside := _cells_to_add(patients, hidden, small, fewest)) is not None:
        # A cell whose row and column already have hidden cells needs no further ones.
        lonely = np.logical_not(np.logical_and.outer(hidden.any(axis=1), hidden.any(axis=0)))
        rank = np.lexsort([patients[beside], lonely[beside], patients[beside] == 0])
        hidden[tuple(np.argwhere(beside)[rank[0]])] = True
    return hidden


def _cells_to_add(patients: np.ndarray, hidden: np.ndarray, small: np.ndarray, fewest: int) -> np.ndarray | None:
    """Visible cells, one of which must be hidden next; None if all is safe or nothing is left to hide."""
    lines = []
    for axis in (1, 0):
        few = (hidden.sum(axis) < 2) | ((patients * hidden).sum(axis) < fewest)
        for index in np.flatnonzero(hidden.any(axis) & few):
            lines.append((index, slice(None)) if axis == 1 else (slice(None), index))
    for row, column in np.argwhere(_follows_from_totals(hidden) & small):
        lines += [(row, slice(None)), (slice(None), column)]
    for line in lines:
        if not hidden[line].all():
            beside = np.zeros_like(hidden)
            beside[line] = True
            return beside & ~hidden
    return None


def _follows_from_totals(hidden: np.ndarray) -> np.ndarray:
    """Hidden cells that a reader can derive: those that no shift of numbers between hidden cells can change."""
    cells = np.argwhere(hidden)
    totals = np.zeros((sum(hidden.shape), len(cells)))
    totals[cells[:, 0], np.arange(len(cells))] = 1
    totals[hidden.shape[0] + cells[:, 1], np.arange(len(cells))] = 1
    follows = np.zeros_like(hidden)
    if len(cells):
        follows[hidden] = np.abs(null_space(totals)).sum(axis=1) < 1e-9
    return follows


def _hide(table: pd.DataFrame, fewest: int) -> pd.DataFrame:
    hidden = table["suppressed"].to_numpy()
    numbers = ["correct", "total", "patients", "recall", "low", "high"]
    shown = table.astype(dict.fromkeys(numbers, float))
    shown.loc[hidden, numbers] = np.nan
    shown.loc[hidden, "method"] = ""
    # The same reason for both kinds: different ones would reveal which cells are small.
    shown.loc[hidden, "note"] = f"suppressed: fewer than {fewest} patients here or in a related cell"
    return shown
