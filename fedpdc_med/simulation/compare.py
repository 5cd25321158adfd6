"""Finished simulations side by side: mean and spread over seeds, and differences seed by seed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedpdc_med.errors import UserError
from fedpdc_med.evaluation.predictions import GLOBAL, select
from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.experiments.results import described
from fedpdc_med.runs import Run

BASELINE = "fedavg"


@dataclass(frozen=True)
class Found:
    """One run in numbers, on one split."""

    method: str
    seed: int
    recall: dict[str, float]  # by class; of `solo` the mean over the sites' own models
    rarest: dict[str, float]  # by site: recall of the class it has fewest training films of


MEASURES: dict[str, Callable[[Found], float]] = {
    "mean": lambda found: float(np.mean(list(found.recall.values()))),
    "worst": lambda found: min(found.recall.values()),
    "rarest": lambda found: float(np.nanmean(list(found.rarest.values()))),
}


def found_in(run: Run, split: str) -> Found:
    config = run.config
    if config.get("kind") != "simulation":
        raise UserError(f"{run.folder} is not a run of fedpdc simulate")
    frame, classes = run.predictions(), config["classes"]
    if split not in set(frame["split"]):
        raise UserError(f"{run.folder} has no {split} films; it has: {', '.join(sorted(set(frame['split'])))}")
    recalls = {model: recall_of(frame, model, split) for model in frame["model"].unique()}
    mean = {name: float(np.nanmean([recall[name] for recall in recalls.values()])) for name in classes}
    rarest = {}
    for site, about in config["sites"].items():
        if about["takes_part"]:
            counts = about["training_films"]
            rarest[site] = recalls.get(site, recalls.get(GLOBAL, {}))[min(counts, key=counts.__getitem__)]
    return Found(described(config["method"]), config["simulation"]["seed"], mean, rarest)


def recall_of(frame: pd.DataFrame, model: str, split: str) -> dict[str, float]:
    table = per_class_recall(select(frame, model=model, split=split))
    return dict(zip(table["class"], table["recall"], strict=True))


def summary(found: list[Found]) -> pd.DataFrame:
    """A row a method: for each class, their mean and the sites' rarest classes, mean and spread over seeds as text."""
    rows = []
    for method in dict.fromkeys(one.method for one in found):
        mine = [one for one in found if one.method == method]
        values = {name: [one.recall[name] for one in mine] for name in mine[0].recall}
        values |= {name: [measure(one) for one in mine] for name, measure in MEASURES.items()}
        rows.append({"method": method, "seeds": len(mine), **{name: mean_spread(v) for name, v in values.items()}})
    return pd.DataFrame(rows)


def differences(found: list[Found], baseline: str = BASELINE) -> pd.DataFrame:
    """Each method less the baseline, paired by seed: of the mean recall, the worst class and the rarest classes."""
    by_seed = {one.seed: one for one in found if one.method == baseline}
    rows = []
    for method in dict.fromkeys(one.method for one in found if one.method != baseline):
        pairs = [(one, by_seed[one.seed]) for one in found if one.method == method and one.seed in by_seed]
        if not pairs:
            continue
        deltas = {name: [measure(a) - measure(b) for a, b in pairs] for name, measure in MEASURES.items()}
        verdict = beyond_chance(deltas["mean"])
        cells = {name: mean_spread(v, signed=True) for name, v in deltas.items()}
        rows.append({"method": method, "seeds": len(pairs), **cells, "mean recall differs": verdict})
    return pd.DataFrame(rows)


def site_table(found: list[Found]) -> pd.DataFrame:
    """A row a site: recall of its rarest class by each method, mean and spread over seeds."""
    rows = []
    for site in found[0].rarest:
        row = {"site": site}
        for method in dict.fromkeys(one.method for one in found):
            row[method] = mean_spread(
                [one.rarest[site] for one in found if one.method == method and site in one.rarest]
            )
        rows.append(row)
    return pd.DataFrame(rows)


def beyond_chance(deltas: list[float]) -> str:
    """A paired t-test over seeds at the 5 % level; with so few seeds only large differences can pass."""
    from scipy.stats import ttest_1samp

    if len(deltas) < 3:
        return "too few seeds"
    p = float(ttest_1samp(deltas, 0).pvalue)
    return f"yes (p = {p:.3f})" if p < 0.05 else f"not significant (p = {p:.2f})"


def mean_spread(values: list[float], signed: bool = False) -> str:
    mean = f"{np.mean(values):+.2f}" if signed else f"{np.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.2f}"
