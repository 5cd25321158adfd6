"""Each class with n/N and its interval, worst first; over the rounds; site by class; before and after federation."""

from typing import Any

import pandas as pd

from fedpdc_med.common.description import NONE, NOT_ESTIMABLE, Chart, Section, Table, between, two_decimals
from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.contributions import MACRO, recall_rounds
from fedpdc_med.evaluation.recall import SMALL, WIDE, per_class_recall
from fedpdc_med.evaluation.sites import before_and_after, site_by_class
from fedpdc_med.review.model_facts import is_medical
from fedpdc_med.review.sections import chosen, films_of, without_empty
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, films, open_run, solo_beside
from fedpdc_med.runs.predictions import GLOBAL, select, spoken

MANY, ACROSS = 12, 6  # columns up to which numbers fit into the cells of a picture, and text into those of a table
BY_SITE = ("local", "external")


def per_class(run: Run, choice: Choice) -> Section:
    found = per_class_recall(chosen(run, choice), choice.method)
    shown = pd.DataFrame(
        {
            "name": found["class"].map(spoken),
            **found[["low", "high"]],
            "value": found["recall"],
            "open": found["small"],
            "beside": [_of(row) for row in found.to_dict("records")],
        }
    )
    chart = Chart(
        "intervals",
        shown,
        ("Recall: share of its films found", "Class"),
        "Recall of each class with its 95 % interval",
        {"span": (-0.01, 1.01)},
    )
    return Section(
        "Recall of each class",
        (
            f"Films: {films_of(choice.split)}. Model: {run.title_of(choice.model)}. Worst class first; bars are 95 % "
            "intervals.",
        ),
        charts=(chart,),
        tables=(Table("", recall_text(found)),),
        notes=(
            f"An open circle and a note mark small numbers: fewer than {SMALL} patients, or an interval wider than "
            f"{WIDE}. By patient means Wilson's interval, several films of one patient counting for what they are "
            "worth; the exact one takes every film for a patient of its own.",
        ),
    )


def recall_text(found: pd.DataFrame) -> pd.DataFrame:
    """From `per_class_recall`."""
    shown = pd.DataFrame(
        {
            "class": found["class"].map(spoken),
            "found": [_of(row, f"0/{row['total']}") for row in found.to_dict("records")],
            "recall": found["recall"].map(two_decimals),
            "95 % interval": list(map(between, found["low"], found["high"])),
            "interval by": found["method"],
            "note": found["note"],
        }
    )
    return without_empty(shown)


def by_round(run: Run) -> Section:
    title = "Over the rounds"
    if not run.rounds:
        return Section(title, ("No round has been recorded yet.",), level="info")
    table = recall_rounds(run.rounds, run.classes).set_index("round")[[*run.classes, MACRO]]
    whose = "mean of the sites' own models" if run.method == "solo" else "global model"
    chart = Chart(
        "lines",
        table.rename(columns=spoken),
        ("Round", "Recall"),
        "Recall of each class after each round",
        {"bold": MACRO},
    )
    sentence = f"Recall of the {whose} after each round, on films that nothing was trained or chosen on."
    return Section(title, (sentence,), charts=(chart,))


def by_site(run: Run, choice: Choice) -> Section:
    """The sites' own films and those of external sites, unless the reader has chosen one of the two."""
    title = "Site by class"
    chosen(run, choice)
    splits = [choice.split] if choice.split in BY_SITE else [split for split in BY_SITE if split in run.splits]
    parts = [_site_matrix(run, Choice(split=split, interval=choice.interval, model=choice.model)) for split in splits]
    shown = tuple(part for part in parts if part)
    if not shown:
        why = "The images of this run belong to no site, so there is nothing to tell apart."
        return Section(title, (why,), level="info")
    return Section(title, parts=shown)


def _site_matrix(run: Run, choice: Choice) -> Section | None:
    table = site_by_class(films(run, choice), choice.method)
    if len(table) == 0 or set(table["site"]) <= {""}:
        return None
    filled = table[table["total"] > 0]
    few = int((filled["patients"] < SMALL).sum())
    cells = _wide(run, table, pd.Series([_of(row, NONE) for row in table.to_dict("records")], table.index))
    marks = {"text": cells if len(run.classes) <= MANY else None, "span": (0, 1), "shade": "Recall"}
    says = f"Recall by site and class with counts, {choice.split} films"
    chart = Chart("matrix", _wide(run, table, table["recall"]), ("True class", "Site"), says, marks)
    sentence = (
        f"Films: {films_of(choice.split)}. Each cell: films found / films of the class; {NONE} where there are none. "
        f"{few} of {len(filled)} cells rest on fewer than {SMALL} patients: read them as hints."
    )
    return Section("", (sentence,), charts=(chart,), tables=(Table("", by_site_text(run, table)),))


def by_site_text(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """From `site_by_class`: one row a site, one column a class; one row each where there are many classes."""
    texts = pd.Series([recall_of(row) for row in table.to_dict("records")], table.index)
    if len(run.classes) <= ACROSS:
        return _wide(run, table, texts).rename_axis("site").reset_index()
    long = {"site": table["site"].map(run.title_of), "class": table["class"].map(spoken), "recall": texts}
    return pd.DataFrame(long)[table["total"] > 0]


def own_and_global(run: Run, choice: Choice) -> Section:
    """The sites' own models may lie in a run of `solo` on the same films."""
    title = "Before and after federation"
    if run.status == "finished" and GLOBAL not in run.models:
        why = "This run shares nothing: every site keeps its own model. Choose a run with a global model."
        return Section(title, (why,), level="info")
    chosen(run, choice)
    both = _with_solo(run)
    split, table = choice.split, before_and_after(both, choice.split)
    if len(table) == 0 and "local" in run.splits:
        split, table = "local", before_and_after(both, "local")  # a site's own model may have seen its own films only
    if len(table) == 0:
        command = "fedpdc simulate --compare solo" if is_medical(run) else "fedpdc benchmark run --method solo"
        why = (
            "This run has no site models to compare with. Train each site alone on the same films and seed, and its "
            f"models are shown here: {command}"
        )
        return Section(title, (why,), level="info")
    own = "its own test films" if split == "local" else f"the same films of {split}"
    cells = [f"{a:.2f} → {b:.2f}" if n else NONE for a, b, n in table[["own", "global", "total"]].to_numpy()]
    text = _wide(run, table, pd.Series(cells, table.index)) if len(run.classes) <= MANY else None
    marks = {"text": text, "span": (-1, 1), "shade": "Change", "diverging": True}
    says = "Recall of each site's own model and of the global one, class by class"
    chart = Chart("matrix", _wide(run, table, table["change"]), ("True class", "Site"), says, marks)
    sentence = (
        f"Each site's own model, trained alone, beside the global one on {own}: recall before → after. Blue: better "
        "together. Orange: better alone."
    )
    return Section(title, (sentence,), charts=(chart,))


def _with_solo(run: Run) -> pd.DataFrame:
    assert run.predictions is not None
    beside = None if len(run.models) > 1 else solo_beside(run)
    try:
        solo = open_run(run.folder.parent, beside).predictions if beside else None
    except UserError:  # a damaged run beside this one takes nothing of its page away
        solo = None
    if solo is None:
        return run.predictions
    return pd.concat([select(run.predictions, model=GLOBAL), solo], ignore_index=True)


def _wide(run: Run, table: pd.DataFrame, values: pd.Series) -> pd.DataFrame:
    """One row a site, one column a class, both as people read them."""
    wide = table.assign(value=values).pivot(index="site", columns="class", values="value")
    wide = wide.loc[list(dict.fromkeys(table["site"])), run.classes]
    return wide.rename(index=run.title_of, columns=spoken)


def recall_of(row: dict[Any, Any]) -> str:
    if not row["total"]:
        return "no films"
    inside = between(row["low"], row["high"])
    return f"{two_decimals(row['recall'])} ({inside}), {row['correct']:.0f} of {row['total']:.0f}"


def _of(row: dict[Any, Any], none: str = NOT_ESTIMABLE) -> str:
    return f"{row['correct']}/{row['total']}" if row["total"] else none
