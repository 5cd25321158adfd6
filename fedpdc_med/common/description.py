"""Results in words, before anybody prints or draws them: a page, a report and a terminal show the same sections."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Number:
    """One figure that people look at first, with what to read below it."""

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
    """What a picture shows, for whoever draws it: `says` is its description for people who cannot see it."""

    kind: Literal["intervals", "matrix", "lines", "bars", "pairs", "curves", "reliability"]
    frame: "pd.DataFrame"
    axes: tuple[str, str]
    says: str
    marks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """One part of a page: its sentences, then numbers, pictures, tables and notes."""

    title: str
    sentences: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    level: Literal["", "alarm", "watch", "fine"] = ""


@dataclass(frozen=True)
class Check:
    """One thing that was verified: what, whether it holds, and what was found."""

    what: str
    holds: bool
    found: str


def as_markdown(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """A table for a document; `numbers`: all columns but the first stand at their right edge."""
    rule = ["---", *["---:" if numbers else "---"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))
