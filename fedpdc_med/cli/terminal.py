"""Terminal output: one console, one table style, and the sections that the app and the report show too."""

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fedpdc_med.common.console import console, errors
from fedpdc_med.common.description import Check, Section

__all__ = ["console", "errors", "print_checks", "print_section", "print_table"]

WIDE = 1000  # more than any table needs


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str = "") -> None:
    """Numbers are right-aligned and never wrapped; a table too wide for the terminal loses its margins."""
    if not rows and empty:
        console.print(empty)
        return
    drawn = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):
        if all_numbers(row[place] for row in rows):
            drawn.add_column(name, justify="right", no_wrap=True)
        else:
            drawn.add_column(name, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    if console.measure(drawn, options=console.options.update_width(WIDE)).maximum > console.width:
        drawn.show_edge, drawn.padding = False, 0
    console.print(drawn)
    if not drawn.show_edge:
        console.print()


def all_numbers(cells: Iterable[str]) -> bool:
    said = [cell for cell in cells if cell]
    return bool(said) and sum(cell[0] in "+-±0123456789" for cell in said) > len(said) / 2


def print_section(section: Section) -> None:
    """Print a section without its charts; warnings are highlighted."""
    style = "yellow" if section.level in ("alarm", "watch") else None
    if section.title:
        console.print(Text(section.title, "bold"))
    for sentence in section.sentences:
        console.print(sentence, style=style)
    for number in section.numbers:
        console.print(f"{number.label}: {' '.join([number.value, *number.below])}")
    for table in section.tables:
        frame = table.frame
        rows = [[str(cell) for cell in row] for row in frame.itertuples(index=False)]
        print_table(table.title, list(map(str, frame.columns)), rows, table.empty)
    for note in section.notes:
        console.print(note)


def print_checks(checks: Iterable[Check]) -> bool:
    """Print one line per check; returns whether all of them hold."""
    every = True
    for one in checks:
        every = every and one.holds
        console.print(Text("ok", "green") if one.holds else Text("NOT OK", "bold red"), f" {one.what}: {one.found}")
    return every
