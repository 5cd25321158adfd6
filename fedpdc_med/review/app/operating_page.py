"""Operating point: where a class starts to be called, and what that means for a reader's own patients."""

import math

import pandas as pd
import streamlit as st

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.confusion import normal_class
from fedpdc_med.evaluation.operating_points import (
    REPORTED,
    Rule,
    Threshold,
    choose_threshold,
    predictive_by_rest,
    threshold_table,
    with_predictive_values,
)
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.figures.operating import threshold_figure
from fedpdc_med.review.sections import tables
from fedpdc_med.runs.listing import Choice, RunView, films
from fedpdc_med.runs.predictions import select, spoken

CHOOSING = ("weighting", "local")  # films that may choose a threshold, the balanced ones first
WHICH = {"weighting": "the reference's weighting films", "local": "the sites' own test films"}
RULES: dict[str, Rule] = {
    "best balance (Youden)": "youden",
    "a wanted sensitivity": "sensitivity",
}


def choosing_split(view: RunView, choice: Choice) -> str | None:
    """Films that are neither shown nor ever reported; None in a run that has no others."""
    if view.predictions is None:
        return None
    mine = select(view.predictions, model=choice.model)
    present = set(mine["split"].unique()) - set(REPORTED) - {choice.split}
    return next((split for split in CHOOSING if split in present), None)


def others_of(view: RunView, choice: Choice, split: str) -> pd.DataFrame:
    assert view.predictions is not None
    return select(view.predictions, model=choice.model, split=split)


@st.cache_data(max_entries=256, show_spinner=False)
def chosen_threshold(
    mark: str, model: str, split: str, label: str, rule: Rule, wanted: float, _frame: pd.DataFrame
) -> Threshold:
    return choose_threshold(_frame, label, rule, wanted)


@st.cache_data(max_entries=256, show_spinner=False)
def curve_of(mark: str, model: str, split: str, label: str, _frame: pd.DataFrame) -> pd.DataFrame:
    return threshold_table(_frame, label)


def page(view: RunView, choice: Choice) -> None:
    frame = films(view, choice)
    if frame.empty:
        raise UserError("This model has no predictions on these films; choose other films in the sidebar.")
    split = choosing_split(view, choice)
    if split is None:
        st.warning(
            "This run has predictions of the reported films only, so no threshold can be chosen on other films. What "
            "you choose with the slider is chosen on the films that report it, and flatters.",
            icon=":material/warning:",
        )
    else:
        st.markdown(
            f"Thresholds are chosen on {WHICH[split]}, and their sensitivity and specificity are of other films: "
            f"{look.plain(look.films_of(choice.split))}."
        )
    left, middle, right = st.columns(3)
    if st.session_state.get("operating_class") not in view.classes:
        st.session_state["operating_class"] = next(name for name in view.classes if name != normal_class(view.classes))
    label = left.selectbox("Class", view.classes, key="operating_class", format_func=spoken)
    chosen = None
    if split is not None:
        rule = middle.selectbox("Choose the threshold by", list(RULES), key="operating_rule")
        wanted = 0.9
        if RULES[rule] == "sensitivity":
            wanted = right.number_input("Sensitivity to reach", 0.5, 1.0, 0.9, 0.01, key="operating_wanted")
        others = others_of(view, choice, split)
        chosen = chosen_threshold(view.fingerprint, choice.model, split, label, RULES[rule], wanted, others)
    if not (frame["label"] == label).any():
        st.info(look.plain(f"There are no films of {spoken(label)} here: its sensitivity is not estimable."))
    if chosen is not None and chosen.note:
        st.info(look.plain(f"{chosen.note[0].upper()}{chosen.note[1:]}."))
    explore(view, choice, frame, label, chosen, split)
    if split is not None:
        st.subheader("Every class at its chosen threshold", anchor=False)
        others, by = others_of(view, choice, split), (RULES[rule], wanted)
        mark = view.fingerprint
        look.table(every_class(mark, choice.model, choice.split, split, view.classes, by, frame, others))
        how = {
            "youden": "Best balance: the best sum of sensitivity and specificity (Youden)",
            "sensitivity": f"The highest threshold with a sensitivity of at least {wanted:g}",
        }[RULES[rule]]
        st.caption(
            f"{how} on {WHICH[split]}. Sensitivity at a threshold is not the recall of the other pages, where a film "
            "is called the most probable class: a low threshold calls one film several things."
        )


@st.fragment
def explore(
    view: RunView, choice: Choice, frame: pd.DataFrame, label: str, chosen: Threshold | None, split: str | None
) -> None:
    """The slider and all that moves with it; a fragment, so that the rest of the page stays as it is."""
    known = chosen is not None and not math.isnan(chosen.value)
    start = tables.usable(chosen.value) if chosen is not None and known else 0.5
    sliding, prevailing = st.columns([2, 1])
    places = tables.decimals(start)
    key = f"operating_at {view.name} {choice.model} {choice.split} {label} {start:.{places}f}"
    at = sliding.slider("Threshold", 0.0, 1.0, start, 10.0**-places, format=f"%.{places}f", key=key)
    percent = prevailing.number_input(
        f"Prevalence of {look.plain(spoken(label))} where it is used (%)",
        0.0,
        100.0,
        10.0,
        1.0,
        key="operating_prevalence",
    )
    row = with_predictive_values(threshold_table(frame, label, [at]), percent / 100).iloc[0]
    positives, negatives = int(row["tp"] + row["fn"]), int(row["tn"] + row["fp"])
    numbers = (
        ("sensitivity", f"{int(row['tp'])} of {positives} films found"),
        ("specificity", f"{int(row['tn'])} of {negatives} other films left alone"),
        ("ppv", f"of those called {spoken(label)}, at {percent:g} % prevalence"),
        ("npv", f"of those not called {spoken(label)}, at {percent:g} % prevalence"),
    )
    names = {
        "ppv": "Positive predictive value (PPV)",
        "npv": "Negative predictive value (NPV)",
        "sensitivity": "Sensitivity",
        "specificity": "Specificity",
    }
    for column, (name, what) in zip(st.columns(4), numbers, strict=True):
        with column:
            inside = look.between(row[f"{name}_low"], row[f"{name}_high"])
            look.number(names[name], look.share(row[name]), [inside and f"95 % interval {inside}", what])
    if split is not None and (not known or at != start):
        st.info("This threshold is your own, chosen on the films that report it: its numbers flatter.")
    show_rest(frame, label, at, percent)
    table = curve_of(view.fingerprint, choice.model, choice.split, label, frame)
    figure = threshold_figure(table, at, start if known else None, WHICH.get(split or "", ""))
    look.chart(figure, "operating_curve", "Sensitivity and specificity against the threshold")
    st.caption(
        "The black line is the threshold of the slider. One class against the rest: a film is called "
        f"{look.plain(spoken(label))} when its probability is at or above the threshold, whatever the other classes "
        "get. The intervals of PPV and NPV take both ends of sensitivity and specificity at once."
    )


def show_rest(frame: pd.DataFrame, label: str, at: float, percent: float) -> None:
    """What the predictive values hang on besides the prevalence: which other classes the other patients have."""
    rest = predictive_by_rest(frame, label, at, percent / 100)
    if len(rest) < 2:
        return
    each = ", ".join(f"{spoken(row['class'])} {look.share(row['ppv'])}" for row in rest.to_dict("records"))
    st.markdown(
        look.plain(
            f"PPV and NPV take the other patients in the mix of these films, which need not be yours. Were all of "
            f"them of one class, PPV would be, by that class: {each}."
        )
    )


@st.cache_data(max_entries=64, show_spinner=False)
def every_class(
    mark: str,
    model: str,
    split: str,
    choosing: str,
    classes: list[str],
    by: tuple[Rule, float],
    _frame: pd.DataFrame,
    _others: pd.DataFrame,
) -> pd.DataFrame:
    return tables.operating(_frame, _others, classes, *by)
