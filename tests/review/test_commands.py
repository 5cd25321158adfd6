import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from fedpdc_med.review.commands import checked_runs

COMMAND = [sys.executable, "-m", "fedpdc_med.cli", "review"]


def run(*arguments, **environment):
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment}
    )
    return done.returncode, done.stdout + done.stderr


def test_help_shows_an_example():
    code, text = run("--help")
    assert code == 0 and "Example: fedpdc review fedpdc-data/runs" in text


def test_a_folder_that_is_not_there_is_a_users_mistake(tmp_path):
    code, text = run(tmp_path / "nowhere")
    assert code == 2 and "there is no such folder" in text and "Traceback" not in text


def test_without_runs_the_default_folder_is_named(tmp_path):
    code, text = run(FEDPDC_HOME=str(tmp_path / "home"))
    assert code == 2 and "runs: there is no such folder" in text.replace("\n", "")


def test_a_run_can_be_named_in_place_of_its_folder(tmp_path, write_run):
    folder = write_run(tmp_path / "runs" / "a")
    assert checked_runs(folder) == (tmp_path / "runs", "a")
    assert checked_runs(folder.parent) == (tmp_path / "runs", "")


@pytest.fixture
def port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def test_the_app_listens_on_this_machine_only_and_ends_on_ctrl_c(tmp_path, write_run, port):
    write_run(tmp_path / "a")
    with subprocess.Popen(
        [*COMMAND, str(tmp_path), "--port", str(port), "--no-browser"], stdout=subprocess.PIPE, text=True
    ) as app:
        try:
            healthy(port)
            sockets = Path(f"/proc/{app.pid}/net/tcp").read_text().splitlines()[1:]
            local = [line.split()[1] for line in sockets if line.split()[3] == "0A"]  # 0A: listening
            assert f"0100007F:{port:04X}" in local and f"00000000:{port:04X}" not in local
        finally:
            app.send_signal(signal.SIGINT)
            app.wait(20)
        assert "not for diagnosis" in app.stdout.read()


def healthy(port):
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError("the app did not answer")


def test_review_speed_prints_every_page_within_its_limit(monkeypatch, tmp_path):
    from fedpdc_med.review import speed
    from fedpdc_med.review.shell import PAGES

    monkeypatch.setattr(speed, "PREDICTIONS", 2000)  # the command itself is for the full size
    found = json.loads(json.dumps(speed.measure()))
    assert [row["page"] for row in found["pages"]] == [page.title for page in PAGES]
    assert all(0 < row["after_first_load"] < speed.LIMIT_SECONDS for row in found["pages"])
