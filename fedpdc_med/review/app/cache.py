"""What pages ask for more than once: opened runs, their images and model, and whatever is worked out for a choice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st
from torch import nn

from fedpdc_med.review.film_images import RunImages, images_of
from fedpdc_med.review.sections import build, needed
from fedpdc_med.runs.directory import Run, cache_key
from fedpdc_med.runs.listing import Choice, checked_folder, open_run

T = TypeVar("T")


def opened(root: Path, name: str) -> Run:
    return _opened(root, name, cache_key(checked_folder(root, name)))


@st.cache_resource(max_entries=8, show_spinner="Reading the run…")
def _opened(root: Path, name: str, mark: str) -> Run:
    """Shared by all readers and never changed; `mark` makes a run that has changed a new entry."""
    return open_run(root, name)


def kept(made: Callable[..., T], run: Run, choice: Choice, *inputs: Any) -> T:
    """The result of `made` for a run, for the choice if it takes one; `inputs` are its other arguments."""
    said = [(one.second and one.second.cache_key, one.split, one.interval, one.model) for one in needed(made, choice)]
    return _kept(f"{made.__module__}.{made.__name__}", run.cache_key, said, inputs, made, run, choice)


@st.cache_data(max_entries=512, show_spinner="Calculating…")
def _kept(name: str, mark: str, said: list, inputs: tuple, _made: Any, _run: Run, _choice: Choice) -> Any:
    return build(_made, _run, _choice, *inputs)


def images(run: Run) -> RunImages:
    return _images(run.cache_key, run)


@st.cache_resource(max_entries=4, show_spinner="Looking for the films on this machine…")
def _images(mark: str, _run: Run) -> RunImages:
    return images_of(_run)


def model(run: Run) -> nn.Module:
    return _model(run.cache_key, run)


@st.cache_resource(max_entries=4, show_spinner=False)
def _model(mark: str, _run: Run) -> nn.Module:
    from fedpdc_med.review.gradcam import load_model

    return load_model(_run)
