"""Shortcuts and subgroups: could the model score high without the lung, and is it as good for everybody?"""

import pandas as pd
import streamlit as st

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.confounding import Finding
from fedpdc_med.evaluation.recall import Method
from fedpdc_med.evaluation.subgroups import ATTRIBUTES, FEWEST, subgroup_recall
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.figures.shortcuts import areas_figure
from fedpdc_med.review.film_images import open_shelf
from fedpdc_med.review.model_facts import is_medical
from fedpdc_med.review.sections import tables
from fedpdc_med.review.sections.shortcuts import Checked, check
from fedpdc_med.runs.listing import Choice, RunView, films

SHOWN = {
    "alarm": (st.error, ":material/warning:", "Alarm"),
    "watch": (st.warning, ":material/visibility:", "Watch"),
    "fine": (st.success, ":material/check:", "Fine"),
    "not estimable": (st.info, ":material/question_mark:", "Not estimable"),
}


@st.cache_data(max_entries=16, show_spinner="Guessing classes without looking at the lung; this takes some seconds…")
def checked(mark: str, model: str, _view: RunView, _frame: pd.DataFrame) -> Checked:
    return check(open_shelf(_view) if is_medical(_view) else None, _frame, _view.classes, _view.sites)


@st.cache_data(max_entries=64, show_spinner=False)
def by_subgroup(mark: str, model: str, split: str, interval: Method, _frame: pd.DataFrame) -> pd.DataFrame:
    return subgroup_recall(_frame, interval)


def page(view: RunView, choice: Choice) -> None:
    frame = films(view, choice)
    if frame.empty or view.predictions is None:
        raise UserError("This model has no predictions on these films; choose other films in the sidebar.")
    show_shortcuts(checked(view.fingerprint, choice.model, view, view.predictions), view.classes)
    show_subgroups(view, choice, by_subgroup(view.fingerprint, choice.model, choice.split, choice.method, frame))


def show_shortcuts(found: Checked, classes: list[str]) -> None:
    st.subheader("Can a class be guessed without looking at the lung?", anchor=False)
    if found.findings:
        st.markdown(
            f"Simple guesses on {look.count(found.films, 'film')} of {look.plain(found.whose)}, none of which sees "
            "more of the lung than a 16 by 16 picture. A model can use the same shortcuts, and then fails elsewhere. "
            "Judged by the lower end of each interval."
        )
    for finding in found.findings:
        show_finding(finding, classes)
    if found.not_checked:
        st.markdown("**Not checked**")
        for sentence in found.not_checked:
            st.markdown(f"- {look.plain(sentence)}")


def show_finding(finding: Finding, classes: list[str]) -> None:
    box, icon, word = SHOWN[finding.verdict]
    with st.container(border=True):
        box(f"**{word}: {look.plain(finding.name)}.** {look.plain(finding.sentence)}", icon=icon)
        if "auc" not in finding.table:
            look.table(tables.source_counts(finding.table, classes))
        elif not finding.table.empty:
            look.chart(areas_figure(finding.table), f"areas {finding.name}", f"Areas: {finding.name}")


def show_subgroups(view: RunView, choice: Choice, table: pd.DataFrame) -> None:
    st.subheader("Is it as good for everybody?", anchor=False)
    st.markdown(look.plain(f"Recall of each class by subgroup, on {look.films_of(choice.split)}."))
    recorded = [name for name in ATTRIBUTES if (table["attribute"] == name).any()]
    for attribute in recorded:
        st.markdown(f"**By {tables.ATTRIBUTE_NAMES[attribute]}**")
        look.table(tables.subgroups(table, attribute, view.classes))
    absent = [tables.ATTRIBUTE_NAMES[name] for name in ATTRIBUTES if name not in recorded]
    if absent:
        st.info(f"Not recorded for these films, so not checked: {', '.join(absent)}.")
    if recorded:
        st.caption(
            f"Recall with its 95 % interval, found of all films. Not shown: cells of fewer than {FEWEST} patients, and "
            "those from which they could be worked out."
        )
