"""Calibration and discrimination: do the probabilities mean what they say, and do they rank films right?"""

import pandas as pd
import streamlit as st

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.calibration import Calibration, calibration, expected_calibration_error, reliability
from fedpdc_med.evaluation.discrimination import discrimination, precision_recall, roc
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.figures.calibration import curves_figure, reliability_figure
from fedpdc_med.review.sections import tables
from fedpdc_med.runs.listing import Choice, RunView, films
from fedpdc_med.runs.predictions import spoken

CALLED = "the class each film is called"
MOST_CURVES = 6


@st.cache_data(max_entries=64, show_spinner=False)
def numbers_of(mark: str, model: str, split: str, _frame: pd.DataFrame) -> tuple[Calibration, pd.DataFrame]:
    return calibration(_frame), discrimination(_frame)


@st.cache_data(max_entries=128, show_spinner=False)
def reliability_of(mark: str, model: str, split: str, label: str | None, _frame: pd.DataFrame) -> pd.DataFrame:
    return reliability(_frame, label)


@st.cache_data(max_entries=256, show_spinner=False)
def curves_of(mark: str, model: str, split: str, label: str, _frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    return roc(_frame, label), precision_recall(_frame, label)


def page(view: RunView, choice: Choice) -> None:
    frame = films(view, choice)
    if frame.empty:
        raise UserError("This model has no predictions on these films; choose other films in the sidebar.")
    overall, areas = numbers_of(view.fingerprint, choice.model, choice.split, frame)
    show_calibration(view, choice, frame, overall)
    show_discrimination(view, choice, frame, areas)


def show_calibration(view: RunView, choice: Choice, frame: pd.DataFrame, overall: Calibration) -> None:
    st.subheader("Does a probability of 0.8 mean eight times out of ten?", anchor=False)
    st.markdown(look.plain(f"{look.count(overall.films, 'film')}: {look.films_of(choice.split)}."))
    for column, (name, value, below) in zip(
        st.columns(3),
        (
            ("Brier score", overall.brier, "0 is best, 2 worst; all classes together"),
            ("Brier score of knowing only the class shares", overall.brier_of_prevalence, "a useful model is below it"),
            ("Expected calibration error", overall.ece, "mean gap between promised and came true, of the called class"),
        ),
        strict=True,
    ):
        with column:
            look.number(name, f"{value:.3f}", [below])
    shown = st.selectbox(
        "Probabilities of",
        [None, *view.classes],
        key="calibration_class",
        format_func=lambda label: CALLED if label is None else spoken(label),
    )
    curve = reliability_of(view.fingerprint, choice.model, choice.split, shown, frame)
    look.chart(reliability_figure(curve), "reliability", "Promised probability against the share that came true")
    of = CALLED if shown is None else spoken(shown)
    st.caption(
        "Points below the dotted line: the model promises too much. Lines are 95 % intervals; the bars count the films "
        f"of each bin. Expected calibration error of {look.plain(of)}: {expected_calibration_error(curve):.3f}."
    )


def show_discrimination(view: RunView, choice: Choice, frame: pd.DataFrame, areas: pd.DataFrame) -> None:
    st.subheader("Does a film of a class get a higher probability than the others?", anchor=False)
    look.table(tables.areas(areas))
    st.caption(
        "Each class against the rest. AUC: chance that a film of the class outranks one of another class (0.5 is "
        "guessing). Average precision: to be held against the share of the class, which is what guessing gives."
    )
    known = areas.loc[areas["auc"].notna(), ["class", "auc"]].sort_values("auc", kind="stable")
    if known.empty:
        return
    worst = [str(name) for name in known["class"].head(MOST_CURVES)]
    drawn = [label for label in view.classes if label in worst]
    if len(view.classes) > MOST_CURVES:
        drawn = st.multiselect(
            "Classes drawn (the hardest to tell, unless you choose)",
            view.classes,
            drawn,
            key=f"curves {view.name} {choice.model} {choice.split}",
            format_func=spoken,
        )
    curves = {label: curves_of(view.fingerprint, choice.model, choice.split, label, frame) for label in drawn}
    left, right = st.columns(2)
    with left:
        figure = curves_figure(
            {label: pair[0] for label, pair in curves.items()},
            view.classes,
            "false_positive_rate",
            "sensitivity",
            ("1 - specificity", "sensitivity"),
            diagonal=True,
        )
        st.markdown("**ROC**, one class against the rest")
        look.chart(figure, "roc", "ROC curves, one class against the rest")
    with right:
        figure = curves_figure(
            {label: pair[1] for label, pair in curves.items()},
            view.classes,
            "recall",
            "precision",
            ("recall", "precision"),
            diagonal=False,
        )
        st.markdown("**Precision and recall**, one class against the rest")
        look.chart(figure, "precision_recall", "Precision-recall curves, one class against the rest")
