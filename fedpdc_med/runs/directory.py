"""The run directory: the contract between training, reports and the app. Every file in it is replaced as a whole.

A run may come from anyone, so one that contains links is not opened, nothing is written through a link, and everything
that is read is checked.
"""

import hashlib
import io
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import tomli_w
from pydantic import ValidationError

from fedpdc_med import __version__
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import (
    LOCK,
    only_writer,
    parsed,
    read_text,
    refuse_links,
    replace_bytes,
    replace_text,
    sha256_of,
)
from fedpdc_med.runs.plan import Plan
from fedpdc_med.runs.predictions import GLOBAL, REPORTED_SPLITS, classes_of, read_predictions, validate
from fedpdc_med.runs.schema import FederationRun, Round, RunConfig, SimulationRun, SiteSummary, config_from, sentence

CONFIG = "config.toml"
FILES = (CONFIG, "rounds.jsonl", "predictions.parquet", "model.safetensors")


@dataclass(frozen=True)
class Run:
    """One run directory as it was when it was first looked at; `read_run` again for what has come since."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def config_file(self) -> Path:
        return self.folder / CONFIG

    @property
    def rounds_file(self) -> Path:
        return self.folder / "rounds.jsonl"

    @property
    def predictions_file(self) -> Path:
        return self.folder / "predictions.parquet"

    @property
    def model_file(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def checkpoint_file(self) -> Path:
        return self.folder / "checkpoint.safetensors"

    @property
    def next_checkpoint_file(self) -> Path:
        return self.folder / "checkpoint.safetensors.next"

    @property
    def site_models(self) -> Path:
        return self.folder / "site_models"

    @property
    def finished(self) -> bool:
        """Whether the run is finished now, whenever it was read."""
        return self.predictions_file.exists()

    @cached_property
    def cache_key(self) -> str:
        """Changes whenever one of the run's files changes, so that cached results are computed again."""
        return cache_key(self.folder)

    @cached_property
    def config(self) -> RunConfig:
        return read_config(self.folder)

    @property
    def plan(self) -> Plan:
        return self.config.plan

    @cached_property
    def rounds(self) -> list[Round]:
        """The recorded rounds; a last line that is still being written is skipped, any other damage is an error."""
        return [record for _, record in round_lines(self.rounds_file)]

    @cached_property
    def predictions(self) -> pd.DataFrame | None:
        """None while the run is not finished."""
        if not self.finished:
            return None
        frame = read_predictions(self.predictions_file)
        where = f"predictions.parquet of {self.name}"
        validate(frame, where)
        if classes_of(frame) != self.classes:
            raise UserError(f"{where} and config.toml have different classes; they are not from the same run.")
        return frame

    def final_predictions(self) -> pd.DataFrame:
        if self.predictions is None:
            raise UserError(f"{self.folder} is not finished; continue it with: {self.again(self.folder)}")
        return self.predictions

    def again(self, where: Path | str) -> str:
        """The command that continues it; only the user knows where the run's own site files are."""
        if isinstance(self.config, FederationRun):
            return "fedpdc federation run"
        own = isinstance(self.config, SimulationRun) and self.config.data.sites_folder
        return f"fedpdc resume {where}" + (" --sites FOLDER" if own else "")

    @property
    def status(self) -> Literal["finished", "running"]:
        return "running" if self.predictions is None else "finished"

    @property
    def classes(self) -> list[str]:
        return list(self.plan.classes)

    @property
    def method(self) -> str:
        return self.plan.method.name

    @property
    def models(self) -> list[str]:
        """The global model first, then sites' own models by name; empty while the run is not finished."""
        if self.predictions is None:
            return []
        return sorted(map(str, self.predictions["model"].unique()), key=lambda name: (name != GLOBAL, name))

    def models_on(self, split: str) -> list[str]:
        """The models with predictions on these films: a site's own model may be tested on its own films only."""
        if self.predictions is None:
            return []
        seen = set(map(str, self.predictions.loc[self.predictions["split"] == split, "model"].unique()))
        return [name for name in self.models if name in seen]

    @property
    def splits(self) -> list[str]:
        """The splits with predictions, reported ones first."""
        if self.predictions is None:
            return []
        present = set(map(str, self.predictions["split"].unique()))
        return [name for name in REPORTED_SPLITS if name in present] + sorted(present - set(REPORTED_SPLITS))

    @property
    def sites(self) -> dict[str, SiteSummary]:
        """What the configuration says about each site; that of a benchmark names none."""
        return self.config.sites

    def title_of(self, site: str) -> str:
        """A site's title, with its name if another site has the same title."""
        titles = {name: about.title or name for name, about in self.sites.items()}
        title = titles.pop(site, site)
        return f"{title} ({site})" if title in titles.values() and title != site else title


# ---- reading


def read_run(folder: Path) -> Run:
    """A run with a valid configuration; its rounds and predictions are checked when they are read."""
    run = Run(folder)
    _ = run.config
    return run


def read_config(folder: Path) -> RunConfig:
    """The configuration of a run, from a folder without links; this is read before anything else of a run."""
    file = folder / CONFIG
    if folder.is_dir():
        _refuse_links(folder)
    if not file.is_file():
        empty = folder.is_dir() and not any(folder.iterdir())
        what = "is empty" if empty else f"contains no run: there is no {CONFIG} in it"
        name = folder.absolute().name
        raise UserError(f"The folder {name} {what}. Choose another run, or make one with: fedpdc simulate")
    try:
        table = parsed(tomllib.loads, read_text(file))
    except (ValueError, OSError):
        raise UserError(f"{CONFIG} of {folder.name} cannot be read; restore the file or run again.") from None
    try:
        return config_from(table)
    except ValueError as error:
        raise UserError(f"{CONFIG} of {folder.name} is not the configuration of a run: {error}.") from None


def _refuse_links(folder: Path) -> None:
    refuse_links(folder)
    if (folder / "site_models").is_dir():
        refuse_links(folder / "site_models")


def round_lines(file: Path) -> Iterator[tuple[str, Round]]:
    """Every complete line with the round it records."""
    where, last = f"{file.name} of {file.absolute().parent.name}", 0
    if not file.exists():
        return
    try:
        lines = read_text(file).splitlines()
    except (UnicodeDecodeError, OSError):
        raise UserError(f"{where} cannot be read; restore the file or run again.") from None
    for number, line in enumerate(lines, start=1):
        try:
            record = Round.model_validate_json(line)
        except ValidationError as error:
            if error.errors()[0]["type"] != "json_invalid":
                raise UserError(f"{where}, line {number}: {sentence(error)}.") from None
            if number == len(lines):
                return
            raise UserError(f"{where} is corrupt in line {number}; run again.") from None
        if record.round <= last:
            raise UserError(f"{where}, line {number}: round {record.round} comes after round {last}.")
        last = record.round
        yield line, record


def cache_key(folder: Path) -> str:
    parts = [folder.name]
    for name in FILES:
        try:
            found = (folder / name).stat()
            parts.append(f"{name} {found.st_size} {found.st_mtime_ns}")
        except OSError:
            parts.append(f"{name} -")
    return hashlib.sha256("\n".join([str(folder.parent.resolve()), *parts]).encode()).hexdigest()[:24]


# ---- writing


def create_run(folder: Path, config: RunConfig, overwrite: bool = False) -> Run:
    check_free(folder, overwrite)
    run = Run(folder)
    if folder.exists():
        _clear(run)
    run.site_models.mkdir(parents=True)
    write_config(run, config)
    return run


@contextmanager
def begin_run(folder: Path, config: RunConfig, overwrite: bool = False) -> Iterator[Run]:
    """A new run, which no other command writes until the block ends."""
    check_free(folder, overwrite)  # before the lock, which is a file in the folder
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder):
        yield create_run(folder, config, overwrite)


def scratch_run(folder: Path) -> Run:
    """A run for timing and tests: rounds and checkpoints as in any run, but no configuration."""
    run = Run(folder)
    run.site_models.mkdir(parents=True)
    return run


def check_free(folder: Path, overwrite: bool) -> None:
    there = (folder / CONFIG).exists()
    if there and not overwrite:
        raise UserError(
            f"{folder} already contains a run: use --resume to continue it, --overwrite to replace it, "
            "or choose another --out"
        )
    if folder.exists() and not there and any(entry.name != LOCK for entry in folder.iterdir()):
        raise UserError(f"{folder} is not empty and contains no run; choose another folder")
    if there:
        _refuse_links(folder)
        if not _is_a_runs(folder / CONFIG):
            raise UserError(f"the {CONFIG} in {folder} does not belong to a run; choose another folder")


def _is_a_runs(file: Path) -> bool:
    """A run of any version; another program's configuration must not be lost."""
    try:
        return "kind" in parsed(tomllib.loads, read_text(file))
    except ValueError:
        return False


def _clear(run: Run) -> None:
    """Make room for another run. Files that a run does not write stay, and so do reviewers' decisions, which name the
    model that they are about.
    """
    shutil.rmtree(run.site_models, ignore_errors=True)
    for entry in (
        run.rounds_file,
        run.predictions_file,
        run.model_file,
        run.checkpoint_file,
        run.next_checkpoint_file,
        run.folder / "label_distribution.png",
        run.config_file,
    ):
        entry.unlink(missing_ok=True)


def write_config(run: Run, config: RunConfig) -> None:
    replace_text(run.config_file, tomli_w.dumps(without_none(config.model_dump(mode="json"))))


def write_predictions(run: Run, predictions: pd.DataFrame, models: Mapping[str, Path]) -> None:
    """Predictions with the SHA-256 of each model that made them, by its name in the column `model`."""
    predictions.attrs["models"] = {name: sha256_of(file) for name, file in models.items()}
    table = io.BytesIO()
    predictions.to_parquet(table, index=False)
    replace_bytes(run.predictions_file, table.getvalue())


def without_none(value: Any) -> Any:
    """TOML has no null: leave such keys out."""
    if isinstance(value, dict):
        return {key: without_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [without_none(inner) for inner in value]
    return value


def made_with() -> dict[str, str]:
    """The versions of the software that makes a run."""
    found = {name: version(name) for name in ("torch", "torchvision", "monai", "numpy")}
    return {"fedpdc_med": __version__, "python": ".".join(map(str, sys.version_info[:3])), **found}


def git_commit() -> str | None:
    """The commit of the source tree this package runs from, if it is one."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
