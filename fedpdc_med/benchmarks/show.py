"""Results as tables on a terminal."""

import json
from collections.abc import Hashable, Iterator
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedpdc_med.common import console as terminal

if TYPE_CHECKING:
    import pandas as pd

console = terminal.console()
SETTING = ["experiment", "preset", "changed"]  # what runs must have in common to stand in one table
LEGEND = (
    "runs: one a seed, with a letter for what they are less than the paper in; gain: over FedAvg, seed by seed; worst: "
    "recall of the worst class, %; score: accuracy of the global model on the reference, last rounds, %; reach: rounds "
    "to FedAvg's final accuracy/the paper's, or how many runs got there; MB: sent in a round; time: of a round, "
    "FedAvg's = 1; +-: against the paper."
)


def results(table: "pd.DataFrame", as_json: bool = False) -> None:
    """One table an experiment and preset, best method first."""
    if as_json:
        print(json.dumps(json.loads(table.to_json(orient="records"))))
        return
    for title, less, columns, rows in settings_of(table):
        shown = Table(title=title, title_justify="left", caption=less, caption_justify="left")
        shown.box, shown.show_edge, shown.padding = SIMPLE_HEAD, False, 0  # all columns fit on 80 characters
        for column in columns:
            shown.add_column(
                column, justify="left" if column == "method" else "right", no_wrap=column != "method", overflow="fold"
            )
        for row in rows:
            shown.add_row(*[columns[column](row) for column in columns])
        console.print(shown, "")
    console.print(LEGEND)


def scores(table: "pd.DataFrame", as_json: bool = False) -> None:
    """The settings of a method by score; a method that ran with one setting has nothing to choose."""
    table = table[table.groupby([*SETTING, "kind"])["method"].transform("size") > 1]
    if as_json:
        print(json.dumps(json.loads(table.assign(seeds=table["seeds"].map(sorted)).to_json(orient="records"))))
        return
    if table.empty:
        console.print("There is nothing to choose: no method ran with two settings, such as --set mu=0.1 and mu=1.")
        return
    for setting, rows in table.groupby(SETTING, sort=False):
        shown = Table(title=titled(setting), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for column in ("setting", "score", "seeds", ""):
            shown.add_column(column, justify="right" if column in ("score", "seeds") else "left")
        for _, of_kind in rows.groupby("kind", sort=False):
            for row in of_kind.to_dict("records"):
                seeds = ", ".join(map(str, sorted(row["seeds"])))
                default = " (default)" if row["method"] == row["kind"] else ""
                shown.add_row(row["method"] + default, number(row["score"]), seeds, "best" if row["best"] else "")
            shown.add_section()
        console.print(shown)
    console.print(
        "score: accuracy of the global model on the reference, last rounds, %. No test image has a say in it."
    )


def markdown(table: "pd.DataFrame") -> str:
    """The same tables for a document."""
    parts = []
    for title, less, columns, rows in settings_of(table):
        lines = [f"**{title}**", "", f"| {' | '.join(columns)} |", f"| --- |{' ---: |' * (len(columns) - 1)}"]
        lines += [f"| {' | '.join(shown(row) for shown in columns.values())} |" for row in rows]
        parts.append("\n".join([*lines, *(["", less] if less else [])]))
    return "\n\n".join([*parts, LEGEND]) + "\n"


def settings_of(table: "pd.DataFrame") -> Iterator[tuple[str, str | None, dict[str, Any], list[dict[Any, Any]]]]:
    """For each experiment, preset and change in it: title, notes (less than the paper in what), columns and rows."""
    for setting, rows in table.groupby(SETTING, sort=False):
        less = dict(zip(sorted(set(rows["less_than_paper"]) - {""}), ascii_lowercase, strict=False))
        title = f"{titled(setting)}: accuracy on the test images, %"
        told = "; ".join(f"{letter}: {words}" for words, letter in less.items())
        notes = [f"Less than the paper: {told}."] if less else []
        if any(fewer_compared(row) for row in rows.to_dict("records")):
            notes.append("(n): gain and reach are of n seeds, those that FedAvg ran with too.")
        yield title, " ".join(notes) or None, columns_for(rows, less), rows.to_dict("records")


def titled(setting: tuple[Hashable, ...]) -> str:
    experiment, preset, changed = setting
    return f"{experiment}{f' with {changed}' if changed else ''}, preset {preset}"


def columns_for(rows: "pd.DataFrame", less: dict[str, str]) -> dict[str, Any]:
    """What to print of a row, by column; the columns that every row leaves empty are left out."""
    columns = {
        "method": lambda row: row["method"],
        "accuracy": lambda row: number(row["accuracy"]) + spread(row["spread"]),
        "runs": lambda row: str(row["seeds"]) + less.get(row["less_than_paper"], ""),
        "gain": gain,
        "worst": lambda row: number(row["worst_recall"]),
        "score": lambda row: number(row["score"]),
        "reach": rounds_to_reach,
        "MB": lambda row: number(row["bytes_per_round"] / 1e6) if row["bytes_per_round"] else "",
        "time": lambda row: number(row["time"], 2),
        "paper": lambda row: number(row["paper"]),
        "+-": lambda row: signed(row["difference"]),
    }
    return {name: shown for name, shown in columns.items() if any(shown(row) for row in rows.to_dict("records"))}


def gain(row: dict[str, Any]) -> str:
    seeds = f" ({row['compared']})" if fewer_compared(row) else ""
    return signed(row["over_fedavg"]) + spread(row["over_fedavg_spread"]) + seeds


def fewer_compared(row: dict[Any, Any]) -> bool:
    """Whether a gain is of fewer seeds than were run."""
    return not missing(row["over_fedavg"]) and row["compared"] < row["seeds"]


def rounds_to_reach(row: dict[str, Any]) -> str:
    paper = "" if missing(row["paper_to_reach"]) else f"/{row['paper_to_reach']:.0f}"
    if not missing(row["to_reach_fedavg"]):
        return f"{row['to_reach_fedavg']:.1f}".removesuffix(".0") + paper
    if row["seeds_that_reached"]:
        return f"{row['seeds_that_reached']} of {row['compared']}"
    compared = not missing(row["over_fedavg"]) and row["method"] != "solo"
    return "never" if compared else ""


def missing(value: float | None) -> bool:
    return value is None or value != value


def signed(value: float | None) -> str:
    return "" if missing(value) else f"{value:+.1f}"


def spread(value: float | None) -> str:
    return "" if missing(value) else f"±{value:.1f}"


def number(value: float | None, digits: int = 1) -> str:
    return "" if missing(value) else f"{value:.{digits}f}"
