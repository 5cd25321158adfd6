"""Between rounds: state and progress in one file, one rename, so that a kill at any moment leaves a run to resume."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import new_file, opened, refused, replace_bytes, replace_text
from fedpdc_med.methods.server import State
from fedpdc_med.runs.directory import Run, round_lines, write_predictions
from fedpdc_med.runs.predictions import GLOBAL
from fedpdc_med.runs.schema import Progress, Round


def begin_checkpoint(run: Run, state: State, progress: Progress) -> Path:
    """Write the next checkpoint next to the current one; `commit` makes it the current one."""
    with new_file(run.next_checkpoint_file) as file:
        file.write(serialised(state, {"progress": json.dumps(progress.model_dump())}))
    return run.next_checkpoint_file


def commit(run: Run, record: Round | None) -> None:
    """Append the round's line, then put its checkpoint in place: state and progress in one file, one rename."""
    if record is not None:
        with opened(run.rounds_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, "a") as lines:
            lines.write(record.line() + "\n")
            lines.flush()
            os.fsync(lines.fileno())
    with run.next_checkpoint_file.open("rb") as written:
        os.fsync(written.fileno())
    run.next_checkpoint_file.replace(run.checkpoint_file)


def read_progress(run: Run) -> Progress | None:
    """The progress in the last checkpoint, or None if there is no checkpoint yet."""
    if not run.checkpoint_file.exists():
        return None
    try:
        with safe_open(run.checkpoint_file, framework="pt") as file:
            return Progress.model_validate_json(file.metadata()["progress"])
    except (SafetensorError, KeyError, TypeError, ValidationError):
        raise UserError(f"{run.checkpoint_file} is corrupt; start again with --overwrite") from None


def roll_back(run: Run, progress: Progress) -> None:
    """Discard everything newer than the checkpoint: the lines of an unfinished round and its updates."""
    lines = [line for line, record in round_lines(run.rounds_file) if record.round <= progress.round]
    replace_text(run.rounds_file, "".join(line + "\n" for line in lines))
    forget_updates(run, progress)


def forget_updates(run: Run, progress: Progress) -> None:
    if run.site_models.is_symlink():
        raise refused(run.site_models)
    run.site_models.mkdir(exist_ok=True)
    wanted = {*progress.kept.values(), progress.server_state}
    for file in run.site_models.iterdir():
        if file.name not in wanted:
            file.unlink()


def finish(run: Run, predictions: pd.DataFrame, own: Mapping[str, Path] | None = None) -> None:
    """Write the final model and its predictions; `own`: the sites' models, if the method shares nothing."""
    if own is None:
        replace_model(run.model_file, load_file(run.checkpoint_file))
        own = {GLOBAL: run.model_file}
    write_predictions(run, predictions, own)


def replace_model(path: Path, state: State) -> None:
    replace_bytes(path, serialised(state))


def serialised(state: State, metadata: dict[str, str] | None = None) -> bytes:
    return save({name: tensor.contiguous() for name, tensor in state.items()}, metadata)
