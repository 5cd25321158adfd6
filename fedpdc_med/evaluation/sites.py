"""Recall by site: with counts per class, before and after federation, and its drop on films from external sites."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedpdc_med.evaluation.intervals import mover
from fedpdc_med.evaluation.recall import Estimate, Interval, macro_recall, per_class_recall, recall_table, worst_class
from fedpdc_med.runs.predictions import (
    GLOBAL,
    called_class,
    classes_of,
    display_name,
    one_model,
    patients_of,
    reported_split,
    select,
    true_class,
)
from fedpdc_med.runs.schema import SiteSummary


@dataclass(frozen=True)
class RecallDrop:
    """The drop of recall from one set of films to another; above 0 means worse on the second."""

    by_class: pd.DataFrame
    macro: Estimate

    @property
    def level(self) -> float:
        """Macro recall on the second set, over the classes that both have."""
        return float(self.by_class.loc[self.by_class["drop"].notna(), "outside"].mean())


@dataclass(frozen=True)
class Headline:
    """The three numbers that matter, for one model; `drop` is None if there is no external site.

    `drops` has every external site; `drop` and `outside` are for the one with the largest drop.
    """

    split: str
    worst: Estimate
    macro: Estimate
    drop: RecallDrop | None
    outside: str
    drops: dict[str, RecallDrop]


def site_by_class(frame: pd.DataFrame, interval: Interval = "wilson") -> pd.DataFrame:
    """Column site, then those of `per_class_recall`; sites by name, classes in class order."""
    one_model(frame)
    classes = classes_of(frame)
    truth, called, patients = true_class(frame), called_class(frame), patients_of(frame)
    pieces = []
    for name, rows in sorted(frame.groupby("site", observed=True).indices.items()):
        table = recall_table(truth[rows], called[rows], patients[rows], classes, interval)
        table.insert(0, "site", str(name))
        pieces.append(table.set_index("class").loc[classes].reset_index()[table.columns])
    if not pieces:
        return recall_table(truth, called, patients, classes).assign(site="").iloc[:0]
    return pd.concat(pieces, ignore_index=True)


def before_and_after(frame: pd.DataFrame, split: str = "local") -> pd.DataFrame:
    """Each site's own model and the global one on the same films: its local test films, or another whole split.

    Columns site, class, total, own_correct, global_correct, own, global, change (global - own); no rows in a run
    without site models. Films that only one of the two models was tested on, or that have no name, are excluded.
    """
    classes = classes_of(frame)
    rows = select(frame, split=split)
    rows = rows[rows["film"] != ""]
    called = pd.DataFrame(
        {
            "model": rows["model"].to_numpy(),
            "site": rows["site"].to_numpy(),
            "film": rows["film"].to_numpy(),
            "label": rows["label"].to_numpy(),
            "right": called_class(rows) == true_class(rows),
        }
    )
    own = called[called["model"] != GLOBAL]
    if split == "local":
        own = own[own["model"] == own["site"]]
    together = own.merge(called[called["model"] == GLOBAL], on=["site", "film", "label"], suffixes=("_own", "_global"))
    counts = together.groupby(["model_own", "label"], observed=True).agg(
        total=("film", "size"), own_correct=("right_own", "sum"), global_correct=("right_global", "sum")
    )
    every = pd.MultiIndex.from_product([sorted(together["model_own"].unique()), classes], names=["site", "class"])
    counts.index.names = ["site", "class"]
    table = counts.reindex(every, fill_value=0).astype(int).reset_index()
    total = table["total"].where(table["total"] > 0)
    table["own"], table["global"] = table["own_correct"] / total, table["global_correct"] / total
    table["change"] = table["global"] - table["own"]
    return table


def recall_drop(inside: pd.DataFrame, outside: pd.DataFrame, interval: Interval = "wilson") -> RecallDrop:
    """Recall on `inside` (held-out test films) minus recall on `outside` (films of an external site), with intervals.

    The two sets must have no patient in common. Macro recall is compared over the classes that both have: otherwise a
    site without the hardest class would seem to be better.
    """
    return _drop(per_class_recall(inside, interval), per_class_recall(outside, interval))


def _drop(inside: pd.DataFrame, outside: pd.DataFrame) -> RecallDrop:
    first, second = inside.set_index("class"), outside.set_index("class").loc[inside["class"]]
    rows = []
    for name in first.index:
        a, b = first.loc[name], second.loc[name]
        drop, low, high = mover([a["recall"], b["recall"]], [a["low"], b["low"]], [a["high"], b["high"]], [1, -1])
        empty = [where for where, row in (("inside", a), ("outside", b)) if row["total"] == 0]
        rows.append(
            {
                "class": name,
                "inside": a["recall"],
                "inside_total": a["total"],
                "outside": b["recall"],
                "outside_total": b["total"],
                "drop": drop,
                "low": low,
                "high": high,
                "note": f"not estimable: no films {' and '.join(empty)}" if empty else "",
            }
        )
    by_class = pd.DataFrame(rows).sort_values("drop", ascending=False, kind="stable", ignore_index=True)
    return RecallDrop(by_class, _macro_drop(first, second))


def _macro_drop(first: pd.DataFrame, second: pd.DataFrame) -> Estimate:
    both = (first["total"] > 0) & (second["total"] > 0)
    if not both.any():
        return Estimate(
            "drop of macro recall", np.nan, np.nan, np.nan, note="not estimable: no class has films in both"
        )
    a, b = macro_recall(first[both].reset_index()), macro_recall(second[both].reset_index())
    drop, low, high = mover([a.value, b.value], [a.low, b.low], [a.high, b.high], [1, -1])
    left_out = [display_name(name) for name in first.index[~both]]
    note = f"without {', '.join(left_out)}: no films in one of the two" if left_out else ""
    return Estimate("drop of macro recall", drop, low, high, note=note)


def headline(
    frame: pd.DataFrame, interval: Interval = "wilson", *, model: str = GLOBAL, split: str | None = None
) -> Headline:
    """Worst-class recall, macro recall and the largest drop at an external site, for a whole run.

    The default is the split that is shown first.
    """
    split = split or reported_split(frame)
    inside = select(frame, model=model, split=split)
    table = per_class_recall(inside, interval)
    external = select(frame, model=model, split="external") if split != "external" else inside.iloc[:0]
    drops = {
        str(site): _drop(table, per_class_recall(select(external, site=site), interval))
        for site in external["site"].unique()
    }
    known = {site: drop for site, drop in drops.items() if np.isfinite(drop.macro.value)}
    worst = max(known, key=lambda site: known[site].macro.value, default="")
    return Headline(split, worst_class(table), macro_recall(table), known.get(worst), worst, known)


def untaught_classes(sites: Mapping[str, SiteSummary], classes: list[str]) -> list[str]:
    """Classes without training films at any participating site; empty if a site does not report its films."""
    counts = [site.training_films for site in sites.values() if site.takes_part]
    if not counts or not all(counts):
        return []
    return [label for label in classes if not any(one.get(label) for one in counts)]
