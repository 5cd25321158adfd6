"""What `fedpdc federation run` and `try` refuse before anything starts, and FLARE's refusals in words."""

from pathlib import Path

import pytest
from nvflare.fuel.flare_api.api_spec import AuthorizationError, InternalError, NoConnection, SessionClosed

from fedpdc_med.cli.federation import run, try_out
from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.engines.flare.jobs import flare_errors

PROJECT = """name = "trial"
coordinator = "localhost"
classes = ["normal", "pneumonia", "covid-19"]
[[hospital]]
name = "north"
[[administrator]]
name = "lead@example.org"
"""


@pytest.fixture
def give(sources, tmp_path, monkeypatch):
    """The command on a coordinator's data folder; there is no kit, so that one which goes on says so."""
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path))
    (tmp_path / "reference").symlink_to(sources.reference.store.folder)
    project = tmp_path / "project.toml"
    project.write_text(PROJECT, encoding="utf-8")

    def command(**more):
        how = {"name": "first", "method": "fedavg", "rounds": 3, "model": "cnn", "wait": 1.0} | more
        run(Path("no-kit"), project, **how)

    return command


def test_a_run_is_continued_with_its_own_settings_and_reference_only(give, tmp_path):
    for _ in range(2):
        with pytest.raises(UserError, match="not a startup kit"):
            give()
    with pytest.raises(UserError, match=r"rounds = 3, not 4.*another --name") as refused:
        give(rounds=4)
    assert "--out" not in str(refused.value)
    config = tmp_path / "runs" / "first" / "config.toml"
    before, after = config.read_text(encoding="utf-8").split("[data.fingerprints]")
    config.write_text(
        before + "[data.fingerprints]" + after.replace('reference = "', 'reference = "0', 1), encoding="utf-8"
    )
    with pytest.raises(UserError, match="reference set is not the one"):
        give()


def test_a_class_that_is_not_in_the_project_file_starts_no_run(give, tmp_path):
    (tmp_path / "project.toml").write_text(PROJECT.replace(', "covid-19"', ""), encoding="utf-8")
    with pytest.raises(UserError, match="covid-19"):
        give()
    assert not (tmp_path / "runs").exists()


def test_a_simulation_is_not_continued_as_a_federation(give, tmp_path, write_run):
    write_run(tmp_path / "runs" / "first")
    with pytest.raises(UserError, match="another --name"):
        give()


def test_a_finished_run_says_that_nothing_was_trained(give, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fedpdc_med.cli.federation.print_result", lambda *_: None)  # there is nothing to show
    with pytest.raises(UserError):
        give()
    (tmp_path / "runs" / "first" / "predictions.parquet").touch()
    give()
    said = " ".join(capsys.readouterr().out.split())
    assert "Nothing to train: first has already completed all 3 rounds" in said and "another --name" in said


def test_a_name_that_no_job_can_carry_is_refused_at_once(give, tmp_path):
    with pytest.raises(UserError, match=r"--name First: .*lower-case"):
        give(name="First")
    with pytest.raises(UserError, match=r"Trial1: .*lower-case"):
        try_out(out=tmp_path / "Trial1")


@pytest.mark.parametrize(
    ("theirs", "ours", "word"),
    [
        (AuthorizationError("no"), UserError, "role lead"),
        (NoConnection("no"), WorkFailed, "check that it is running"),
        (SessionClosed("the session is closed on server"), WorkFailed, "closed on server"),
        (InternalError("missing meta"), WorkFailed, "missing meta"),
    ],
)
def test_what_flare_raises_reaches_people_as_a_sentence(theirs, ours, word):
    with pytest.raises(ours, match=word), flare_errors("guest@example.org"):
        raise theirs
