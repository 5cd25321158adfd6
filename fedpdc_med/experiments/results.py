"""Finished benchmark runs as plain records, kept as JSON, and as rows beside the paper's numbers."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedpdc_med.algorithms import Method, make_method, method_class
from fedpdc_med.errors import UserError
from fedpdc_med.experiments.experiment import (
    Experiment,
    make_experiment,
    names,
    published,
    published_rounds,
    recorded,
)
from fedpdc_med.experiments.show import SETTING
from fedpdc_med.runs import Run

OF_SITE = ("status", "films", "score", "weight")  # kept of each site's last round
SMALLER = {"rounds", "epochs", "images", "public_per_class"}
LAST = 5  # rounds over which a score is averaged: one round's swings by several points
KEPT = ("experiment", "method", "preset", "seed", "rounds", "accuracy", "accuracy_by_round", "worst_recall_by_round")


def collect(paths: Iterable[Path], tell: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """The results behind run directories, kept JSON files, and folders of either; each run once."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in paths:
        if path.is_file():
            results = [read_kept(path)]
        elif path.is_dir():
            results = [result_of(run) for run in runs_at(path)] + [
                read_kept(file) for file in sorted(path.glob("*.json"))
            ]
        else:
            raise UserError(f"{path}: there is no run directory, kept result or folder of them")
        for result in results:
            first = found.setdefault((result["command"], fingerprint(result)), result)
            if first["accuracy_by_round"] != result["accuracy_by_round"]:
                seen = f"{first['accuracy']:.2f} and {result['accuracy']:.2f} %"
                tell(f"{result['name']} is there twice, with different numbers ({seen}); the first is shown.")
    return list(found.values())


def fingerprint(result: dict[str, Any]) -> str:
    return result.get("data", {}).get("fingerprint", "")


def framed(results: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """A row a run; `changed` as words, in which other images than most runs of the experiment had are a change too."""
    frame = pd.DataFrame(results)
    frame["images"] = [fingerprint(one) for one in results]
    usual = frame.groupby("experiment")["images"].agg(lambda images: images.mode()[0])
    other = frame["images"] != frame["experiment"].map(usual)
    changes = [{**one, "images of": images[:8]} for one, images in zip(frame["changed"], frame["images"], strict=True)]
    frame["changed"] = frame["changed"].where(~other, pd.Series(changes)).map(as_text)
    return frame


def runs_at(folder: Path) -> list[Run]:
    """The run there, or all finished benchmark runs below."""
    if (folder / "config.toml").exists():
        return [Run.open(folder)]
    runs = [Run(config.parent) for config in sorted(folder.glob("**/config.toml"))]
    return [run for run in runs if run.finished and run.config.get("kind") == "benchmark"]


def read_kept(file: Path) -> dict[str, Any]:
    try:
        result = json.loads(file.read_text())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{file} is no kept result: {error}") from None
    missing = [key for key in KEPT if not isinstance(result, dict) or key not in result]
    if missing:
        raise UserError(f"{file} is no kept result: it has no {missing[0]!r}")
    return result


def read_cost(file: Path) -> dict[str, float]:
    """The time of a round by method, FedAvg's = 1, as `fedpdc benchmark cost --keep` wrote it."""
    try:
        return {row["method"]: row["seconds_of_fedavg"] for row in json.loads(file.read_text())} | {"fedavg": 1.0}
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError, TypeError, KeyError):
        raise UserError(f"{file} is no file of: fedpdc benchmark cost --keep {file}") from None


def keep(results: Sequence[dict[str, Any]], folder: Path) -> None:
    """One small JSON file a run."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        (folder / f"{result['name']}.json").write_text(json.dumps(result, indent=1) + "\n")


def result_of(run: Run) -> dict[str, Any]:
    """One finished run in numbers; accuracies and recalls in per cent, of the test images, which chose nothing."""
    config, rounds = run.config, run.rounds()
    if config.get("kind") != "benchmark":
        raise UserError(f"{run.folder} is not a benchmark run")
    if not run.finished:
        raise UserError(f"{run.folder} is not finished; continue it with: fedpdc resume {run.folder}")
    settings = {key: value for key, value in config["method"].items() if key != "name"}
    name = config["method"]["name"]
    experiment, method = recorded(config["experiment"], name), make_method(name, **settings)
    accuracy = [round(100 * record["accuracy"], 3) for record in rounds]
    worst = [round(100 * worst_of(record), 3) for record in rounds]
    scores = [record["score"] for record in rounds if record.get("score") is not None]
    changed = changed_settings(experiment)
    shared = changed.pop("public_split", "halves") == "shared"  # a way to use the public images, not another task
    if (shared and method.uses_correction) or method.arrangement == "reference":
        scores = []  # of images that were trained on
    return {
        "name": run_name(experiment, method),
        "experiment": experiment.name,
        "method": described(config["method"]) + (" shared" if shared else ""),
        "preset": experiment.preset,
        "seed": experiment.seed,
        "changed": changed,
        "rounds": rounds[-1]["round"],
        "accuracy": accuracy[-1],
        "worst_recall": worst[-1],
        "score": round(100 * sum(scores[-LAST:]) / len(scores[-LAST:]), 3) if scores else None,
        "accuracy_by_round": accuracy,
        "worst_recall_by_round": worst,
        "sites": {site: {key: record.get(key) for key in OF_SITE} for site, record in rounds[-1]["sites"].items()},
        "seconds_per_round": round(sum(record["seconds"] for record in rounds) / len(rounds), 3),
        "bytes_per_round": round(sum(record.get("bytes", 0) for record in rounds) / len(rounds)),
        "less_than_paper": less_than_paper(experiment, method.name),
        "command": command_of(experiment, method),
        "versions": config["versions"],
        "git_commit": config.get("git_commit"),
        "data": {"name": config["data"]["name"], "fingerprint": config["data"]["fingerprint"]},
    }


def worst_of(record: dict[str, Any]) -> float:
    """The worst class's recall; of `solo` the mean over the sites of each model's own worst."""
    if record.get("worst_recall") is not None:
        return record["worst_recall"]
    return min(v for v in record["recall"].values() if v is not None)  # runs of earlier versions


def described(method: dict[str, Any]) -> str:
    """The method's name with every setting that is not its default, as in `fedpdc reference strength=1`."""
    fields = method_class(method["name"]).model_fields
    changed = [(key, value) for key, value in method.items() if key != "name" and value != fields[key].default]
    shown = [value if isinstance(value, str) else f"{key}={value:g}" for key, value in changed]
    return " ".join([method["name"], *shown])


def kind(method: str) -> str:
    """A described method without its numbers: `fedprox mu=1` and `fedprox` are the same kind."""
    return " ".join(word for word in method.split() if "=" not in word)


def changed_settings(experiment: Experiment) -> dict[str, Any]:
    """The settings of the experiment that are neither its own nor its preset's."""
    return {key: getattr(experiment, key) for key in experiment.changed}


def run_name(experiment: Experiment, method: Method) -> str:
    """A folder name that tells runs apart: the settings that differ from their defaults are in it."""
    parts = [experiment.name, *described({"name": method.name, **method.model_dump()}).split()]
    parts += [f"{key}={value}" for key, value in changed_settings(experiment).items()]
    return "-".join([*parts, experiment.preset, f"seed{experiment.seed}"])


def command_of(experiment: Experiment, method: Method) -> str:
    """What to type for the same run."""
    fields = type(method).model_fields
    of_method = {key: value for key, value in method.model_dump().items() if value != fields[key].default}
    changed = {**of_method, **changed_settings(experiment)}
    file = experiment.name if experiment.name in names() else f"{experiment.name}.toml"  # of the user's own
    words = ["fedpdc benchmark run", file, "--method", method.name, "--preset", experiment.preset]
    words += ["--seed", str(experiment.seed)]
    return " ".join([*words, *(f"--set {key}={value}" for key, value in changed.items())])


def less_than_paper(experiment: Experiment, method: str) -> str:
    """In which ways a run did less than the paper, as words for its row; empty when in none."""
    if not (experiment.name in names() and published(experiment.name)):
        return ""
    paper = make_experiment(experiment.name, "paper", method)
    less = [
        f"{getattr(experiment, key)} of {getattr(paper, key)} {key}"
        for key in ("rounds", "epochs")
        if getattr(experiment, key) < getattr(paper, key)
    ]
    if experiment.images:
        less.append(f"{experiment.images:,} images only")
    return ", ".join(less)


def rounds_to_reach(accuracy_by_round: Sequence[float], wanted: float) -> int | None:
    """The first round with that accuracy, as in the paper's table IV; None if it was never reached."""
    return next((t for t, accuracy in enumerate(accuracy_by_round, start=1) if accuracy >= wanted), None)


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
        gains = (group["accuracy"] - group["fedavg"]).dropna()  # seed by seed: a seed's partition sways every method
        rows.append(
            {
                **row,
                "seeds": len(group),
                "accuracy": mean,
                "spread": group["accuracy"].std() if len(group) > 1 else None,
                "over_fedavg": gains.mean() if len(gains) and name != "fedavg" else None,
                "over_fedavg_spread": gains.std() if len(gains) > 1 and name != "fedavg" else None,
                "worst_recall": group["worst_recall"].mean(),
                "score": group["score"].mean(),
                "rounds": int(group["rounds"].max()),
                "to_reach_fedavg": reached.mean() if reached.notna().all() else None,
                "seeds_that_reached": int(reached.notna().sum()),
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


def time_of(method: str, cost: dict[str, float]) -> float | None:
    """The measured time of the method, or of its kind where no number changes how much it does."""
    return cost.get(method, None if "epochs=" in method or "copies=" in method else cost.get(kind(method)))


def same_task(changed: str) -> bool:
    """Whether what was changed, as words, leaves the paper's task: less of it, or other public images."""
    return {change.partition("=")[0] for change in changed.split(", ") if change} <= SMALLER


def as_text(changed: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in changed.items())


def _fedavg_of_the_same_seed(frame: pd.DataFrame) -> pd.Series:
    """For each run the accuracy that FedAvg ended with in the same setting and seed; NaN where it was not run."""
    keys = [*SETTING, "seed"]
    fedavg = frame[frame["method"] == "fedavg"].drop_duplicates(keys).set_index(keys)["accuracy"]
    return fedavg.reindex(pd.MultiIndex.from_frame(frame[keys])).set_axis(frame.index)


def _rounds_to_reach_fedavg(row: pd.Series) -> float:
    if row["method"] == "solo" or math.isnan(row["fedavg"]):
        return math.nan
    return float(rounds_to_reach(row["accuracy_by_round"], row["fedavg"]) or "nan")
