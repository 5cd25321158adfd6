"""Per-class recall: each class with n/N and its interval, worst first; over rounds; site by class; before and after."""

import pandas as pd
import streamlit as st

from fedpdc_med.evaluation.contributions import recall_rounds
from fedpdc_med.evaluation.recall import SMALL, WIDE
from fedpdc_med.review.app import cache as remembered
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.figures import recall as figures
from fedpdc_med.review.figures.lines import over_rounds
from fedpdc_med.review.model_facts import is_medical
from fedpdc_med.runs.listing import Choice, RunView
from fedpdc_med.runs.predictions import GLOBAL, spoken


def page(view: RunView, choice: Choice) -> None:
    if view.status == "finished":
        classes(view, choice)
    rounds(view)
    if view.status == "finished":
        site_by_class(view, choice)
        before_and_after(view, choice)


def classes(view: RunView, choice: Choice) -> None:
    table = remembered.recall(view, choice)
    st.caption(
        look.plain(
            f"Films: {look.films_of(choice.split)}. Model: {view.title_of(choice.model)}. Worst class "
            "first; bars are 95 % intervals."
        )
    )
    look.chart(figures.class_intervals(table), "class-intervals", "Recall of each class with its 95 % interval")
    look.table(as_text(table))
    st.caption(
        f"An open circle and a note mark small numbers: fewer than {SMALL} patients, or an interval wider than {WIDE}. "
        "By patient means Wilson's interval, several films of one patient counting for what they are worth; "
        "the exact one takes every film for a patient of its own."
    )


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    shown = pd.DataFrame(
        {
            "class": table["class"].map(spoken),
            "found": [f"{row['correct']}/{row['total']}" for row in table.to_dict("records")],
            "recall": table["recall"].map(look.share),
            "95 % interval": [look.between(row["low"], row["high"]) for row in table.to_dict("records")],
            "interval by": table["method"],
            "note": table["note"],
        }
    )
    return shown if table["note"].any() else shown.drop(columns="note")


def rounds(view: RunView) -> None:
    st.subheader("Over the rounds", anchor=False)
    if not view.rounds:
        st.info("No round has been recorded yet.")
        return
    whose = "mean of the sites' own models" if view.method == "solo" else "global model"
    st.caption(f"Recall of the {whose} after each round, on films that nothing was trained or chosen on.")
    table = recall_rounds(view.rounds, view.classes)
    names = {name: spoken(name) for name in view.classes}
    figure = over_rounds(table.set_index("round")[view.classes], "Recall", "Class", names)
    look.chart(figure, "recall-rounds", "Recall of each class after each round")


def site_by_class(view: RunView, choice: Choice) -> None:
    st.subheader("Site by class", anchor=False)
    split = choice.split if choice.split in ("local", "external") or "local" not in view.splits else "local"
    table = remembered.matrix(view, Choice(split=split, interval=choice.interval, model=choice.model))
    if len(table) == 0 or set(table["site"]) <= {""}:
        st.info("The images of this run belong to no site, so there is nothing to tell apart.")
        return
    filled = table[table["total"] > 0]
    few = int((filled["patients"] < SMALL).sum())
    st.caption(
        look.plain(
            f"Films: {look.films_of(split)}. Each cell: films found / films of the class; {look.NONE} where there are "
            f"none. {few} of {len(filled)} cells rest on fewer than {SMALL} patients: read them as hints."
        )
    )
    titles = {site: view.title_of(site) for site in table["site"].unique()}
    look.chart(figures.site_matrix(table, view.classes, titles), "site-matrix", "Recall by site and class with counts")
    if len(view.classes) > figures.MANY:
        look.table(counts_table(table, view))


def counts_table(table: pd.DataFrame, view: RunView) -> pd.DataFrame:
    """The counts as text, a row a site, where cells of the figure are too small for them."""
    cells = table.assign(cell=table["correct"].astype(str) + "/" + table["total"].astype(str))
    wide = cells.pivot(index="site", columns="class", values="cell")[view.classes].rename(columns=spoken)
    wide.insert(0, "site", [view.title_of(site) for site in wide.index])
    return wide.reset_index(drop=True)


def before_and_after(view: RunView, choice: Choice) -> None:
    st.subheader("Before and after federation", anchor=False)
    if GLOBAL not in view.models:
        st.info("This run shares nothing: every site keeps its own model. Choose a run with a global model.")
        return
    split = choice.split
    table = remembered.own_and_global(view, split)
    if len(table) == 0 and "local" in view.splits:
        split = "local"  # a site's own model may have seen its own films only
        table = remembered.own_and_global(view, split)
    if len(table) == 0:
        command = "fedpdc simulate --compare solo" if is_medical(view) else "fedpdc benchmark run --method solo"
        st.info(
            "This run has no site models to compare with. Train each site alone on the same films and seed, and its "
            f"models are shown here: {command}"
        )
        return
    own = "its own test films" if split == "local" else f"the same films of {split}"
    st.caption(
        look.plain(
            f"Each site's own model, trained alone, beside the global one on {own}: recall before → after. "
            "Blue: better together. Orange: better alone."
        )
    )
    titles = {site: view.title_of(site) for site in table["site"].unique()}
    figure = figures.own_beside_global(table, view.classes, titles)
    look.chart(figure, "own-and-global", "Recall of each site's own model and of the global one, class by class")
