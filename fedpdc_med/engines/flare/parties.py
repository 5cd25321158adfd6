"""Processes of a federation on one machine: started from their kits, watched, and ended with all their children."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.files import replace_text
from fedpdc_med.common.paths import home
from fedpdc_med.engines.flare.project import LAUNCH, Role, read_kit

MARK = "FEDPDC_PARTIES"  # in the environment of every process, because FLARE starts its job processes in new sessions

MODULES = {
    "coordinator": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
    "hospital": ("nvflare.private.fed.app.client.client_train", "fed_client.json"),
}


class Parties:
    """Kits running on this machine; leaving the `with` block ends every process started from them."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Parties":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, kit: Path, data: Path, console: IO[bytes] | None = None, **extra: str) -> None:
        """One kit with its own data folder; it prints to `console`, or to where this process prints."""
        set_absolute_paths(kit)
        self.running[kit.name] = subprocess.Popen(
            start_command(kit),
            cwd=kit,
            env={**start_environment(read_kit(kit).role, data), MARK: self.mark, **extra},
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is handled by this process
        )

    def check(self) -> None:
        for name, process in self.running.items():
            if process.poll() is not None:
                raise WorkFailed(f"the process of {name} ended early; see console.txt in its kit")

    def kill(self, name: str) -> None:
        """End it at once with its job processes, as if the machine lost power."""
        process = self.running.pop(name)
        with contextlib.suppress(psutil.NoSuchProcess):
            _kill([*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)])
        process.wait()

    def end(self) -> None:
        while left := marked(self.mark):
            _kill(left)
        for process in self.running.values():
            process.wait()
        self.running.clear()


def start_command(folder: Path) -> list[str]:
    """The command that runs a kit in the foreground: FLARE's server or client, with its certificates."""
    kit = read_kit(folder)
    if kit.role == "administrator":
        raise UserError(f"{folder} is an administrator's kit and starts nothing; use it with: fedpdc federation run")
    module, config = MODULES[kit.role]
    settings = ["secure_train=true", f"org={kit.organisation}", "config_folder=config"]
    if kit.role == "hospital":
        settings.append(f"uid={kit.name}")
    return [sys.executable, "-u", "-m", LAUNCH, module, "-m", str(folder.resolve()), "-s", config, "--set", *settings]


def set_absolute_paths(folder: Path) -> None:
    """FLARE needs absolute paths for its job folders, and where the kit is becomes known only now."""
    file = folder / "local" / "resources.json"
    if read_kit(folder).role != "coordinator":
        return
    resources = json.loads(file.read_text(encoding="utf-8"))
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(folder.resolve() / "snapshots")
    for one in resources["components"]:
        if one["id"] == "job_manager":
            one["args"]["uri_root"] = str(folder.resolve() / "jobs")
    replace_text(file, json.dumps(resources, indent=2) + "\n")


def start_environment(role: Role, data: Path | None = None) -> dict[str, str]:
    """Job processes inherit where the films and runs are; a relative path would mean another folder in the kit.

    FLARE puts the text of an exception into its answers, and at a hospital that text may name files: there FLARE gives
    the exception's type only, in answers and in its own log. No process imports code from the folder it runs in: that
    is the kit, where jobs are unpacked.
    """
    quiet = {"NVFLARE_SECURE_LOGGING": "true"} if role == "hospital" else {}
    where = {"FEDPDC_HOME": str((data or home()).resolve()), "PYTHONSAFEPATH": "1"}
    return {**os.environ, **where, "MALLOC_ARENA_MAX": "4", **quiet}


def run_kit(kit: Path) -> None:
    """A kit's process in the foreground; Ctrl-C or SIGTERM ends it with its job processes."""
    with ended_by_signals(), Parties() as parties:
        parties.start(kit, home())
        (process,) = parties.running.values()
        code = process.wait()
    raise WorkFailed(f"the process of {read_kit(kit).name} ended by itself (code {code}); see its last lines")


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM is handled like Ctrl-C, and Ctrl-C works even if the shell had set it to be ignored."""
    before = {one: signal.signal(one, _interrupt) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def marked(mark: str) -> list[psutil.Process]:
    """Every process of this user that carries the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs(processes, timeout=10)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
