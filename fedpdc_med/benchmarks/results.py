"""Finished benchmark runs as plain records, kept as JSON."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fedpdc_med.benchmarks.catalogue import Experiment, make_experiment, names, published, recorded
from fedpdc_med.common.errors import UserError, again
from fedpdc_med.common.files import parsed
from fedpdc_med.methods import Method, make_method, method_class
from fedpdc_med.runs.directory import Run, read_run

OF_SITE = {"status", "films", "score", "weight"}  # kept of each site's last round
LAST = 5  # rounds over which a score is averaged: one round's swings by several points
KEPT = (  # what a table or figure takes from a kept result
    *("name", "experiment", "method", "preset", "seed", "changed", "rounds", "accuracy", "worst_recall", "score"),
    *("accuracy_by_round", "worst_recall_by_round", "seconds_per_round", "bytes_per_round"),
    *("less_than_paper", "command"),
)


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


def runs_at(folder: Path) -> list[Run]:
    """The run there, or all finished benchmark runs below."""
    if (folder / "config.toml").exists():
        return [read_run(folder)]
    runs = [Run(config.parent) for config in sorted(folder.glob("**/config.toml"))]
    return [run for run in runs if run.finished and run.config.get("kind") == "benchmark"]


def read_kept(file: Path) -> dict[str, Any]:
    try:
        result = parsed(json.loads, file.read_text())
    except ValueError as error:
        raise UserError(f"{file} is no kept result: {error}") from None
    missing = [key for key in KEPT if not isinstance(result, dict) or key not in result]
    if missing:
        raise UserError(f"{file} is no kept result: it has no {missing[0]!r}")
    return result


def keep(results: Sequence[dict[str, Any]], folder: Path) -> None:
    """One small JSON file a run."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        (folder / file_name(result["name"], ".json")).write_text(json.dumps(result, indent=1) + "\n")


def file_name(name: str, ending: str) -> str:
    """A file in the folder itself, whatever a run calls its settings."""
    return name.replace("/", "_").replace("\0", "_") + ending


def result_of(run: Run) -> dict[str, Any]:
    """One finished run in numbers; accuracies and recalls in per cent, of the test images, which chose nothing."""
    config, rounds = run.config, run.rounds
    if config.get("kind") != "benchmark":
        raise UserError(f"{run.folder} is not a benchmark run")
    if not run.finished:
        raise UserError(f"{run.folder} is not finished; continue it with: {again(config, run.folder)}")
    settings = {key: value for key, value in config["method"].items() if key != "name"}
    name = config["method"]["name"]
    experiment, method = recorded(config["experiment"], name), make_method(name, **settings)
    accuracy = [round(100 * record.accuracy, 3) for record in rounds]
    worst = [round(100 * (record.worst_recall or 0.0), 3) for record in rounds]
    scores = [record.score for record in rounds if record.score is not None]
    changed = changed_settings(experiment)
    shared = changed.pop("public_split", "halves") == "shared"  # a way to use the public images, not another task
    if (shared and method.parts().public.used) or method.parts().trains == "public":
        scores = []  # of images that were trained on
    return {
        "name": run_name(experiment, method),
        "experiment": experiment.name,
        "method": described(config["method"]) + (" shared" if shared else ""),
        "preset": experiment.preset,
        "seed": experiment.seed,
        "changed": changed,
        "rounds": rounds[-1].round,
        "accuracy": accuracy[-1],
        "worst_recall": worst[-1],
        "score": round(100 * sum(scores[-LAST:]) / len(scores[-LAST:]), 3) if scores else None,
        "accuracy_by_round": accuracy,
        "worst_recall_by_round": worst,
        "sites": {site: record.model_dump(include=OF_SITE) for site, record in rounds[-1].sites.items()},
        "seconds_per_round": round(sum(record.seconds for record in rounds) / len(rounds), 3),
        "bytes_per_round": round(sum(record.bytes or 0 for record in rounds) / len(rounds)),
        "less_than_paper": less_than_paper(experiment, method.name),
        "command": command_of(experiment, method),
        "versions": config["versions"],
        "git_commit": config.get("git_commit"),
        "data": {"name": config["data"]["name"], "fingerprint": config["data"]["fingerprint"]},
    }


def described(method: dict[str, Any]) -> str:
    """The method's name with every setting that is not its default, as in `fedpdc soft-accuracy strength=1`."""
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
