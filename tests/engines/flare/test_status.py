"""`fedpdc federation status`, asked of a running federation."""

import os
import subprocess
import sys

import pytest

from fedpdc_med.engines.flare.status import latest_run, status_of
from fedpdc_med.runs.directory import create_run
from fedpdc_med.runs.schema import FederationRun, Round, SimulationRun, SiteRound, SiteSummary

SITES = {
    "north": SiteRound(status="ok", score=0.5, weight=0.75),
    "south": SiteRound(status="rejected", reason="its loss is not finite"),
    "east": SiteRound(status="failed", reason="not connected when the job started"),
}


@pytest.fixture
def written(run_config):
    def write(folder, name, kind=FederationRun):
        sites = {site: SiteSummary() for site in [*SITES, "west"]}
        run = create_run(folder / name, run_config(["a", "b"], kind=kind, method="fedavg", rounds=5, sites=sites))
        run.rounds_file.write_text(
            Round(round=2, seconds=1.0, accuracy=0.5, recall={}, sites=SITES).line() + "\n", encoding="utf-8"
        )
        return run

    return write


def test_a_runs_last_round_stands_beside_who_is_connected(tmp_path, written):
    found = status_of(written(tmp_path, "chest"), ["north", "west"])
    assert (found.round, found.rounds, found.finished) == (2, 5, False)
    assert [(one.site, one.connected, one.status) for one in found.sites] == [
        ("east", False, "failed"),
        ("north", True, "ok"),
        ("south", False, "rejected"),
        ("west", True, ""),
    ]


def test_only_runs_of_a_federation_count_and_there_may_be_none(tmp_path, written):
    written(tmp_path, "simulated", kind=SimulationRun)
    assert latest_run(tmp_path) is None
    assert [one.site for one in status_of(None, ["north"]).sites] == ["north"]


def test_the_run_whose_rounds_moved_last_is_shown(tmp_path, written):
    older, newer = written(tmp_path, "older"), written(tmp_path, "newer")
    os.utime(older.config_file, (100, 100))
    os.utime(newer.config_file, (200, 200))
    os.utime(older.rounds_file, (400, 400))
    os.utime(newer.rounds_file, (300, 300))
    assert latest_run(tmp_path).folder.name == "older"


def test_the_command_shows_both(federation, tmp_path, written):
    federation.wait_connected()
    written(tmp_path / "runs", "chest")
    shown = subprocess.run(
        [sys.executable, "-m", "fedpdc_med.cli", "federation", "status", str(federation.trial.admin_kit)],
        env={**os.environ, "FEDPDC_HOME": str(tmp_path), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert shown.returncode == 0, shown.stderr
    assert "chest: round 2 of 5" in shown.stdout
    rows = {
        line.split()[0]: line.split() for line in shown.stdout.splitlines() if line.split()[1:2] in (["yes"], ["no"])
    }
    assert rows["north"][1:5] == ["yes", "ok", "0.50", "0.75"]
    assert rows["south"][1:3] == ["yes", "rejected"] and rows["east"][1:3] == ["no", "failed"]
    assert rows["west"][1] == "yes"
