"""Does it work equally well for everyone? Recall by sex, age band and view."""

from typing import Any

import pandas as pd

from fedpdc_med.common.description import Section, Table
from fedpdc_med.evaluation.subgroups import ATTRIBUTES, FEWEST, subgroup_recall
from fedpdc_med.review.sections import chosen, films_of
from fedpdc_med.review.sections.recall import ACROSS, recall_of
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice
from fedpdc_med.runs.predictions import display_name

NAMES = {"sex": "sex", "age_band": "age band", "view": "view"}


def by_attribute(run: Run, choice: Choice) -> Section:
    table = subgroup_recall(chosen(run, choice), choice.interval)
    recorded = [name for name in ATTRIBUTES if (table["attribute"] == name).any()]
    absent = [NAMES[name] for name in ATTRIBUTES if name not in recorded]
    sentences = [f"Recall per class and subgroup, on {films_of(choice.split)}."]
    if absent:
        sentences.append(f"Not recorded for these films, so not checked: {', '.join(absent)}.")
    note = (
        f"Recall (95% CI), correctly classified of all films. Suppressed: cells with fewer than {FEWEST} patients, and "
        "cells from which those could be derived."
    )
    return Section(
        "Does it work equally well for everyone?",
        tuple(sentences),
        tables=tuple(Table(f"By {NAMES[name]}", in_words(table, name, run.classes)) for name in recorded),
        notes=(note,) if recorded else (),
    )


def in_words(table: pd.DataFrame, attribute: str, classes: list[str]) -> pd.DataFrame:
    """One row per subgroup, one column per class; one row for each pair if there are many classes."""
    mine = table[table["attribute"] == attribute]
    cells = [(str(row["value"]), str(row["class"]), _cell(row)) for row in mine.to_dict("records")]
    if len(classes) > ACROSS:
        named = NAMES[attribute]
        return pd.DataFrame([{named: v, "class": display_name(c), "recall (95% CI)": text} for v, c, text in cells])
    wide: dict[str, dict[str, str]] = {}
    for value, label, text in cells:
        wide.setdefault(value, {NAMES[attribute]: value})[display_name(label)] = text
    return pd.DataFrame(list(wide.values()))


def _cell(row: dict[Any, Any]) -> str:
    return "suppressed" if row["suppressed"] else recall_of(row)
