"""Results as rows: mean and spread over seeds beside the paper's numbers, and the settings that scored best."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedpdc_med.benchmarks.catalogue import published, published_rounds
from fedpdc_med.benchmarks.results import fingerprint, kind
from fedpdc_med.benchmarks.show import SETTING
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import parsed

SMALLER = {"rounds", "epochs", "images", "public_per_class"}


def table(results: Sequence[dict[str, Any]], cost: dict[str, float] | None = None) -> pd.DataFrame:
    """One row an experiment, preset and method: mean and spread over seeds, the paper's numbers and the difference."""
    cost = cost or {}
    frame = framed(results)
    frame["fedavg"] = _fedavg_of_the_same_seed(frame)
    frame["to_reach"] = [_rounds_to_reach_fedavg(row) for _, row in frame.iterrows()]
    rows = []
    keys = [*SETTING, "less_than_paper", "method"]
    for values, group in frame.groupby(keys, sort=False):
        row = dict(zip(keys, map(str, values), strict=True))
        name = row["method"].split()[0]
        # A variant of ours has no number in the paper, and neither has another task than the paper's.
        literal = kind(row["method"]) == name and same_task(row["changed"])
        paper = published(row["experiment"]).get(name) if literal else None
        mean, reached = group["accuracy"].mean(), group["to_reach"]
        compared = group["fedavg"].notna()  # with the FedAvg of the same seed: its partition sways every method
        gains, there = (group["accuracy"] - group["fedavg"])[compared], reached[compared].notna()
        rows.append(
            {
                **row,
                "seeds": len(group),
                "compared": int(compared.sum()),
                "accuracy": mean,
                "spread": group["accuracy"].std() if len(group) > 1 else None,
                "over_fedavg": gains.mean() if len(gains) and name != "fedavg" else None,
                "over_fedavg_spread": gains.std() if len(gains) > 1 and name != "fedavg" else None,
                "worst_recall": group["worst_recall"].mean(),
                "score": group["score"].mean(),
                "rounds": int(group["rounds"].max()),
                "to_reach_fedavg": reached.mean() if len(there) and there.all() else None,
                "seeds_that_reached": int(there.sum()),
                "bytes_per_round": group["bytes_per_round"].mean(),
                "seconds_per_round": group["seconds_per_round"].mean(),
                "time": time_of(row["method"], cost),
                "paper": paper,
                "difference": mean - paper if paper is not None else None,
                "paper_to_reach": published_rounds(row["experiment"]).get(name) if literal else None,
            }
        )
    order = [*SETTING, "accuracy"]
    return pd.DataFrame(rows).sort_values(order, ascending=[True, True, True, False], ignore_index=True)


def framed(results: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """A row a run; `changed` as words, in which other images than most runs of the experiment had are a change too."""
    frame = pd.DataFrame(results)
    frame["images"] = [fingerprint(one) for one in results]
    usual = frame.groupby("experiment")["images"].agg(lambda images: images.mode()[0])
    other = frame["images"] != frame["experiment"].map(usual)
    changes = [{**one, "images of": images[:8]} for one, images in zip(frame["changed"], frame["images"], strict=True)]
    frame["changed"] = frame["changed"].where(~other, pd.Series(changes)).map(as_text)
    return frame


def as_text(changed: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in changed.items())


def same_task(changed: str) -> bool:
    """Whether what was changed, as words, leaves the paper's task: less of it, or other public images."""
    return {change.partition("=")[0] for change in changed.split(", ") if change} <= SMALLER


def read_cost(file: Path) -> dict[str, float]:
    """The time of a round by method, FedAvg's = 1, as `fedpdc benchmark cost --keep` wrote it."""
    try:
        rows = parsed(json.loads, file.read_text())
        return {row["method"]: row["seconds_of_fedavg"] for row in rows} | {"fedavg": 1.0}
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        raise UserError(f"{file} is no file of: fedpdc benchmark cost --keep {file}") from None


def time_of(method: str, cost: dict[str, float]) -> float | None:
    """The measured time of the method, or of its kind where no number changes how much it does.

    A number for `fedpdc-ce`'s strength, in place of by size, makes its public minibatches as large as the site's own.
    """
    more = ("epochs=", "copies=", *(["strength="] if method.startswith("fedpdc-ce ") else []))
    return cost.get(method, None if any(word in method for word in more) else cost.get(kind(method)))


def rounds_to_reach(accuracy_by_round: Sequence[float], wanted: float) -> int | None:
    """The first round with that accuracy, as in the paper's table IV; None if it was never reached."""
    return next((t for t, accuracy in enumerate(accuracy_by_round, start=1) if accuracy >= wanted), None)


def _rounds_to_reach_fedavg(row: pd.Series) -> float:
    if row["method"] == "solo" or math.isnan(row["fedavg"]):
        return math.nan
    return float(rounds_to_reach(row["accuracy_by_round"], row["fedavg"]) or "nan")


def _fedavg_of_the_same_seed(frame: pd.DataFrame) -> pd.Series:
    """For each run the accuracy that FedAvg ended with in the same setting and seed; NaN where it was not run."""
    keys = [*SETTING, "seed"]
    fedavg = frame[frame["method"] == "fedavg"].drop_duplicates(keys).set_index(keys)["accuracy"]
    return fedavg.reindex(pd.MultiIndex.from_frame(frame[keys])).set_axis(frame.index)


def chosen(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each kind of method the runs with the numbers that scored best on the reference; no test image has a say."""
    scores = by_score(results)
    best = set(scores.loc[scores["best"], [*SETTING, "method"]].itertuples(index=False, name=None))
    at = framed(results)[[*SETTING, "method"]].itertuples(index=False, name=None)
    return [result for result, where in zip(results, at, strict=True) if where in best]


def by_score(results: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a setting and method: its score on the reference, and whether it is the best of its kind.

    The numbers of one kind are compared in the seeds that all of them ran with, where there are any.
    """
    frame = framed(results)
    frame["kind"] = [kind(method) for method in frame["method"]]
    rows = []
    for values, group in frame.groupby([*SETTING, "kind"], sort=False):
        ran = [set(of_method["seed"]) for _, of_method in group.groupby("method")]
        seeds = set.intersection(*ran) or set.union(*ran)
        scores = group[group["seed"].isin(seeds)].groupby("method")["score"].mean().astype(float)
        best = scores.idxmax() if scores.notna().any() else None
        same = dict(zip([*SETTING, "kind"], map(str, values), strict=True))
        for method, score in scores.sort_values(ascending=False).items():
            rows.append({**same, "method": method, "seeds": seeds, "score": score, "best": method == (best or method)})
    return pd.DataFrame(rows)
