"""Operating point: a threshold chosen by a rule or by the reader, and its results."""

import math

import pandas as pd
import streamlit as st

from fedpdc_med.evaluation.confusion import normal_class
from fedpdc_med.evaluation.operating_points import Rule, Threshold
from fedpdc_med.review.app.cache import kept
from fedpdc_med.review.app.widgets import plain, show
from fedpdc_med.review.sections import chosen
from fedpdc_med.review.sections import operating_points as described
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice
from fedpdc_med.runs.predictions import display_name

RULES: dict[str, Rule] = {
    "best balance (Youden)": "youden",
    "target sensitivity": "sensitivity",
}
LABEL = "operating_class"


def page(run: Run, choice: Choice) -> None:
    frame = chosen(run, choice)
    where = described.where_chosen(run, choice)
    left, middle, right = st.columns(3)
    if st.session_state.get(LABEL) not in run.classes:
        st.session_state[LABEL] = next(name for name in run.classes if name != normal_class(run.classes))
    label = left.selectbox("Class", run.classes, key=LABEL, format_func=display_name)
    found: Threshold | None = None
    by: tuple[Rule, float] | tuple[()] = ()
    if where:
        rule = RULES[middle.selectbox("Choose the threshold by", list(RULES), key="operating_rule")]
        wanted = 0.9
        if rule == "sensitivity":
            wanted = right.number_input("Target sensitivity", 0.5, 1.0, 0.9, 0.01, key="operating_wanted")
        by = (rule, wanted)
        found = kept(described.threshold, run, choice, label, *by)
    for sentence in described.caveats(frame, label, found):
        st.info(plain(sentence))
    explore(run, choice, frame, label, found, where)
    show(kept(described.every_class, run, choice, *by))


@st.fragment
def explore(run: Run, choice: Choice, frame: pd.DataFrame, label: str, found: Threshold | None, where: str) -> None:
    """The slider and all that moves with it; a fragment, so that the rest of the page stays as it is."""
    known = found is not None and not math.isnan(found.value)
    start = described.usable(found.value) if found is not None and known else 0.5
    sliding, prevailing = st.columns([2, 1])
    places = described.decimals(start)
    key = f"operating_at {run.name} {choice.model} {choice.split} {label} {start:.{places}f}"
    at = sliding.slider("Threshold", 0.0, 1.0, start, 10.0**-places, format=f"%.{places}f", key=key)
    asked = f"Your prevalence of {plain(display_name(label))} (%)"
    percent = prevailing.number_input(asked, 0.0, 100.0, 10.0, 1.0, key="operating_prevalence")
    if not known or at != start:
        st.info(described.OWN)
    curve = kept(described.curve, run, choice, label)
    show(described.at_threshold(frame, curve, label, at, percent, start if known else None, where))
