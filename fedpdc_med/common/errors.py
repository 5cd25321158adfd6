"""Errors written for the person who meets them: what was wrong, where, and what to do."""

from pathlib import Path
from typing import Any


class UserError(Exception):
    """The user's input was wrong; the command line prints the one-line message and exits with 2."""


class WorkFailed(Exception):
    """The input was fine but the work could not be finished; the command line exits with 1."""


def again(config: dict[str, Any], run: Path | str) -> str:
    """What to type to continue a run; only the user can say where its own site files are."""
    if "federation" in config:
        return "fedpdc federation run"
    return f"fedpdc resume {run}" + (" --sites FOLDER" if config.get("data", {}).get("sites_folder") else "")
