"""The runs folder as a reader sees it: the list of runs, and one of them opened, or one sentence why it cannot be."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import home
from fedpdc_med.runs.directory import FILES, Run, read_run
from fedpdc_med.runs.plan import Plan
from fedpdc_med.runs.predictions import GLOBAL, reported_split, select
from fedpdc_med.runs.schema import BenchmarkRun, RunConfig, SimulationRun

RUNS_FOLDER = "FEDPDC_RUNS"  # how `fedpdc review RUNS` tells the app where to look
RUN = "FEDPDC_RUN"  # and which run to show first
MAIN = ("fedpdc", "fedpdc-ce")  # the methods that runs are made for; all others are comparisons


@dataclass(frozen=True)
class Listed:
    """A folder in the runs folder; `changed` is when something in it was last written."""

    name: str
    status: Literal["finished", "running", "no run"]
    changed: float


@dataclass(frozen=True)
class Choice:
    """What the reader chose in the sidebar."""

    second: Run | None = None
    split: str = ""
    interval: Literal["wilson", "exact"] = "wilson"
    model: str = GLOBAL


def reported(run: Run, choice: Choice) -> Choice:
    """The choice, but with the global model on the split that is reported first, if the run has it."""
    if run.predictions is None or GLOBAL not in run.models:
        return choice
    return replace(choice, split=reported_split(run.predictions), model=GLOBAL)


def films(run: Run, choice: Choice) -> pd.DataFrame:
    """The predictions that a page shows: those of the chosen model on the chosen split."""
    if run.predictions is None:
        raise UserError(unfinished(run))
    return select(run.predictions, model=choice.model, split=choice.split)


def unfinished(run: Run) -> str:
    return (
        f"In progress: {len(run.rounds)} of {run.plan.rounds} rounds completed, no predictions yet. If it "
        f"was interrupted, continue it with: {run.again(run.name)}"
    )


def runs_folder() -> Path:
    named = os.environ.get(RUNS_FOLDER)
    return Path(named) if named else home() / "runs"


def list_runs(root: Path) -> list[Listed]:
    """Every folder in the runs folder, by name; links that lead out of the runs folder are skipped."""
    try:
        folders = [entry for entry in root.iterdir() if not entry.name.startswith(".") and entry.is_dir()]
    except OSError:
        return []
    inside = [folder for folder in folders if folder.resolve().is_relative_to(root.resolve())]
    return [_listed(folder) for folder in sorted(inside, key=lambda entry: entry.name)]


def open_run(root: Path, name: str) -> Run:
    """Read one run of the listing completely; anything wrong with it raises a UserError of one sentence."""
    run = Run(checked_folder(root, name))
    _ = run.cache_key, run.config, run.rounds, run.predictions  # the key first: it must not be newer than the rest
    return run


def checked_folder(root: Path, name: str) -> Path:
    """The folder of a listed run; a name from a link or a session becomes a path only if it is in the listing."""
    if name not in {listed.name for listed in list_runs(root)}:
        raise UserError("There is no such run in the runs folder; choose one from the list.")
    return root / name


def _listed(folder: Path) -> Listed:
    times = [(folder / name).stat().st_mtime for name in FILES if (folder / name).is_file()]
    status: Literal["finished", "running", "no run"] = "running"
    if not (folder / "config.toml").is_file():
        status = "no run"
    elif (folder / "predictions.parquet").is_file():
        status = "finished"
    return Listed(folder.name, status, max(times, default=0.0))


def is_main(plan: Plan) -> bool:
    return plan.method.name in MAIN


def first_shown(root: Path, listing: list[Listed]) -> str:
    """The newest finished run on films that is not a comparison, or else the newest of all.

    `fedpdc simulate --compare` makes its comparisons last; nobody should sign one just because it is the newest.
    """
    newest_first = sorted(listing, key=lambda listed: (listed.status != "no run", listed.changed), reverse=True)
    for listed in newest_first:
        config = _finished(root, listed)
        if config and not isinstance(config, BenchmarkRun) and is_main(config.plan):
            return listed.name
    return newest_first[0].name


def solo_beside(run: Run) -> str | None:
    """The local-only run (solo) on the same films with the same seed, if it is in the same folder."""
    root = run.folder.parent
    for listed in list_runs(root):
        config = _finished(root, listed) if listed.name != run.name else None
        if config and config.plan.method.name == "solo" and _task(config) == _task(run.config):
            return listed.name
    return None


def _finished(root: Path, listed: Listed) -> RunConfig | None:
    """The configuration of a finished run; none where the run is not finished or not sound."""
    try:
        return read_run(root / listed.name).config if listed.status == "finished" else None
    except UserError:
        return None


def _task(config: RunConfig) -> list[Any]:
    """What must be equal in two runs for their films and seeds to be the same."""
    if isinstance(config, BenchmarkRun):
        return [config.experiment, config.data.fingerprint]
    privacy = config.privacy if isinstance(config, SimulationRun) else None
    same = config.plan.model_dump(exclude={"method", "package", "run"})
    return [config.kind, same, privacy, config.data.fingerprints]
