import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fedpdc_med.cli.review import checked_runs

COMMAND = [sys.executable, "-m", "fedpdc_med.cli", "review"]
ALLOWED = "Access-Control-Allow-Origin"
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


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


@pytest.fixture(scope="module")
def port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


TRAP = "open({ran!r}, 'w').close()\nraise SystemExit\n"
OPEN_TO_ALL = "[server]\nenableCORS = false\nenableXsrfProtection = false\nenableStaticServing = true\n"


@pytest.fixture(scope="module")
def app(tmp_path_factory, write_run, port):
    """`fedpdc review`, started in a folder with traps; with the address that it prints."""
    place = tmp_path_factory.mktemp("foreign")
    write_run(place / "runs" / "a")
    for name in ("streamlit.py", "json.py"):
        (place / name).write_text(TRAP.format(ran=str(place / "it-ran")), encoding="utf-8")
    (place / ".streamlit").mkdir()
    (place / ".streamlit" / "config.toml").write_text(OPEN_TO_ALL, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "fedpdc_med.cli", "review", "runs", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=place) as started:
        lines = []
        for line in started.stdout:
            lines.append(line)
            if "URL: " in line:
                break
        started.said, started.place = "".join(lines), place
        started.address = lines[-1].partition("URL: ")[2].strip()
        yield started
        started.send_signal(signal.SIGINT)
        started.wait(20)


def test_the_app_listens_on_this_machine_only(app, port):
    sockets = Path(f"/proc/{app.pid}/net/tcp").read_text(encoding="utf-8").splitlines()[1:]
    local = [line.split()[1] for line in sockets if line.split()[3] == "0A"]  # 0A: listening
    assert f"0100007F:{port:04X}" in local and f"00000000:{port:04X}" not in local
    assert "not for diagnosis" in app.said


def answer(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def test_without_the_path_that_only_its_user_was_told_the_app_answers_nothing(app, port):
    secret = urlsplit(app.address).path
    assert app.address == f"http://127.0.0.1:{port}{secret}" and len(secret) >= 22
    doors = {"/": {}, "/recall": {}, "/_stcore/health": {}, "/_stcore/host-config": {}, "/_stcore/metrics": {}}
    doors |= {"/static/index.html": {}, "/_stcore/agent/openapi.json": {}, "/_stcore/stream": UPGRADE}
    for door, headers in doors.items():
        assert answer(port, secret + door, **headers).status in (200, 101), door
        for before in ("", "/guessed", secret[:-1]):
            assert answer(port, before + door, **headers).status in (400, 403, 404), before + door
    for door in ("/media/0.png", "/_stcore/upload_file/a/b", "/component/a/b", "/_stcore/script-health-check"):
        assert answer(port, door).status == 404
    assert secret.strip("/").encode() not in Path(f"/proc/{app.pid}/cmdline").read_bytes()


def test_the_current_folder_gives_the_app_neither_code_nor_settings(app, port):
    secret = urlsplit(app.address).path
    assert not (app.place / "it-ran").exists()
    assert answer(port, f"{secret}/_stcore/health", Origin="http://evil.test").getheader(ALLOWED) is None
    for host, origin, status in (
        (f"localhost:{port}", f"http://localhost:{port}", 101),
        (f"localhost:{port}", "http://evil.test", 403),
        (f"evil.test:{port}", f"http://evil.test:{port}", 403),  # a name that was made to lead to this machine
    ):
        found = answer(port, f"{secret}/_stcore/stream", **UPGRADE, Host=host, Origin=origin)
        assert found.status == status, (host, origin)


def test_review_speed_prints_every_page_within_its_limit(monkeypatch, tmp_path):
    from fedpdc_med.performance import review as speed
    from fedpdc_med.review.sections import PAGES

    monkeypatch.setattr(speed, "PREDICTIONS", 2000)  # the command itself is for the full size
    found = json.loads(json.dumps(speed.measure()))
    assert [row["page"] for row in found["pages"]] == [page.title for page in PAGES]
    assert all(0 < row["after_first_load"] < speed.LIMIT_SECONDS for row in found["pages"])
