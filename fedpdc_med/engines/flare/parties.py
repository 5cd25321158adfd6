"""Processes of a federation on one machine: started from their kits, watched, and ended with all their children."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.common.paths import home
from fedpdc_med.engines.flare.kits import read_kit, settle, start_command, start_environment

MARK = "FEDPDC_PARTIES"  # in the environment of every process: FLARE gives its job processes sessions of their own


class Parties:
    """Kits running on this machine; leaving the `with` block ends every process that came of them."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Parties":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, kit: Path, data: Path, console: IO[bytes] | None = None, **extra: str) -> None:
        """One kit with its own data folder; what it prints goes to `console`, or to where this process prints."""
        settle(kit)
        self.running[kit.name] = subprocess.Popen(
            start_command(kit),
            cwd=kit,
            env={**start_environment(read_kit(kit).role, data), MARK: self.mark, **extra},
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is this process's to answer
        )

    def check(self) -> None:
        for name, process in self.running.items():
            if process.poll() is not None:
                raise WorkFailed(f"the process of {name} ended early; console.txt in its kit says why")

    def kill(self, name: str) -> None:
        """At once, with its job processes, as when a machine loses power."""
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


def run_kit(kit: Path) -> None:
    """A kit's process in the foreground; Ctrl-C or SIGTERM ends it with its job processes."""
    with ended_by_signals(), Parties() as parties:
        parties.start(kit, home())
        (process,) = parties.running.values()
        code = process.wait()
    raise WorkFailed(f"the process of {read_kit(kit).name} ended by itself (code {code}); its last lines say why")


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C, and Ctrl-C does so even where the shell had told us to ignore it."""
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
