"""Recall per class with n/N and its CI, worst first; by round; by site; local-only compared with federated."""

from typing import Any

import pandas as pd

from fedpdc_med.common.description import NONE, NOT_ESTIMABLE, Chart, Section, Table, between, two_decimals
from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.contributions import MACRO, recall_rounds
from fedpdc_med.evaluation.recall import SMALL, WIDE, per_class_recall
from fedpdc_med.evaluation.sites import before_and_after, site_by_class
from fedpdc_med.review.model_facts import is_medical
from fedpdc_med.review.sections import chosen, films_of, named, without_empty
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, films, open_run, solo_beside
from fedpdc_med.runs.predictions import GLOBAL, display_name, select

MANY, ACROSS = 12, 6  # columns up to which numbers fit into the cells of a picture, and text into those of a table
BY_SITE = ("local", "external")


def per_class(run: Run, choice: Choice) -> Section:
    found = per_class_recall(chosen(run, choice), choice.interval)
    shown = pd.DataFrame(
        {
            "name": found["class"].map(display_name),
            **found[["low", "high"]],
            "value": found["recall"],
            "open": found["small"],
            "beside": [_of(row) for row in found.to_dict("records")],
        }
    )
    chart = Chart(
        "intervals",
        shown,
        ("Recall (proportion classified correctly)", "Class"),
        "Recall of each class with its 95% CI",
        {"span": (-0.01, 1.01)},
    )
    return Section(
        "Recall of each class",
        (
            f"Evaluated on {films_of(choice.split)}. Model: {run.title_of(choice.model)}. Worst class first; bars are "
            "95% CIs.",
        ),
        charts=(chart,),
        tables=(Table("", recall_text(found)),),
        notes=(
            f"Open circles: fewer than {SMALL} patients, or a CI wider than {WIDE}. CI method: Wilson, adjusted for "
            "several films of one patient (by patient), or exact (Clopper-Pearson), which treats every film as "
            "independent.",
        ),
    )


def recall_text(found: pd.DataFrame) -> pd.DataFrame:
    """From `per_class_recall`."""
    shown = pd.DataFrame(
        {
            "class": found["class"].map(display_name),
            "correct": [_of(row, f"0/{row['total']}") for row in found.to_dict("records")],
            "recall": found["recall"].map(two_decimals),
            "95% CI": list(map(between, found["low"], found["high"])),
            "CI method": found["method"],
            "note": found["note"],
        }
    )
    return without_empty(shown)


def by_round(run: Run) -> Section:
    title = "Recall by round"
    if not run.rounds:
        return Section(title, ("No round has been recorded yet.",), level="info")
    table = recall_rounds(run.rounds, run.classes).set_index("round")[[*run.classes, MACRO]]
    whose = "mean of the sites' own models" if run.method == "solo" else "global model"
    chart = Chart(
        "lines",
        table.rename(columns=display_name),
        ("Round", "Recall"),
        "Recall of each class after each round",
        {"bold": MACRO},
    )
    sentence = f"Recall of the {whose} after each round, on {named('holdout' if is_medical(run) else 'test')}."
    return Section(title, (sentence,), charts=(chart,))


def by_site(run: Run, choice: Choice) -> Section:
    """On local test films and at external sites, unless the reader has chosen one of the two."""
    title = "Recall by site and class"
    chosen(run, choice)
    splits = [choice.split] if choice.split in BY_SITE else [split for split in BY_SITE if split in run.splits]
    parts = [_site_matrix(run, Choice(split=split, interval=choice.interval, model=choice.model)) for split in splits]
    shown = tuple(part for part in parts if part)
    if not shown:
        why = "The images of this run belong to no site, so there is no comparison by site."
        return Section(title, (why,), level="info")
    return Section(title, parts=shown)


def _site_matrix(run: Run, choice: Choice) -> Section | None:
    table = site_by_class(films(run, choice), choice.interval)
    if len(table) == 0 or set(table["site"]) <= {""}:
        return None
    filled = table[table["total"] > 0]
    few = int((filled["patients"] < SMALL).sum())
    cells = _wide(run, table, pd.Series([_of(row, NONE) for row in table.to_dict("records")], table.index))
    marks = {"text": cells if len(run.classes) <= MANY else None, "span": (0, 1), "shade": "Recall"}
    says = f"Recall by site and class with counts, {named(choice.split)}"
    chart = Chart("matrix", _wide(run, table, table["recall"]), ("True class", "Site"), says, marks)
    sentence = (
        f"Evaluated on {films_of(choice.split)}. Each cell: correctly classified / all films of the class; {NONE} "
        f"where there are none. {few} of {len(filled)} cells have fewer than {SMALL} patients: read them as hints only."
    )
    return Section("", (sentence,), charts=(chart,), tables=(Table("", by_site_text(run, table)),))


def by_site_text(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """From `site_by_class`: one row per site, one column per class; one row for each pair if there are many classes."""
    texts = pd.Series([recall_of(row) for row in table.to_dict("records")], table.index)
    if len(run.classes) <= ACROSS:
        return _wide(run, table, texts).rename_axis("site").reset_index()
    long = {"site": table["site"].map(run.title_of), "class": table["class"].map(display_name), "recall": texts}
    return pd.DataFrame(long)[table["total"] > 0]


def own_and_global(run: Run, choice: Choice) -> Section:
    """The sites' own models are those of this run, or of a `solo` run on the same films."""
    title = "Local-only or federated: which is better for each site?"
    if run.status == "finished" and GLOBAL not in run.models:
        why = "In this run every site trained its own model (local-only training). Choose a run with a global model."
        return Section(title, (why,), level="info")
    chosen(run, choice)
    both = _with_solo(run)
    split, table = choice.split, before_and_after(both, choice.split)
    if len(table) == 0 and "local" in run.splits:
        split, table = "local", before_and_after(both, "local")  # a site's own model may have seen its own films only
    if len(table) == 0:
        command = "fedpdc simulate --compare solo" if is_medical(run) else "fedpdc benchmark run --method solo"
        why = (
            "This run has no local-only models to compare with. To add them, train each site on its own with the same "
            f"films and seed: {command}"
        )
        return Section(title, (why,), level="info")
    cells = [f"{a:.2f} → {b:.2f}" if n else NONE for a, b, n in table[["own", "global", "total"]].to_numpy()]
    text = _wide(run, table, pd.Series(cells, table.index)) if len(run.classes) <= MANY else None
    marks = {"text": text, "span": (-1, 1), "shade": "Change in recall", "diverging": True}
    says = "Recall per class of each site's local-only model and of the global model"
    chart = Chart("matrix", _wide(run, table, table["change"]), ("True class", "Site"), says, marks)
    sentence = (
        f"Recall of each site's own model (local-only) → recall of the global model, on {named(split)}. Blue: "
        "federated is better. Orange: local-only is better."
    )
    return Section(title, (sentence,), charts=(chart,))


def _with_solo(run: Run) -> pd.DataFrame:
    assert run.predictions is not None
    beside = None if len(run.models) > 1 else solo_beside(run)
    try:
        solo = open_run(run.folder.parent, beside).predictions if beside else None
    except UserError:  # a damaged run next to this one must not break its page
        solo = None
    if solo is None:
        return run.predictions
    return pd.concat([select(run.predictions, model=GLOBAL), solo], ignore_index=True)


def _wide(run: Run, table: pd.DataFrame, values: pd.Series) -> pd.DataFrame:
    """One row per site, one column per class, both with the names that people read."""
    wide = table.assign(value=values).pivot(index="site", columns="class", values="value")
    wide = wide.loc[list(dict.fromkeys(table["site"])), run.classes]
    return wide.rename(index=run.title_of, columns=display_name)


def recall_of(row: dict[Any, Any]) -> str:
    if not row["total"]:
        return "no films"
    inside = between(row["low"], row["high"])
    return f"{two_decimals(row['recall'])} ({inside}), {row['correct']:.0f} of {row['total']:.0f}"


def _of(row: dict[Any, Any], none: str = NOT_ESTIMABLE) -> str:
    return f"{row['correct']}/{row['total']}" if row["total"] else none
