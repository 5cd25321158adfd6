"""What pages ask for more than once, kept by the run's fingerprint: opened runs and numbers of `evaluation`."""

from pathlib import Path

import pandas as pd
import streamlit as st

from fedpdc_med.evaluation.paired import Comparison, compare
from fedpdc_med.evaluation.recall import Method, per_class_recall
from fedpdc_med.evaluation.sites import Headline, before_and_after, headline, site_by_class
from fedpdc_med.runs.by_method import solo_beside
from fedpdc_med.runs.listing import Choice, RunView, checked_folder, films, fingerprint, open_run
from fedpdc_med.runs.predictions import GLOBAL, select

KEPT = 64  # tables of this many choices stay in memory


def opened(root: Path, name: str) -> RunView:
    return _opened(root, name, fingerprint(checked_folder(root, name)))


@st.cache_resource(max_entries=8, show_spinner="Reading the run…")
def _opened(root: Path, name: str, mark: str) -> RunView:
    """Shared by all readers and never changed; `mark` makes a run that has changed a new entry."""
    return open_run(root, name)


def recall(view: RunView, choice: Choice) -> pd.DataFrame:
    return _recall(view.fingerprint, choice.model, choice.split, choice.method, view)


@st.cache_data(max_entries=KEPT, show_spinner="Counting…")
def _recall(mark: str, model: str, split: str, interval: Method, _view: RunView) -> pd.DataFrame:
    return per_class_recall(films(_view, Choice(model=model, split=split)), interval)


def numbers(view: RunView, choice: Choice) -> Headline:
    return _numbers(view.fingerprint, choice.model, choice.split, choice.method, view)


@st.cache_data(max_entries=KEPT, show_spinner="Counting…")
def _numbers(mark: str, model: str, split: str, interval: Method, _view: RunView) -> Headline:
    assert _view.predictions is not None, "pages of an unfinished run do not ask for its numbers"
    return headline(_view.predictions, interval, model=model, split=split)


def matrix(view: RunView, choice: Choice) -> pd.DataFrame:
    return _matrix(view.fingerprint, choice.model, choice.split, choice.method, view)


@st.cache_data(max_entries=KEPT, show_spinner="Counting site by site…")
def _matrix(mark: str, model: str, split: str, interval: Method, _view: RunView) -> pd.DataFrame:
    return site_by_class(films(_view, Choice(model=model, split=split)), interval)


def own_and_global(view: RunView, split: str) -> pd.DataFrame:
    """Each site's own model beside the global one; the own models may lie in a run of `solo` on the same films."""
    solo = None if len(view.models) > 1 else solo_beside(view)
    beside = opened(view.folder.parent, solo) if solo else None
    return _own_and_global(view.fingerprint, beside.fingerprint if beside else "", split, view, beside)


@st.cache_data(max_entries=KEPT, show_spinner="Counting site by site…")
def _own_and_global(mark: str, mark_of_solo: str, split: str, _view: RunView, _solo: RunView | None) -> pd.DataFrame:
    assert _view.predictions is not None, "pages of an unfinished run do not ask for its numbers"
    if _solo is None or _solo.predictions is None:
        return before_and_after(_view.predictions, split)
    together = [select(_view.predictions, model=GLOBAL, split=split), select(_solo.predictions, split=split)]
    return before_and_after(pd.concat(together, ignore_index=True), split)


def compared(view: RunView, choice: Choice, second: RunView, model: str) -> Comparison:
    return _compared(view.fingerprint, second.fingerprint, choice.model, model, choice.split, view, second)


@st.cache_data(max_entries=KEPT, show_spinner="Pairing films…")
def _compared(
    mark: str, second_mark: str, model: str, second_model: str, split: str, _first: RunView, _second: RunView
) -> Comparison:
    return compare(
        films(_first, Choice(model=model, split=split)), films(_second, Choice(model=second_model, split=split))
    )
