"""Ctrl-C while a run trains."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

INTERRUPTED = 130  # what shells expect after Ctrl-C
STOPPED = (
    "Stopped; completed work is saved. To continue, run the same command again (add --resume to simulate or "
    "benchmark run), or use: fedpdc resume RUN"
)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Within this block Ctrl-C ends the process and its workers at once: everything that matters is on disk.

    An exception would not do: it can be lost in a callback, changed to another one by C code, or leave a lock held.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Python's helper process that cleans up afterwards would also print a warning.
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """A process started within this block ignores Ctrl-C, which reaches the whole group: its parent handles it."""
    resource_tracker.ensure_running()  # otherwise it starts with the first process, which would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(number: int, frame: FrameType | None) -> None:
    try:
        for child in multiprocessing.active_children():
            child.kill()
    finally:
        shown_cursor = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # a progress bar hides it
        os.write(2, f"{shown_cursor}{STOPPED}\n".encode())
        os._exit(INTERRUPTED)
