"""What a run says, described once for page and report: the pages, and the sections each is made of."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import pandas as pd

from fedpdc_med.common.description import Section
from fedpdc_med.common.errors import UserError
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, films

SPLITS = {
    "holdout": "reference films that nothing was trained or chosen on",
    "test": "the benchmark's test images",
    "external": "films of sites that took no part",
    "local": "each site's own test films",
    "weighting": "reference films that scored the sites and set their weights: numbers on them flatter",
}
Builder = Callable[..., Section]


class Page(NamedTuple):
    """`name` is its address, and for one with widgets the module `app/NAME_page` that draws it.

    Sections are named, so that what they need is imported when they are first drawn: scikit-learn takes its time.
    """

    title: str
    icon: str
    name: str
    sections: tuple[str, ...]
    widgets: bool = False


PAGES = (
    Page(
        "Overview",
        ":material/summarize:",
        "overview",
        ("overview.three_numbers", "overview.uses", "overview.model", "overview.sites"),
    ),
    Page(
        "Per-class recall",
        ":material/bar_chart:",
        "recall",
        ("recall.per_class", "recall.by_round", "recall.by_site", "recall.own_and_global"),
    ),
    Page(
        "Who shaped the model",
        ":material/groups:",
        "shaped",
        ("contributions.weights", "contributions.by_round", "contributions.not_used"),
    ),
    Page("Errors", ":material/grid_on:", "confusion", ("confusion.matrix", "confusion.mistakes"), widgets=True),
    Page("Operating point", ":material/tune:", "operating", ("operating_points.every_class",), widgets=True),
    Page(
        "Calibration and discrimination",
        ":material/ssid_chart:",
        "calibration",
        ("calibration.probabilities", "calibration.ranking"),
        widgets=True,
    ),
    Page(
        "Shortcuts and subgroups",
        ":material/troubleshoot:",
        "shortcuts",
        ("shortcuts.without_the_lung", "subgroups.by_attribute"),
    ),
    Page("Compare", ":material/compare_arrows:", "comparison", (), widgets=True),
    Page("Sign-off", ":material/fact_check:", "signoff", ("decisions.current", "decisions.history"), widgets=True),
)


def builder(name: str) -> Builder:
    module, function = name.split(".")
    return getattr(import_module(f"fedpdc_med.review.sections.{module}"), function)


def needed(made: Callable[..., Any], choice: Choice) -> tuple[Choice, ...]:
    """The choice as an argument, for a section that takes it: one that does not is the same for every choice."""
    return (choice,) if "choice" in inspect.signature(made).parameters else ()


def build(made: Builder, run: Run, choice: Choice, *inputs: Any) -> Section:
    return made(run, *needed(made, choice), *inputs)


def chosen(run: Run, choice: Choice) -> pd.DataFrame:
    """The predictions that a section is about; a page cannot be empty."""
    frame = films(run, choice)
    if frame.empty:
        raise UserError("This model has no predictions on these films; choose other films in the sidebar.")
    return frame


def films_of(split: str) -> str:
    """The chosen films in words."""
    return f"{split} ({SPLITS[split]})" if split in SPLITS else split


def without_empty(table: pd.DataFrame) -> pd.DataFrame:
    """A table of text without the column of notes where there are none."""
    return table.drop(columns="note") if "note" in table and not table["note"].any() else table
