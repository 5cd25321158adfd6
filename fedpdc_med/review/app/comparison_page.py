"""Compare: the second run's model that the chosen one is compared with."""

import streamlit as st

from fedpdc_med.common.errors import UserError
from fedpdc_med.review.app.cache import kept
from fedpdc_med.review.app.widgets import show
from fedpdc_med.review.sections import named
from fedpdc_med.review.sections.comparison import paired
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, unfinished


def page(run: Run, choice: Choice) -> None:
    if run.status != "finished":
        raise UserError(unfinished(run))
    second = choice.second
    if second is None:
        st.info("Choose a second run in the sidebar, under 'Compare with'.")
        return
    if choice.split not in second.splits:
        raise UserError(
            f"The second run has no predictions on {named(choice.split)}; choose other films or another run."
        )
    models = second.models_on(choice.split)
    model = models[0]
    if len(models) > 1:
        index = models.index(choice.model) if choice.model in models else 0
        model = st.selectbox("Model of the second run", models, index=index, format_func=second.title_of)
    show(kept(paired, run, choice, model))
