"""Calibration and discrimination: the class whose probabilities are shown, and the curves."""

import streamlit as st

from fedpdc_med.review.app.cache import kept
from fedpdc_med.review.app.widgets import show
from fedpdc_med.review.sections import calibration as described
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice
from fedpdc_med.runs.predictions import display_name


def page(run: Run, choice: Choice) -> None:
    label = st.selectbox(
        "Probabilities of",
        [None, *run.classes],
        key="calibration_class",
        format_func=lambda one: described.PREDICTED if one is None else display_name(one),
    )
    show(kept(described.probabilities, run, choice, label))
    labels = None
    if len(run.classes) > described.MOST_CURVES:
        labels = tuple(
            st.multiselect(
                "Classes shown (default: the hardest classes)",
                run.classes,
                kept(described.first_drawn, run, choice),
                key=f"curves {run.name} {choice.model} {choice.split}",
                format_func=display_name,
            )
        )
    show(kept(described.ranking, run, choice, labels))
