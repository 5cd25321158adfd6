"""The run directory: the one contract between training, reports and the app."""

import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import tomli_w
from pydantic import Field, TypeAdapter
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from fedpdc_med.common.errors import UserError, again
from fedpdc_med.common.files import (
    LOCK,
    new_file,
    only_writer,
    opened,
    parsed,
    read_text,
    refuse_links,
    refused,
    replace_bytes,
)
from fedpdc_med.methods.server import State
from fedpdc_med.runs.predictions import read_predictions

KINDS = ("benchmark", "simulation")
FileName = Annotated[str, Field(pattern=r"^[^/]+\.safetensors$")]


@dataclass
class Progress:
    """What a run must remember between rounds, beside the global model."""

    round: int = 0
    scores: dict[str, float] = field(default_factory=dict)  # p_i of the round before, by site
    kept: dict[str, FileName] = field(default_factory=dict)  # what a site keeps for its next round, in site_models/
    server_state: FileName | None = None  # the memory of the method's server step, a file there too


class Run:
    """One run directory; every file in it is replaced as a whole, so a kill at any moment leaves a run to resume.

    It may come from anybody, so one with links in it is not opened, and nothing is written through a link.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config_file = folder / "config.toml"
        self.rounds_file = folder / "rounds.jsonl"
        self.predictions_file = folder / "predictions.parquet"
        self.model_file = folder / "model.safetensors"
        self.checkpoint_file = folder / "checkpoint.safetensors"
        self.next_checkpoint_file = folder / "checkpoint.safetensors.next"
        self.site_models = folder / "site_models"
        self.review_file = folder / "review.json"

    @classmethod
    def create(cls, folder: Path, config: dict[str, Any], overwrite: bool = False) -> "Run":
        run = cls(folder)
        run.check_free(overwrite)
        if folder.exists():
            run.clear()
        run.site_models.mkdir(parents=True)
        replace_text(run.config_file, tomli_w.dumps(without_none(config)))
        return run

    @classmethod
    @contextmanager
    def begin(cls, folder: Path, config: dict[str, Any], overwrite: bool = False) -> Iterator["Run"]:
        """A new run, which no other command writes until the block ends."""
        cls(folder).check_free(overwrite)  # before the lock, which is a file in the folder
        folder.mkdir(parents=True, exist_ok=True)
        with only_writer(folder):
            yield cls.create(folder, config, overwrite)

    def check_free(self, overwrite: bool) -> None:
        there = self.config_file.exists()
        if there and not overwrite:
            raise UserError(
                f"{self.folder} already holds a run; say --resume to continue it, --overwrite to replace it, "
                "or choose another --out"
            )
        if self.folder.exists() and not there and any(entry.name != LOCK for entry in self.folder.iterdir()):
            raise UserError(f"{self.folder} is not empty and holds no run; choose another --out")
        if there and "kind" not in self.config:
            raise UserError(f"the config.toml in {self.folder} is not a run's; choose another --out")
        if there:
            self.refuse_links()

    def refuse_links(self) -> None:
        refuse_links(self.folder)
        if self.site_models.is_dir():
            refuse_links(self.site_models)

    def clear(self) -> None:
        """Make room for another run. What a run does not write stays, and so do reviewers' decisions, which say of
        themselves which model they were about.
        """
        shutil.rmtree(self.site_models, ignore_errors=True)
        for entry in (
            self.rounds_file,
            self.predictions_file,
            self.model_file,
            self.checkpoint_file,
            self.next_checkpoint_file,
            self.folder / "label_distribution.png",
            self.config_file,
        ):
            entry.unlink(missing_ok=True)

    @classmethod
    def open(cls, folder: Path) -> "Run":
        run = cls(folder)
        if not run.config_file.exists():
            raise UserError(f"{folder} holds no run (there is no config.toml in it)")
        run.refuse_links()
        if run.config.get("kind") not in KINDS:
            raise UserError(f"{folder} holds no run (its config.toml is not a run's); name a run directory")
        return run

    @property
    def config(self) -> dict[str, Any]:
        try:
            return parsed(tomllib.loads, read_text(self.config_file))
        except ValueError as error:
            raise UserError(f"{self.config_file} cannot be read: {error}") from None

    @property
    def finished(self) -> bool:
        return self.predictions_file.exists()

    def rounds(self) -> list[dict[str, Any]]:
        """The recorded rounds; a last line that a kill cut short is passed over."""
        if not self.rounds_file.exists():
            return []
        records = []
        for line in read_text(self.rounds_file).splitlines():
            try:
                records.append(parsed(json.loads, line))
            except ValueError:
                break
        return records

    def begin_checkpoint(self, state: State, progress: Progress) -> Path:
        """Write the next checkpoint beside the current one; `commit` makes it count."""
        with new_file(self.next_checkpoint_file) as file:
            file.write(serialised(state, {"progress": json.dumps(asdict(progress))}))
        return self.next_checkpoint_file

    def commit(self, record: dict[str, Any] | None) -> None:
        """Append the round's line, then put its checkpoint in place: state and progress in one file, one rename."""
        if record is not None:
            with opened(self.rounds_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, "a") as lines:
                lines.write(json.dumps(record) + "\n")
                lines.flush()
                os.fsync(lines.fileno())
        with self.next_checkpoint_file.open("rb") as written:
            os.fsync(written.fileno())
        self.next_checkpoint_file.replace(self.checkpoint_file)

    def progress(self) -> Progress | None:
        """What the last checkpoint remembers, or None when there is none yet."""
        if not self.checkpoint_file.exists():
            return None
        try:
            with safe_open(self.checkpoint_file, framework="pt") as file:
                return TypeAdapter(Progress).validate_json(file.metadata()["progress"])
        except (SafetensorError, KeyError, TypeError, ValueError):
            raise UserError(f"{self.checkpoint_file} is damaged; start again with --overwrite") from None

    def roll_back(self, progress: Progress) -> None:
        """Forget everything newer than the checkpoint: the lines of an open round and its updates."""
        lines = [json.dumps(record) for record in self.rounds() if record["round"] <= progress.round]
        replace_text(self.rounds_file, "".join(line + "\n" for line in lines))
        self.forget_updates(progress)

    def forget_updates(self, progress: Progress) -> None:
        if self.site_models.is_symlink():
            raise refused(self.site_models)
        self.site_models.mkdir(exist_ok=True)
        wanted = {*progress.kept.values(), progress.server_state}
        for file in self.site_models.iterdir():
            if file.name not in wanted:
                file.unlink()

    def finish(self, predictions: pd.DataFrame, model: bool) -> None:
        """The final model and its predictions; a method that shares nothing has no global model."""
        if model:
            replace_model(self.model_file, load_file(self.checkpoint_file))
        table = io.BytesIO()
        predictions.to_parquet(table, index=False)
        replace_bytes(self.predictions_file, table.getvalue())

    def predictions(self) -> pd.DataFrame:
        if not self.finished:
            raise UserError(f"{self.folder} is not finished; continue it with: {again(self.config, self.folder)}")
        return read_predictions(self.predictions_file)


def replace_text(path: Path, text: str) -> None:
    replace_bytes(path, text.encode())


def replace_model(path: Path, state: State) -> None:
    replace_bytes(path, serialised(state))


def serialised(state: State, metadata: dict[str, str] | None = None) -> bytes:
    return save({name: tensor.contiguous() for name, tensor in state.items()}, metadata)


def without_none(value: Any) -> Any:
    """TOML has no null: leave such keys out."""
    if isinstance(value, dict):
        return {key: without_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [without_none(inner) for inner in value]
    return value


def versions() -> dict[str, str]:
    """What a run was made with."""
    found = {name: version(name) for name in ("torch", "torchvision", "monai", "numpy")}
    return {"python": ".".join(map(str, sys.version_info[:3])), **found}


def git_commit() -> str | None:
    """The commit of the source tree this package runs from, if it is one."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
