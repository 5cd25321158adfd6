"""Runs found by their method: the one to show first, and the one that trained each site alone."""

from pathlib import Path
from typing import Any

from fedpdc_med.common.errors import UserError
from fedpdc_med.runs.listing import Listed, RunView, list_runs, read_config

MAIN = "fedpdc"  # how the methods begin that a run is made for; all others are there to compare with


def is_main(config: dict[str, Any]) -> bool:
    return str(config["method"]["name"]).startswith(MAIN)


def first_shown(root: Path, listing: list[Listed]) -> str:
    """The newest finished medical run that is no comparison, or else the newest of all.

    `fedpdc simulate --compare` makes its comparisons last; nobody should read or sign one because it is the newest.
    """
    newest_first = sorted(listing, key=lambda listed: (listed.status != "no run", listed.changed), reverse=True)
    for listed in newest_first:
        config = _finished(root, listed)
        if config and config["kind"] != "benchmark" and is_main(config):
            return listed.name
    return newest_first[0].name


def solo_beside(view: RunView) -> str | None:
    """The run that trained each site alone on the same films with the same seed, if it lies beside this one."""
    root = view.folder.parent
    for listed in list_runs(root):
        config = _finished(root, listed) if listed.name != view.name else None
        if config and config["method"]["name"] == "solo" and _task(config) == _task(view.config):
            return listed.name
    return None


def _finished(root: Path, listed: Listed) -> dict[str, Any] | None:
    """The configuration of a finished run; none where the run is not finished or not sound."""
    try:
        return read_config(root / listed.name) if listed.status == "finished" else None
    except UserError:
        return None


def _task(config: dict[str, Any]) -> list[Any]:
    """What two runs must share for their films and seeds to be the same."""
    data = config.get("data", {})
    plan = config.get("simulation") or config.get("experiment")
    return [config["kind"], plan, data.get("fingerprints"), data.get("fingerprint")]
