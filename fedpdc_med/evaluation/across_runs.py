"""Comparisons of simulations: methods, what each site gains, mean ± SD over seeds, differences."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.paired import compare, holm
from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.methods import label
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.predictions import GLOBAL, select
from fedpdc_med.runs.schema import BenchmarkRun, SimulationRun

BASELINE = "fedavg"


@dataclass(frozen=True)
class RunNumbers:
    """The numbers of one run on one split; NaN where it has no films of a class."""

    label: str  # of the method, with its settings
    seed: int
    recall: dict[str, float]  # by class; for `solo` the mean over the sites' own models
    worst: float  # for `solo` the mean over the sites of each model's own worst class
    rarest: dict[str, float]  # by site: recall of the class of which it has the fewest training films
    settings: tuple[str, ...] = ()  # of the simulation, as text; runs of one experiment agree in them
    films: tuple[tuple[str, str], ...] = ()  # fingerprints
    name: str = ""

    @property
    def method(self) -> str:
        return " ".join([self.label, *self.settings])


MEASURES: dict[str, Callable[[RunNumbers], float]] = {
    "macro recall": lambda found: mean_of(found.recall.values()),
    "worst class": lambda found: found.worst,
    "rarest class": lambda found: mean_of(found.rarest.values()),
}


def numbers_of(run: Run, split: str) -> RunNumbers:
    config = run.config
    if isinstance(config, BenchmarkRun):
        raise UserError(f"{run.folder} is a benchmark's run; compare it with: fedpdc benchmark table")
    frame, classes, plan = run.final_predictions(), run.classes, run.plan
    if split not in set(frame["split"]):
        raise UserError(f"{run.folder} has no {split} films; it has: {', '.join(sorted(set(frame['split'])))}")
    recalls = {model: recall_of(frame, model, split) for model in frame["model"].unique()}
    mean = {name: mean_of(recall[name] for recall in recalls.values()) for name in classes}
    worst = mean_of(min((v for v in recall.values() if v == v), default=np.nan) for recall in recalls.values())
    rarest = {}
    for site, about in run.sites.items():
        counts = about.training_films
        if about.takes_part and counts:  # a site that never responded has none
            rarest[site] = recalls.get(site, recalls.get(GLOBAL, {}))[min(counts, key=counts.__getitem__)]
    privacy = config.privacy if isinstance(config, SimulationRun) else None
    settings = {"rounds": plan.rounds, "tau": plan.tau, "model": plan.network.name, "norm": plan.network.norm}
    words = tuple(f"{key}={value}" for key, value in {**settings, **(privacy.model_dump() if privacy else {})}.items())
    films = tuple(config.data.fingerprints.items())
    return RunNumbers(label(plan.method), plan.seed, mean, worst, rarest, words, films, run.folder.name)


def labelled_by_setting(found: list[RunNumbers]) -> list[RunNumbers]:
    """Settings that differ between runs are added to the method's name; runs that are not comparable are an error."""
    common = set.intersection(*(set(one.settings) for one in found))
    named = []
    seen: dict[tuple[str, int], RunNumbers] = {}
    of_seed: dict[int, RunNumbers] = {}
    for one in found:
        own = tuple(word for word in one.settings if word not in common)
        one = replace(one, settings=own)
        twin, other = seen.setdefault((one.method, one.seed), one), of_seed.setdefault(one.seed, one)
        if twin is not one:
            raise UserError(f"{twin.name} and {one.name} are the same method and seed; name only one of them")
        if (other.films, list(other.recall)) != (one.films, list(one.recall)):
            raise UserError(
                f"{other.name} and {one.name} were tested on different films or classes; compare them separately"
            )
        named.append(one)
    return named


def recall_of(frame: pd.DataFrame, model: str, split: str) -> dict[str, float]:
    table = per_class_recall(select(frame, model=model, split=split))
    return dict(zip(table["class"], table["recall"], strict=True))


def summary(found: list[RunNumbers]) -> pd.DataFrame:
    """One row per method: recall per class, their mean and the sites' rarest classes, as mean ± SD over seeds."""
    rows = []
    for method in dict.fromkeys(one.method for one in found):
        mine = [one for one in found if one.method == method]
        values = {name: [one.recall[name] for one in mine] for name in mine[0].recall}
        values |= {name: [measure(one) for one in mine] for name, measure in MEASURES.items()}
        rows.append({"method": method, "seeds": len(mine), **{name: mean_spread(v) for name, v in values.items()}})
    return pd.DataFrame(rows)


def differences(found: list[RunNumbers], baseline: str = BASELINE) -> pd.DataFrame:
    """Each method minus the baseline, paired by seed: mean recall, worst class and rarest classes."""
    at = {(one.seed, one.settings): one for one in found if one.label == baseline}
    rows, every = [], []
    for method in dict.fromkeys(one.method for one in found if one.label != baseline):
        mine = [one for one in found if one.method == method]
        pairs = [(one, at[one.seed, one.settings]) for one in mine if (one.seed, one.settings) in at]
        if not pairs:
            continue
        deltas = {name: [measure(a) - measure(b) for a, b in pairs] for name, measure in MEASURES.items()}
        every.append(deltas["macro recall"])
        rows.append(
            {"method": method, "seeds": len(pairs), **{k: mean_spread(v, signed=True) for k, v in deltas.items()}}
        )
    return pd.DataFrame(rows).assign(**{"macro recall differs": beyond_chance(every)})


def site_table(found: list[RunNumbers]) -> pd.DataFrame:
    """One row per site: recall of its rarest class with each method, as mean ± SD over seeds."""
    rows = []
    for site in found[0].rarest:
        row = {"site": site}
        for method in dict.fromkeys(one.method for one in found):
            row[method] = mean_spread(
                [one.rarest[site] for one in found if one.method == method and site in one.rarest]
            )
        rows.append(row)
    return pd.DataFrame(rows)


def beyond_chance(every: Sequence[Sequence[float]]) -> list[str]:
    """Paired t-tests over seeds, one list of differences per test; p is Holm-adjusted for the number of tests."""
    from scipy.stats import ttest_1samp

    found = np.array([ttest_1samp(deltas, 0).pvalue if len(deltas) > 2 else np.nan for deltas in every])
    words = []
    for deltas, p in zip(every, holm(found), strict=True):
        if len(deltas) < 3:
            words.append("too few seeds")
        elif np.isnan(p):
            words.append("not estimable")
        else:
            words.append(f"yes (p = {p:.3f})" if p < 0.05 else f"not significant (p = {p:.2f})")
    return words


def mean_of(values: Iterable[float]) -> float:
    """The mean of the values that are known."""
    known = [value for value in values if value == value]
    return float(np.mean(known)) if known else np.nan


def mean_spread(values: list[float], signed: bool = False) -> str:
    mean = f"{np.mean(values):+.2f}" if signed else f"{np.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.2f}"


def recall_by_method(runs: dict[str, Run], split: str = "holdout") -> pd.DataFrame:
    """Columns class, method, correct, total, recall, low, high; for `solo`, mean and range over the sites' models."""
    rows = []
    for method, run in runs.items():
        frame = run.final_predictions()
        models = frame["model"].unique()
        tables = [per_class_recall(select(frame, model=model, split=split)).set_index("class") for model in models]
        for name in run.classes:
            if len(tables) == 1 and models[0] == GLOBAL:
                row = tables[0].loc[name]
                rows.append({"class": name, "method": method, **row[["correct", "total", "recall", "low", "high"]]})
                continue
            recalls = np.array([table.loc[name, "recall"] for table in tables], dtype=float)
            rows.append(
                {
                    "class": name,
                    "method": method,
                    "correct": None,
                    "total": tables[0].loc[name, "total"],
                    "recall": recalls.mean(),
                    "low": recalls.min(),
                    "high": recalls.max(),
                }
            )
    return pd.DataFrame(rows)


def worst_first(table: pd.DataFrame, method: str) -> list[str]:
    return list(table[table["method"] == method].sort_values("recall", kind="stable")["class"])


def better_elsewhere(runs: dict[str, Run], main: str, split: str = "holdout") -> pd.DataFrame:
    """Where a compared method has higher recall: columns class, method, recall, main, p (NaN if not tested).

    McNemar's exact test on the films that both were tested on, Holm-adjusted over the classes. `solo` is not tested,
    because it has several models.
    """
    table = recall_by_method(runs, split).set_index(["method", "class"])["recall"]
    models = {name: select(run.final_predictions(), model=GLOBAL, split=split) for name, run in runs.items()}
    rows = []
    for method in runs:
        higher = [name for name in runs[main].classes if table[method, name] > table[main, name]]
        single = higher and len(models[main]) and len(models[method])
        p = dict(compare(models[main], models[method]).by_class[["class", "p_holm"]].to_numpy()) if single else {}
        rows += [(name, method, table[method, name], table[main, name], p.get(name, np.nan)) for name in higher]
    return pd.DataFrame(rows, columns=["class", "method", "recall", "main", "p"])


def site_gains(run: Run, solo: Run | None, split: str = "holdout") -> pd.DataFrame:
    """One row per site: its films and weight, its rarest class, and the recall of that class by both models."""
    last = run.rounds[-1]
    together = per_class_recall(select(run.final_predictions(), model=GLOBAL, split=split)).set_index("class")
    alone = solo.final_predictions() if solo else None
    rows = []
    for name, site in run.sites.items():
        if not site.takes_part or not site.training_films:  # a site that never responded has no counts
            continue
        counts = pd.Series(site.training_films)
        recorded = last.sites.get(name)  # a method without a federation assigns no weights
        rarest = str(counts.idxmin())
        row = {
            "site": name,
            "films": int(counts.sum()),
            "weight": recorded.weight if recorded else None,
            "status": recorded.status if recorded else "none",
            "rarest": rarest,
            "rarest_films": int(counts.min()),
            "federated": together.loc[rarest, "recall"],
            "own": None,
            "own_macro": None,
            "federated_macro": together["recall"].mean(),
        }
        if alone is not None:
            own = per_class_recall(select(alone, model=name, split=split)).set_index("class")
            row |= {"own": own.loc[rarest, "recall"], "own_macro": own["recall"].mean()}
        rows.append(row)
    return pd.DataFrame(rows)
