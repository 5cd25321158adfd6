"""A progress bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedpdc_med.common.console import errors
from fedpdc_med.common.description import count

T = TypeVar("T")


class Step(Protocol):
    def __call__(self, done: int = 1, note: str = "") -> None: ...


@contextmanager
def progress(description: str, total: int, done: int = 0, seconds_between_lines: float = 10.0) -> Iterator[Step]:
    """Yield `step(done=1, note="")`; `done` of `total` are done already.

    Without a terminal a line is printed at most every few seconds, and at the end.
    """
    if sys.stderr.isatty():
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=errors) as bar:
            task = bar.add_task(description, total=total, completed=done, note="")
            yield lambda done=1, note="": bar.update(task, advance=done, note=note)
        return

    finished, last_line = done, time.monotonic()
    before, began = done, last_line

    def step(done: int = 1, note: str = "") -> None:
        nonlocal finished, last_line
        finished += done
        now = time.monotonic()
        if finished >= total or now - last_line >= seconds_between_lines:
            ahead = (total - finished) * (now - began) / max(1, finished - before)
            left = f", {minutes(ahead)} left" if ahead >= 60 else ""
            print(f"{description}: {finished}/{total} {note}".rstrip() + left, file=sys.stderr, flush=True)
            last_line = now

    yield step


def minutes(seconds: float) -> str:
    if seconds >= 90 * 60:
        return f"{seconds / 3600:.1f} hours"
    return count(max(1, round(seconds / 60)), "minute")


def track(items: Iterable[T], description: str, total: int) -> Iterator[T]:
    with progress(description, total) as step:
        for item in items:
            yield item
            step()
