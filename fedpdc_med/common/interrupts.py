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
    "stopped; what is finished is kept. To go on, give the same command again; if it makes runs, with --resume, "
    "or continue one run with: fedpdc resume RUN"
)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Inside, Ctrl-C ends the process and its workers there and then: whatever counts is on disk.

    An exception would not do. It can be lost in a callback, turned into another one by C code, or leave a lock held.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Python's helper process that cleans up after an end like this would also complain of it.
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """A process that starts inside inherits the block: Ctrl-C reaches the whole group, its parent answers it."""
    resource_tracker.ensure_running()  # multiprocessing starts it with the first process, and then lifts the block
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
