"""The results of a run, described once for app and report: the pages, and the sections of each."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import pandas as pd

from fedpdc_med.common.description import Section, as_sentence
from fedpdc_med.common.errors import UserError
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, films


class Split(NamedTuple):
    """A split in words: as an option of the sidebar, in a sentence, and what films it consists of."""

    option: str
    films: str
    meaning: str


SPLITS = {
    "holdout": Split("Held-out test", "held-out test films", "public reference set, never used for training or tuning"),
    "test": Split("Test", "test images", "the benchmark's test images"),
    "external": Split("External sites", "films of external sites", "sites that did not take part in training"),
    "local": Split("Local test", "local test films", "each participating site's own, not used for training"),
    "weighting": Split(
        "Weighting (optimistic)",
        "weighting films",
        "public reference set, used to score and weight the sites; results on them are optimistic",
    ),
}
Builder = Callable[..., Section]


class Page(NamedTuple):
    """`question` is what the page answers, shown below its title.

    `name` is its address, and for one with widgets the module `app/NAME_page` that draws it. Sections are named, so
    that what they need is imported when they are first drawn: scikit-learn takes its time.
    """

    title: str
    question: str
    icon: str
    name: str
    sections: tuple[str, ...]
    widgets: bool = False


PAGES = (
    Page(
        "Overview",
        "What is this model, where is it weakest, and does it hold up at an external site?",
        ":material/summarize:",
        "overview",
        ("overview.three_numbers", "overview.uses", "overview.model", "overview.sites"),
    ),
    Page(
        "Per-class recall",
        "Which diseases does the model detect, which does it miss, and at which sites?",
        ":material/bar_chart:",
        "recall",
        ("recall.per_class", "recall.by_round", "recall.by_site", "recall.own_and_global"),
    ),
    Page(
        "Who shaped the model",
        "How much did each site count in the final model, and was any site left out?",
        ":material/groups:",
        "shaped",
        ("contributions.weights", "contributions.by_round", "contributions.not_used"),
    ),
    Page(
        "Errors",
        "What does the model confuse with what, and what do those films look like?",
        ":material/grid_on:",
        "confusion",
        ("confusion.matrix", "confusion.mistakes"),
        widgets=True,
    ),
    Page(
        "Operating point",
        "At which threshold would you act, and what would that mean for your patients?",
        ":material/tune:",
        "operating",
        ("operating_points.every_class",),
        widgets=True,
    ),
    Page(
        "Calibration and discrimination",
        "Do the probabilities mean what they say, and do they rank films correctly?",
        ":material/ssid_chart:",
        "calibration",
        ("calibration.probabilities", "calibration.ranking"),
        widgets=True,
    ),
    Page(
        "Shortcuts and subgroups",
        "Could the model be right for the wrong reasons, and does it work equally well for everyone?",
        ":material/troubleshoot:",
        "shortcuts",
        ("shortcuts.without_the_lung", "subgroups.by_attribute"),
    ),
    Page(
        "Compare",
        "Is one of these two models really better, or could the difference be chance?",
        ":material/compare_arrows:",
        "comparison",
        (),
        widgets=True,
    ),
    Page(
        "Sign-off",
        "For which classes do you accept this model, and on what evidence?",
        ":material/fact_check:",
        "signoff",
        ("decisions.current", "decisions.history"),
        widgets=True,
    ),
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
    """The predictions that a section is about; an empty page is an error with a sentence."""
    frame = films(run, choice)
    if frame.empty:
        raise UserError(
            "This model has no predictions on these films; choose others in the sidebar, under 'Evaluate on'."
        )
    return frame


def option_of(split: str) -> str:
    """A split as readers choose it in the sidebar."""
    return SPLITS[split].option if split in SPLITS else split


def named(split: str) -> str:
    """A split in a sentence, as in `held-out test films`."""
    return SPLITS[split].films if split in SPLITS else f"{split} films"


def films_of(split: str) -> str:
    """The same, with what they are."""
    return f"{named(split)} ({SPLITS[split].meaning})" if split in SPLITS else named(split)


def meaning_of(split: str) -> str:
    return as_sentence(SPLITS[split].meaning) if split in SPLITS else ""


def without_empty(table: pd.DataFrame) -> pd.DataFrame:
    """A table of text, without its column of notes if that is empty."""
    return table.drop(columns="note") if "note" in table and not table["note"].any() else table
