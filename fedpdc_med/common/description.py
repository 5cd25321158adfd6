"""Results in words, before anybody prints or draws them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


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
