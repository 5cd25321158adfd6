"""Descriptions of results, independent of output: the app, the report and the terminal show the same sections."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

NOT_ESTIMABLE, NONE = "not estimable", "\u2013"


@dataclass(frozen=True)
class Number:
    """One key number, with the text shown below it."""

    label: str
    value: str
    below: tuple[str, ...] = ()
    warn: bool = False


@dataclass(frozen=True)
class Table:
    """Rows and columns whose cells are text."""

    title: str
    frame: "pd.DataFrame"
    empty: str = "Nothing to show."


@dataclass(frozen=True)
class Chart:
    """What a figure shows, independent of what draws it; `says` describes it to people who cannot see it.

    | kind | a row of the frame | marks |
    | --- | --- | --- |
    | intervals | name, value, low, high; optional: open, warn, beside | span, lines {word: place}, signed |
    | matrix | one row of the matrix | text (same form), span, shade, diverging, outlined, square |
    | lines | the position on the first axis; one column per line | bold (a column) |
    | bars | the parts of one bar, one column each | |
    | pairs | name, first, second | first, second: what they are |
    | curves | name, x, y; low, high if there is a band | diagonal, lines {word: place}, order of the colours |
    | reliability | from, to, count, predicted, observed, low, high | |
    """

    kind: Literal["intervals", "matrix", "lines", "bars", "pairs", "curves", "reliability"]
    frame: "pd.DataFrame"
    axes: tuple[str, str]
    says: str
    marks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """One part of a page: sentences, then key numbers, figures (side by side), tables, notes, and its own parts.

    `level` is the verdict of an automatic check, or `info` for a section of sentences only.
    """

    title: str
    sentences: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    parts: tuple["Section", ...] = ()
    level: Literal["", "info", "alarm", "watch", "fine", "not estimable"] = ""


@dataclass(frozen=True)
class Check:
    """One check: what was checked, whether it holds, and what was found."""

    what: str
    holds: bool
    found: str


def two_decimals(value: float | None) -> str:
    return NOT_ESTIMABLE if value is None or math.isnan(value) else f"{value:.2f}"


def between(low: float, high: float) -> str:
    """An interval with two decimals, or three where two would hide its width."""
    if math.isnan(low) or math.isnan(high):
        return ""
    digits = 3 if high > low and f"{low:.2f}" == f"{high:.2f}" else 2
    return f"{low:.{digits}f} to {high:.{digits}f}"


def signed(value: float) -> str:
    return NOT_ESTIMABLE if math.isnan(value) else f"{round(value, 2) + 0.0:+.2f}"  # + 0.0: never -0.00


def p_value(value: float) -> str:
    if math.isnan(value):
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def count(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def as_markdown(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """A Markdown table; `numbers`: right-align all columns but the first."""
    rule = ["---", *["---:" if numbers else "---"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))
