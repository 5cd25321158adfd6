"""Finished benchmark runs as rows beside the paper's numbers."""

from pathlib import Path
from typing import Any

import pandas as pd

from fedpdc_med.algorithms import method_class
from fedpdc_med.errors import UserError
from fedpdc_med.experiments.experiment import Experiment, make_experiment, names, published
from fedpdc_med.runs import Run


def find_runs(folder: Path) -> list[Run]:
    """All finished benchmark runs below a folder."""
    runs = [Run(config.parent) for config in sorted(folder.glob("**/config.toml"))]
    return [run for run in runs if run.finished and run.config.get("kind") == "benchmark"]


def result_of(run: Run) -> dict[str, Any]:
    """One finished run in numbers."""
    config, rounds = run.config, run.rounds()
    if config.get("kind") != "benchmark" or not run.finished:
        raise UserError(f"{run.folder} is not a finished benchmark run")
    recalls = [value for value in rounds[-1]["recall"].values() if value is not None]
    return {
        "experiment": config["experiment"]["name"],
        "method": described(config["method"]),
        "name": config["method"]["name"],
        "preset": config["experiment"]["preset"],
        "seed": config["experiment"]["seed"],
        "rounds": rounds[-1]["round"],
        "accuracy": 100 * rounds[-1]["accuracy"],
        "worst_recall": 100 * min(recalls),
        "seconds_per_round": sum(record["seconds"] for record in rounds) / len(rounds),
        "less_than_paper": less_than_paper(Experiment(**config["experiment"]), config["method"]["name"]),
    }


def described(method: dict[str, Any]) -> str:
    """The method's name with every setting that is not its default, as in `fedpdc reference strength=1`."""
    fields = method_class(method["name"]).model_fields
    changed = [(key, value) for key, value in method.items() if key != "name" and value != fields[key].default]
    shown = [value if isinstance(value, str) else f"{key}={value:g}" for key, value in changed]
    return " ".join([method["name"], *shown])


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


def table(results: list[dict[str, Any]]) -> pd.DataFrame:
    """One row an experiment, method and preset: mean and spread over seeds, the paper's number and the difference."""
    rows = []
    keys = ["experiment", "method", "name", "preset", "rounds", "less_than_paper"]
    for values, group in pd.DataFrame(results).groupby(keys, sort=False):
        row = dict(zip(keys, map(str, values), strict=True))
        paper = published(row["experiment"]).get(row.pop("name"))
        mean = group["accuracy"].mean()
        rows.append(
            {
                **row,
                "seeds": len(group),
                "accuracy": mean,
                "spread": group["accuracy"].std() if len(group) > 1 else None,
                "worst_recall": group["worst_recall"].mean(),
                "paper": paper,
                "difference": mean - paper if paper is not None else None,
                "seconds_per_round": group["seconds_per_round"].mean(),
            }
        )
    return pd.DataFrame(rows).sort_values(["experiment", "preset", "accuracy"], ascending=[True, True, False])
