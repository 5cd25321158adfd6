"""Finished benchmark runs as plain records, kept as JSON."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from fedpdc_med.benchmarks.catalogue import make_experiment, names, published
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import parsed
from fedpdc_med.methods import Method, config_of, label, method_of
from fedpdc_med.runs.directory import Run, read_run
from fedpdc_med.runs.plan import MethodConfig
from fedpdc_med.runs.schema import BenchmarkRun, Experiment, ImageSource, SiteRound, sentence

OF_SITE = {"status", "films", "score", "weight"}  # kept of each site's last round
LAST = 5  # rounds over which tuning accuracy is averaged: that of one round varies by several points


class KeptResult(BaseModel):
    """A finished benchmark run as a plain record; accuracy and recall in per cent, on the test images."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    experiment: str
    method: MethodConfig
    shared: bool = False  # all public images are used for both training and scoring; the task stays the same
    preset: str
    seed: int
    changed: dict[str, Any]  # settings changed from the experiment's and its preset's values
    rounds: int
    accuracy: float
    worst_recall: float
    score: float | None  # None: the weighting images were trained on
    accuracy_by_round: list[float]
    worst_recall_by_round: list[float]
    sites: dict[str, SiteRound] = {}
    seconds_per_round: float
    bytes_per_round: int
    less_than_paper: str
    command: str
    made_with: dict[str, str]
    git_commit: str | None
    data: ImageSource

    @property
    def label(self) -> str:
        return label(self.method) + (" shared" if self.shared else "")

    @property
    def kind(self) -> str:
        """The label without its numbers: `fedprox mu=1` and `fedprox` are the same kind."""
        words = self.method.model_copy(
            update={"settings": {key: value for key, value in self.method.settings.items() if isinstance(value, str)}}
        )
        return label(words) + (" shared" if self.shared else "")


def collect(paths: Iterable[Path], tell: Callable[[str], None] = print) -> list[KeptResult]:
    """The results in run directories, kept JSON files, and folders of either; each run once."""
    found: dict[tuple[str, str], KeptResult] = {}
    for path in paths:
        if path.is_file():
            results = [read_kept(path)]
        elif path.is_dir():
            results = [result_of(run) for run in runs_at(path)] + [
                read_kept(file) for file in sorted(path.glob("*.json"))
            ]
        else:
            raise UserError(f"{path} is not a run directory, a kept result (.json) or a folder; check the path")
        for result in results:
            first = found.setdefault((result.command, result.data.fingerprint), result)
            if first.accuracy_by_round != result.accuracy_by_round:
                seen = f"{first.accuracy:.2f} and {result.accuracy:.2f} %"
                tell(f"{result.name} was found twice with different results ({seen}); the first one is shown.")
    return list(found.values())


def runs_at(folder: Path) -> list[Run]:
    """The run in this folder, or all finished benchmark runs below it."""
    if (folder / "config.toml").exists():
        return [read_run(folder)]
    runs = [Run(config.parent) for config in sorted(folder.glob("**/config.toml"))]
    return [run for run in runs if run.finished and isinstance(run.config, BenchmarkRun)]


def read_kept(file: Path) -> KeptResult:
    try:
        return KeptResult.model_validate(parsed(json.loads, file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise UserError(f"{file} is not a kept result: {sentence(error)}") from None
    except ValueError as error:
        raise UserError(f"{file} is not a kept result: {error}") from None


def keep(results: Sequence[KeptResult], folder: Path) -> None:
    """Write one small JSON file per run."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        text = json.dumps(result.model_dump(mode="json", exclude_unset=True), indent=1)
        (folder / file_name(result.name, ".json")).write_text(text + "\n", encoding="utf-8")


def file_name(name: str, ending: str) -> str:
    """A file name without folders, whatever characters a run's settings contain."""
    return name.replace("/", "_").replace("\0", "_") + ending


def result_of(run: Run) -> KeptResult:
    config, rounds = benchmark(run), run.rounds
    if not run.finished:
        raise UserError(f"{run.folder} is not finished; continue it with: {run.again(run.folder)}")
    experiment, method = config.experiment, method_of(config.plan.method)
    accuracy = [round(100 * record.accuracy, 3) for record in rounds]
    worst = [round(100 * (record.worst_recall or 0.0), 3) for record in rounds]
    scores = [record.score for record in rounds if record.score is not None]
    changed = dict(experiment.changes)
    shared = changed.pop("public_split", "halves") == "shared"
    if (shared and method.parts().public.used) or method.parts().trains == "public":
        scores = []
    return KeptResult(
        name=run_name(experiment, method),
        experiment=experiment.name,
        method=config_of(method),
        shared=shared,
        preset=experiment.preset,
        seed=experiment.seed,
        changed=changed,
        rounds=rounds[-1].round,
        accuracy=accuracy[-1],
        worst_recall=worst[-1],
        score=round(100 * sum(scores[-LAST:]) / len(scores[-LAST:]), 3) if scores else None,
        accuracy_by_round=accuracy,
        worst_recall_by_round=worst,
        sites={
            site: SiteRound(**record.model_dump(include=OF_SITE, exclude_unset=True))
            for site, record in rounds[-1].sites.items()
        },
        seconds_per_round=round(sum(record.seconds for record in rounds) / len(rounds), 3),
        bytes_per_round=round(sum(record.bytes or 0 for record in rounds) / len(rounds)),
        less_than_paper=less_than_paper(experiment, method.name),
        command=command_of(experiment, method),
        made_with=config.made_with,
        git_commit=config.git_commit,
        data=ImageSource(name=config.data.name, fingerprint=config.data.fingerprint),
    )


def benchmark(run: Run) -> BenchmarkRun:
    if not isinstance(run.config, BenchmarkRun):
        raise UserError(f"{run.folder} is not a benchmark run")
    return run.config


def run_name(experiment: Experiment, method: Method) -> str:
    """A folder name unique to the run: it contains every setting that is not its default."""
    parts = [experiment.name, *label(config_of(method)).split()]
    parts += [f"{key}={value}" for key, value in experiment.changes.items()]
    return "-".join([*parts, experiment.preset, f"seed{experiment.seed}"])


def command_of(experiment: Experiment, method: Method) -> str:
    """The command that makes the same run."""
    fields = type(method).model_fields
    of_method = {key: value for key, value in method.model_dump().items() if value != fields[key].default}
    changed = {**of_method, **experiment.changes}
    file = experiment.name if experiment.name in names() else f"{experiment.name}.toml"  # the user's own
    words = ["fedpdc benchmark run", file, "--method", method.name, "--preset", experiment.preset]
    words += ["--seed", str(experiment.seed)]
    return " ".join([*words, *(f"--set {key}={value}" for key, value in changed.items())])


def less_than_paper(experiment: Experiment, method: str) -> str:
    """What was reduced relative to the paper, in words; empty if nothing was."""
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
