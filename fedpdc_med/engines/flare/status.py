"""The status of a federation: who is connected, which round, and the last score and weight of each site."""

from dataclasses import dataclass
from pathlib import Path

from fedpdc_med.common.errors import UserError
from fedpdc_med.engines.flare.jobs import connected, session
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.schema import FederationRun


@dataclass(frozen=True)
class SiteStatus:
    site: str
    connected: bool
    status: str  # of its last round, or "" before the first
    score: float | None
    weight: float | None
    reason: str


@dataclass(frozen=True)
class Status:
    round: int
    rounds: int
    finished: bool
    sites: list[SiteStatus]


def who_is_there(admin_kit: Path) -> list[str]:
    with session(admin_kit) as opened:
        return connected(opened)


def status_of(run: Run | None, there: list[str]) -> Status:
    """A run's last round together with who is connected now; without a run, only the latter."""
    rounds = run.rounds if run else []
    last = rounds[-1].sites if rounds else {}
    names = sorted({*(run.sites if run else ()), *there, *last})
    sites = []
    for name in names:
        one = last.get(name)
        site = SiteStatus(name, name in there, "", None, None, "")
        if one:
            site = SiteStatus(name, name in there, one.status, one.score, one.weight, one.reason)
        sites.append(site)
    planned = run.plan.rounds if run else 0
    return Status(rounds[-1].round if rounds else 0, planned, bool(run and run.finished), sites)


def latest_run(runs: Path) -> Run | None:
    """The most recently updated run of a federation."""
    found = [Run(file.parent) for file in runs.glob("*/config.toml")]
    ours = [run for run in found if is_federations(run)]
    return max(ours, key=last_moved, default=None)


def is_federations(run: Run) -> bool:
    try:
        return isinstance(run.config, FederationRun)
    except UserError:  # someone else's run in the same folder, or a corrupt one
        return False


def last_moved(run: Run) -> float:
    """A round changes rounds.jsonl; config.toml rarely changes."""
    return max(file.stat().st_mtime for file in (run.rounds_file, run.config_file) if file.exists())
