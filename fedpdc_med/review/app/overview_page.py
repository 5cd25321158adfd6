"""Overview: what was trained, by whom, what for, and the three numbers that matter."""

from collections.abc import Iterable

import pandas as pd
import streamlit as st

from fedpdc_med.evaluation.recall import Estimate
from fedpdc_med.evaluation.sites import Headline
from fedpdc_med.review import model_facts as facts
from fedpdc_med.review.app import cache as remembered
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.figures.overview import training_bars
from fedpdc_med.runs.listing import Choice, RunView, reported

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
    there = beside_it(choice)
    other = remembered.numbers(*there) if there else None
    columns = st.columns(3)
    with columns[0]:
        worst = found.worst
        of = f"{worst.correct} of {worst.total} films found" if worst.total else ""
        second = f"second run: {inside(other.worst, named(*there, other))}" if there and other else ""
        lines = [named(view, choice, found), between(worst), of, worst.note, second]
        look.number("Worst-class recall", look.share(worst.value), lines, warn=worst.low < 0.5)
    with columns[1]:
        second = f"second run: {inside(other.macro)}" if other else ""
        lines = ["mean of the classes", between(found.macro), found.macro.note, second]
        look.number("Macro recall", look.share(found.macro.value), lines)
    with columns[2]:
        outside(view, choice, found, second_outside(found, there[0], other) if there and other else "")
    st.caption(SMALL_PART)


def outside(view: RunView, choice: Choice, found: Headline, second: str) -> None:
    label = "Macro recall at a site outside"
    if found.drop is None:
        why = "these are the outside films" if choice.split == "external" else "no site stayed outside the training"
        look.number(label, look.NOT_ESTIMABLE, [why])
        return
    drop = found.drop.macro
    where = f"at {view.title_of(found.outside)}, which took no part"
    lines = [where, facts.worst_of(found), facts.changed_by(drop, choice.split), drop.note, second]
    look.number(label, look.share(found.drop.level), lines, warn=drop.low > 0)


def second_outside(found: Headline, second: RunView, other: Headline) -> str:
    """The second run at the same site; where it has none of its films, at another one, which is named."""
    if found.outside in other.drops:
        return f"second run there: {look.share(other.drops[found.outside].level)}"
    if other.drop is None:
        return ""
    return f"second run, at {second.title_of(other.outside)}: {look.share(other.drop.level)}"


def beside_it(choice: Choice) -> tuple[RunView, Choice] | None:
    """The second run on the same films, with the same model where it has it."""
    second = choice.second
    if second is None or second.status != "finished" or choice.split not in second.splits:
        return None
    models = second.models_on(choice.split)
    model = choice.model if choice.model in models else models[0]
    return second, Choice(split=choice.split, interval=choice.interval, model=model)


def named(view: RunView, choice: Choice, found: Headline) -> str:
    return facts.worst_named(found.worst, remembered.recall(view, choice))


def between(estimate: Estimate) -> str:
    text = look.between(estimate.low, estimate.high)
    return f"95 % interval {text}" if text else ""


def inside(estimate: Estimate, name: str = "") -> str:
    of = f" ({name})" if name else ""
    return f"{look.share(estimate.value)}{of}, {look.between(estimate.low, estimate.high)}"


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
