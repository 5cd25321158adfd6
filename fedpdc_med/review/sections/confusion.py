"""The confusion matrix, and the most serious errors."""

import math

import pandas as pd

from fedpdc_med.common.description import Chart, Section, Table, between, count, two_decimals
from fedpdc_med.evaluation.confusion import MISSED, by_row, confusion, dangerous_cells, normal_class
from fedpdc_med.review.sections import chosen
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice
from fedpdc_med.runs.predictions import display_name

BOTH, COUNTS = 12, 25  # up to so many classes a cell has room for count and %, or for the count
MOST_MISTAKES = 12


def matrix(run: Run, choice: Choice) -> Section:
    return Section(
        "Confusion matrix",
        (matrix_words(run.classes),),
        charts=(matrix_chart(confusion(chosen(run, choice))),),
    )


def matrix_words(classes: list[str]) -> str:
    missed = " Red frame: missed diseases (predicted normal)." if normal_class(classes) else ""
    return f"Number of films and % of the true class (row).{missed}"


def matrix_chart(counts: pd.DataFrame, shown: tuple[str, str] | None = None) -> Chart:
    """From `confusion`; the cell whose films are shown has a frame."""
    classes = [str(name) for name in counts.index]
    shares, normal = by_row(counts), normal_class(classes)
    outlined = [(row, classes.index(normal), "missed") for row, one in enumerate(classes) if normal and one != normal]
    if shown:
        outlined.append((classes.index(shown[0]), classes.index(shown[1]), "chosen"))
    text = None
    if len(classes) <= COUNTS:
        text = counts.astype(str).where(counts > 0, "") if len(classes) > BOTH else _with_shares(counts, shares)
    return Chart(
        "matrix",
        shares.rename(index=display_name, columns=display_name),
        ("Predicted class", "True class"),
        "Confusion matrix: films of each true class by predicted class",
        {"text": text, "span": (0, 1), "shade": "Proportion of row", "outlined": outlined, "square": True},
    )


def _with_shares(counts: pd.DataFrame, shares: pd.DataFrame) -> pd.DataFrame:
    cells = [
        [str(n) if math.isnan(share) else f"{n}\n{share:.0%}" for n, share in zip(*row, strict=True)]
        for row in zip(counts.to_numpy(), shares.to_numpy(), strict=True)
    ]
    return pd.DataFrame(cells, counts.index, counts.columns)


def mistakes(run: Run, choice: Choice) -> Section:
    """Errors that happened, then missed diseases with zero cases."""
    cells = dangerous_cells(chosen(run, choice))
    missed, happened = cells["kind"] == MISSED, cells["count"] > 0
    listed = pd.concat([cells[happened], cells[~happened & missed]])
    shown = listed.head(MOST_MISTAKES)
    table = pd.DataFrame(
        {
            "error": shown["name"],
            "films": [f"{n} of {total}" for n, total in zip(shown["count"], shown["total"], strict=True)],
            "proportion (95% CI)": [
                f"{two_decimals(share)} ({between(low, high)})"
                for share, low, high in shown[["share", "low", "high"]].to_numpy()
            ],
        }
    )
    notes = []
    if rest := len(listed) - len(shown):
        notes.append(f"Not listed: {count(rest, 'further error')}; see the matrix.")
    if missed.any():
        notes.append("Missed diseases stay listed even at zero: 0 of a few films is not evidence of safety.")
    empty = "No errors on these films."
    return Section(_title(cells), tables=(Table("", table, empty),), notes=tuple(notes))


def _title(cells: pd.DataFrame) -> str:
    missed = cells["kind"] == MISSED
    if not missed.any():
        return "Most frequent errors"
    if (cells.loc[missed, "count"] == 0).any():
        return "Errors (missed diseases with zero cases listed last)"
    return "Errors, missed diseases first"
