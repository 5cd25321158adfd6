"""Overview: what was trained, by whom, what for, and the three numbers that matter."""

from collections.abc import Iterable

import pandas as pd
import streamlit as st

from fedpdc_med.evaluation.predictions import spoken
from fedpdc_med.evaluation.recall import Estimate
from fedpdc_med.evaluation.sites import Headline
from fedpdc_med.review import facts, look, remembered
from fedpdc_med.review.figures.overview import training_bars
from fedpdc_med.review.library import Choice, RunView, reported

SMALL_PART = "Estimates, not facts: mind the 95 % intervals, and that the worst class was picked after looking."


def page(view: RunView, choice: Choice) -> None:
    found = None
    if view.status == "finished":
        found = remembered.numbers(view, choice)
        three_numbers(view, choice, found)
    use(view, choice, found)
    trained(view)


def three_numbers(view: RunView, choice: Choice, found: Headline) -> None:
    st.subheader("The three numbers that matter", anchor=False)
    st.caption(look.plain(f"Films: {look.films_of(choice.split)}. Model: {view.title_of(choice.model)}."))
    other = second_numbers(choice)
    columns = st.columns(3)
    with columns[0]:
        worst = found.worst
        of = f"{worst.correct} of {worst.total} films found" if worst.total else ""
        lines = [spoken(worst.name), between(worst), of, worst.note, beside(other.worst if other else None, True)]
        look.number("Worst-class recall", look.share(worst.value), lines, warn=worst.low < 0.5)
    with columns[1]:
        lines = ["mean of the classes", between(found.macro), found.macro.note, beside(other.macro if other else None)]
        look.number("Macro recall", look.share(found.macro.value), lines)
    with columns[2]:
        outside(view, choice, found, other)
    st.caption(SMALL_PART)


def outside(view: RunView, choice: Choice, found: Headline, other: Headline | None) -> None:
    label = "Macro recall at a site outside"
    if found.drop is None:
        why = "these are the outside films" if choice.split == "external" else "no site stayed outside the training"
        look.number(label, look.NOT_ESTIMABLE, [why])
        return
    drop = found.drop.macro
    where = f"at {view.title_of(found.outside)}, which took no part"
    second = f"second run: {look.share(other.drop.level)}" if other and other.drop else ""
    lines = [where, facts.changed_by(drop, choice.split), drop.note, second]
    look.number(label, look.share(found.drop.level), lines, warn=drop.low > 0)


def second_numbers(choice: Choice) -> Headline | None:
    second = choice.second
    if second is None or second.status != "finished" or choice.split not in second.splits:
        return None
    models = second.models_on(choice.split)
    model = choice.model if choice.model in models else models[0]
    return remembered.numbers(second, Choice(split=choice.split, interval=choice.interval, model=model))


def between(estimate: Estimate) -> str:
    text = look.between(estimate.low, estimate.high)
    return f"95 % interval {text}" if text else ""


def beside(estimate: Estimate | None, named: bool = False) -> str:
    if estimate is None:
        return ""
    name = f" ({spoken(estimate.name)})" if named else ""
    return f"second run: {look.share(estimate.value)}{name}, {look.between(estimate.low, estimate.high)}"


def use(view: RunView, choice: Choice, found: Headline | None) -> None:
    left, right = st.columns(2)
    with left:
        st.subheader("Intended use", anchor=False)
        bullets(facts.intended_use(view))
    with right:
        st.subheader("When not to use it", anchor=False)
        if found is not None:  # what to beware of does not change with the films that a reader happens to look at
            choice = reported(view, choice)
            found = remembered.numbers(view, choice)
        bullets(facts.not_to_use(view, found, remembered.recall(view, choice) if found else None))


def bullets(sentences: Iterable[str]) -> None:
    st.markdown("\n".join(f"- {look.plain(sentence)}" for sentence in sentences))


def trained(view: RunView) -> None:
    st.subheader("What was trained", anchor=False)
    look.table(pd.DataFrame(facts.model_facts(view), columns=["", "this run"]))
    st.subheader("By whom, on how much", anchor=False)
    counts = facts.training_films(view)
    if len(counts.columns) and len(counts):
        titles = {name: view.title_of(name) for name in counts.index}
        look.chart(training_bars(counts, titles), "training-bars", "Training films of each class, one bar a site")
    look.table(facts.sites_table(view), "No round has been recorded yet, so the sites are not known.")
