"""The runs folder as a reader sees it: which runs there are, one of them opened, or one sentence why it cannot be."""

import hashlib
import json
import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from fedpdc_med.common.errors import UserError, again
from fedpdc_med.common.files import parsed, read_text, refuse_links
from fedpdc_med.common.paths import home
from fedpdc_med.evaluation.recall import Method
from fedpdc_med.runs.predictions import (
    GLOBAL,
    REPORTED_SPLITS,
    classes_of,
    read_predictions,
    reported_split,
    select,
    validate,
)
from fedpdc_med.runs.schema import problem_with_config, problem_with_round

RUNS_FOLDER = "FEDPDC_RUNS"  # how `fedpdc review RUNS` tells the app where to look
RUN = "FEDPDC_RUN"  # and which run to show first
FILES = ("config.toml", "rounds.jsonl", "predictions.parquet", "model.safetensors")


@dataclass(frozen=True)
class Listed:
    """A folder in the runs folder; `changed` is when something in it was last written."""

    name: str
    status: Literal["finished", "running", "no run"]
    changed: float


@dataclass(frozen=True)
class RunView:
    """One run, read and checked; `predictions` is None while it is not finished."""

    name: str
    folder: Path
    config: dict[str, Any]
    rounds: list[dict[str, Any]]
    predictions: pd.DataFrame | None
    classes: list[str]
    status: Literal["finished", "running"]
    fingerprint: str

    @property
    def method(self) -> str:
        return str(self.config["method"]["name"])

    @property
    def planned_rounds(self) -> int:
        """0 where the configuration does not say."""
        return int({**self.config.get("simulation", {}), **self.config.get("experiment", {})}.get("rounds", 0))

    @property
    def models(self) -> list[str]:
        """The global model first, then sites' own models by name; empty while the run is not finished."""
        if self.predictions is None:
            return []
        return sorted(map(str, self.predictions["model"].unique()), key=lambda name: (name != GLOBAL, name))

    def models_on(self, split: str) -> list[str]:
        """The models that have seen these films: a site's own model may know its own films only."""
        if self.predictions is None:
            return []
        seen = set(map(str, self.predictions.loc[self.predictions["split"] == split, "model"].unique()))
        return [name for name in self.models if name in seen]

    @property
    def splits(self) -> list[str]:
        """The splits with predictions, films that chose nothing first."""
        if self.predictions is None:
            return []
        present = set(map(str, self.predictions["split"].unique()))
        return [name for name in REPORTED_SPLITS if name in present] + sorted(present - set(REPORTED_SPLITS))

    @property
    def sites(self) -> dict[str, dict[str, Any]]:
        """What the configuration says of each site; a benchmark's configuration names none."""
        return dict(self.config.get("sites", {}))

    def title_of(self, site: str) -> str:
        """A site's title, with its name where another site has the same one."""
        titles = {name: str(about.get("title") or name) for name, about in self.sites.items()}
        title = titles.pop(site, site)
        return f"{title} ({site})" if title in titles.values() and title != site else title


@dataclass(frozen=True)
class Choice:
    """What the reader chose in the sidebar."""

    second: RunView | None = None
    split: str = ""
    interval: Literal["wilson", "exact"] = "wilson"
    model: str = GLOBAL

    @property
    def method(self) -> Method:
        """The interval as `evaluation` names it: Wilson's gives way where patients have several films."""
        return "exact" if self.interval == "exact" else "auto"


def reported(view: RunView, choice: Choice) -> Choice:
    """The choice, but with the global model on the films that chose nothing, where the run has them."""
    if view.predictions is None or GLOBAL not in view.models:
        return choice
    return replace(choice, split=reported_split(view.predictions), model=GLOBAL)


def films(view: RunView, choice: Choice) -> pd.DataFrame:
    """The predictions that a page shows: of the chosen model, on the chosen split."""
    if view.predictions is None:
        raise UserError(unfinished(view))
    return select(view.predictions, model=choice.model, split=choice.split)


def unfinished(view: RunView) -> str:
    of = f" of {view.planned_rounds}" if view.planned_rounds else ""
    return (
        f"In progress: {len(view.rounds)}{of} rounds so far, and no predictions to count yet. If it was interrupted, "
        f"continue it with: {again(view.config, view.name)}"
    )


def runs_folder() -> Path:
    named = os.environ.get(RUNS_FOLDER)
    return Path(named) if named else home() / "runs"


def list_runs(root: Path) -> list[Listed]:
    """Every folder in the runs folder, by name; one that is a link out of the runs folder is passed over."""
    try:
        folders = [entry for entry in root.iterdir() if not entry.name.startswith(".") and entry.is_dir()]
    except OSError:
        return []
    inside = [folder for folder in folders if folder.resolve().is_relative_to(root.resolve())]
    return [_listed(folder) for folder in sorted(inside, key=lambda entry: entry.name)]


def open_run(root: Path, name: str) -> RunView:
    """Read one run of the listing; whatever is wrong with it is a UserError of one sentence."""
    folder = checked_folder(root, name)
    mark = fingerprint(folder)
    config = read_config(folder)
    rounds = _rounds(folder)
    classes = list(config.get("classes") or config["data"]["classes"])
    predictions = _predictions(folder, classes)
    status: Literal["finished", "running"] = "running" if predictions is None else "finished"
    return RunView(name, folder, config, rounds, predictions, classes, status, mark)


def checked_folder(root: Path, name: str) -> Path:
    """The folder of a listed run; a name from a link or a session never becomes a path before it is in the listing."""
    if name not in {listed.name for listed in list_runs(root)}:
        raise UserError("There is no such run in the runs folder; choose one from the list.")
    return root / name


def fingerprint(folder: Path) -> str:
    """Changes whenever one of the run's files does; what has been computed for it is then computed again."""
    parts = [folder.name]
    for name in FILES:
        try:
            found = (folder / name).stat()
            parts.append(f"{name} {found.st_size} {found.st_mtime_ns}")
        except OSError:
            parts.append(f"{name} -")
    return hashlib.sha256("\n".join([str(folder.parent.resolve()), *parts]).encode()).hexdigest()[:24]


def _listed(folder: Path) -> Listed:
    times = [(folder / name).stat().st_mtime for name in FILES if (folder / name).is_file()]
    status: Literal["finished", "running", "no run"] = "running"
    if not (folder / "config.toml").is_file():
        status = "no run"
    elif (folder / "predictions.parquet").is_file():
        status = "finished"
    return Listed(folder.name, status, max(times, default=0.0))


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of a run, from a folder without links: this is the first thing that is read of a run."""
    refuse_links(folder)
    file = folder / "config.toml"
    if not file.is_file():
        empty = not any(folder.iterdir())
        what = "is empty" if empty else "holds no run: there is no config.toml in it"
        raise UserError(f"The folder {folder.name} {what}. Choose another run, or make one with: fedpdc simulate")
    try:
        config = parsed(tomllib.loads, read_text(file))
    except (ValueError, OSError):
        raise UserError(f"config.toml of {folder.name} cannot be read; restore the file or run again.") from None
    problem = problem_with_config(config)
    if problem:
        raise UserError(f"config.toml of {folder.name} was not written by fedpdc: {problem}.")
    return config


def _rounds(folder: Path) -> list[dict[str, Any]]:
    """The recorded rounds; a last line that is still being written is passed over, any other damage is said."""
    file = folder / "rounds.jsonl"
    if not file.is_file():
        return []
    try:
        lines = read_text(file).splitlines()
    except (UnicodeDecodeError, OSError):
        raise UserError(f"rounds.jsonl of {folder.name} cannot be read; restore the file or run again.") from None
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            record = parsed(json.loads, line)
        except ValueError:
            if number == len(lines):
                break
            raise UserError(f"rounds.jsonl of {folder.name} is damaged in line {number}; run again.") from None
        problem = problem_with_round(record)
        if not problem and records and record["round"] <= records[-1]["round"]:
            problem = f"round {record['round']} comes after round {records[-1]['round']}"
        if problem:
            raise UserError(f"rounds.jsonl of {folder.name}, line {number}: {problem}.")
        records.append(record)
    return records


def _predictions(folder: Path, classes: list[str]) -> pd.DataFrame | None:
    file = folder / "predictions.parquet"
    if not file.is_file():
        return None
    frame = read_predictions(file)
    validate(frame, f"predictions.parquet of {folder.name}")
    if classes_of(frame) != classes:
        raise UserError(
            f"predictions.parquet of {folder.name} has other classes than its config.toml: they are of two runs."
        )
    return frame
