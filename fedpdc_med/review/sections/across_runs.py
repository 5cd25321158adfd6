"""Tables of several simulations: what `simulate` prints at its end, and methods compared over seeds."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedpdc_med.common.description import Section, Table
from fedpdc_med.evaluation.across_runs import (
    RunNumbers,
    better_elsewhere,
    differences,
    recall_by_method,
    site_gains,
    site_table,
    summary,
    worst_first,
)
from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.evaluation.sites import untaught_classes
from fedpdc_med.review.sections import named
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.predictions import GLOBAL, select

HOW_TO_READ = (
    "Recall is the proportion of a class's films that a model classifies correctly; a model is only as useful as its "
    "worst class, which is listed first.",
    "Where brackets overlap, the difference between two methods may be chance.",
)
BRACKETS = "Brackets: 95% CI by patient; for solo, mean and range over the sites' own models."


def closing(runs: dict[str, Run], main: str) -> list[Section]:
    """What `simulate` prints at its end, worst class first."""
    found = [per_class(runs, main)]
    if runs[main].method != "solo":
        found += [site_by_site(runs[main], runs.get("solo")), external(runs[main])]
    return found


def per_class(runs: dict[str, Run], main: str) -> Section:
    found = recall_by_method(runs)
    films = {row["class"]: int(row["total"]) for row in found.to_dict("records")}
    cells = {(row["class"], row["method"]): recall_text(row) for row in found.to_dict("records")}
    macro = {name: f"{found.loc[found['method'] == name, 'recall'].mean():.2f}" for name in runs}
    rows = [
        {"class (films)": f"{label} ({films[label]})", **{name: cells[label, name] for name in runs}}
        for label in worst_first(found, main)
    ]
    table = pd.DataFrame([*rows, {"class (films)": "macro recall", **macro}])
    untaught = untaught_classes(runs[main].sites, runs[main].classes)
    return Section(
        "",
        tables=(Table("Recall on held-out test films, worst class first", table),),
        notes=(
            BRACKETS,
            *HOW_TO_READ,
            *where_others_are_better(runs, main),
            *([f"No participating site has training films of: {', '.join(untaught)}."] if untaught else []),
        ),
    )


def where_others_are_better(runs: dict[str, Run], main: str) -> list[str]:
    """A sentence for each compared method that has the higher recall of a class."""
    if len(runs) < 2:
        return []
    found = better_elsewhere(runs, main)
    sentences = []
    for method, rows in found.groupby("method", sort=False):
        classes = [
            f"{row['class']} ({row['recall']:.2f} against {row['main']:.2f}{chance(row['p'])})"
            for row in rows.to_dict("records")
        ]
        sentences.append(f"{method} is better than {main} at: {', '.join(classes)}.")
    return sentences or [f"No compared method is better than {main} at any class."]


def chance(p: float) -> str:
    if p != p:
        return ""
    return f", p = {p:.3f}" if p < 0.05 else ", may be chance"


def recall_text(row: dict[Any, Any]) -> str:
    if row["recall"] != row["recall"]:  # NaN
        return "not estimable"
    return f"{row['recall']:.2f} ({row['low']:.2f}-{row['high']:.2f})"


def site_by_site(run: Run, solo: Run | None) -> Section:
    gains = site_gains(run, solo)
    if gains.empty:
        return Section("")
    alone = gains["own"].notna().any()
    rows = []
    for row in gains.to_dict("records"):
        rarest, macro = (
            (f"{row[own]:.2f} → " if alone else "") + f"{row[federated]:.2f}"
            for own, federated in (("own", "federated"), ("own_macro", "federated_macro"))
        )
        rows.append(
            {
                "site": row["site"],
                "weight": f"{row['weight']:.2f}" if row["status"] == "ok" else row["status"],
                "rarest class": f"{row['rarest']} ({row['rarest_films']})",
                "its recall": rarest,
                "macro recall": macro,
            }
        )
    how = ", site's own model → federated model" if alone else ""
    note = f"Weight in the last round; rarest class (training films); recall on held-out test films{how}."
    return Section("", tables=(Table("What each site gains", pd.DataFrame(rows)),), notes=(note,))


def external(run: Run) -> Section:
    frame = run.final_predictions()
    sentences = []
    for site in frame.loc[frame["split"] == "external", "site"].unique():
        table = per_class_recall(select(frame, model=GLOBAL, split="external", site=site))
        known = table[table["total"] > 0]
        cells = ", ".join(f"{row['class']} {recall_text(row)}" for row in known.to_dict("records"))
        sentences.append(f"External test at {site} (not used in training): {cells}")
    return Section("", tuple(sentences))


def side_by_side(found: Sequence[RunNumbers], split: str, baseline: str) -> Section:
    """Methods compared over seeds; without a table that is empty because there is only the baseline."""
    tables = {
        f"Recall on {named(split)} over seeds (mean ± SD)": summary(list(found)),
        f"Difference from {baseline}, paired by seed (paired t-test, Holm-adjusted p)": differences(
            list(found), baseline
        ),
        "Recall of each site's rarest class (the mean over the sites is above)": site_table(list(found)),
    }
    return Section("", tables=tuple(Table(title, upright(frame)) for title, frame in tables.items() if len(frame)))


def upright(frame: pd.DataFrame) -> pd.DataFrame:
    """Few methods become columns, because one row for each would be too wide."""
    if "method" not in frame or len(frame) >= 6:
        return frame
    return frame.set_index("method").T.reset_index(names="")
