"""Worker processes that may crash or hang without taking the work along.

Image decoders are C code that reads what anybody wrote into a file. Python's own pools lose all work when a worker dies
and cannot tell which task did it.
"""

import ctypes
import logging
import multiprocessing
import os
import resource
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.common.interrupts import interrupts_blocked

T = TypeVar("T")
R = TypeVar("R")
QUEUED = 2
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT_BYTES = -1, -3, 1 << 28  # names of malloc.h
TASK_BYTES = 3 << 30  # measured: a film of 100 million pixels takes up to 1 GB, whatever its format
NOT_STARTED = "a worker process could not start; there may be too little memory, or the installation is broken"


def cores() -> int:
    """The cores that this process may use; not every system tells more than how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Lost:
    """A task whose worker died twice, or ran out of time."""

    timed_out: bool


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    queue: deque[list[int]] = field(default_factory=deque)


class Workers(Generic[T, R]):
    """`processes` processes that each call `start()` once and then the function it returned for every task."""

    def __init__(
        self,
        start: Callable[..., Callable[[T], R]],
        arguments: tuple[Any, ...],
        processes: int,
        seconds: float,
        preload: Sequence[str] = (),
    ) -> None:
        # A fork server imports once what all workers need, and its children inherit no threads or pipes of ours: when
        # this process is killed, every worker sees its pipe close and leaves.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["__main__", *preload])
        self._start, self._arguments, self._seconds = start, arguments, seconds
        self._workers: list[_Worker] = []
        self.replaced = 0
        for _ in range(processes):
            self._workers.append(self._new())
        for worker in self._workers:
            self._await_ready(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()

    def run(self, tasks: Sequence[T], batches: Sequence[Sequence[int]]) -> Iterator[tuple[int, R | Lost]]:
        """Yield (index, result) as they come; a batch is a list of task indices that travel together.

        A batch must fit into the buffer of a pipe (64 kB), or both ends could wait for each other to read.
        """
        waiting = deque(list(batch) for batch in batches)
        suspects: set[int] = set()
        left = sum(map(len, waiting))
        while left:
            self._feed(waiting, tasks)
            for pipe in wait([worker.pipe for worker in self._workers if worker.queue]):
                worker = next(w for w in self._workers if w.pipe is pipe)
                try:
                    results = worker.pipe.recv()
                except (EOFError, OSError):
                    for index, lost in self._bury(worker, waiting, suspects):
                        left -= 1
                        yield index, lost
                    continue
                for index, result in zip(worker.queue.popleft(), results, strict=True):
                    if isinstance(result, WorkFailed):
                        raise result
                    left -= 1
                    yield index, result

    def _feed(self, waiting: deque[list[int]], tasks: Sequence[T]) -> None:
        for _ in range(QUEUED):
            for worker in self._workers:
                if waiting and len(worker.queue) < QUEUED:
                    batch = waiting.popleft()
                    worker.queue.append(batch)
                    # A worker that is already dead is found when its pipe is read.
                    with suppress(OSError):
                        worker.pipe.send([tasks[i] for i in batch])

    def _bury(self, worker: _Worker, waiting: deque[list[int]], suspects: set[int]) -> Iterator[tuple[int, Lost]]:
        """Replace a dead worker; what it died on is tried again task by task, and each twice before it is given up."""
        worker.process.join()
        timed_out = worker.process.exitcode == -signal.SIGALRM
        batch = worker.queue.popleft()
        waiting.extendleft(reversed(worker.queue))
        self._workers.remove(worker)
        self.replaced += 1
        replacement = self._new()
        self._workers.append(replacement)
        self._await_ready(replacement)
        if len(batch) > 1:
            waiting.extendleft([i] for i in reversed(batch))
        elif timed_out or batch[0] in suspects:
            yield batch[0], Lost(timed_out)
        else:
            suspects.add(batch[0])
            waiting.appendleft(batch)

    def _new(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_serve, args=(theirs, self._start, self._arguments, self._seconds), daemon=True
        )
        try:
            with interrupts_blocked():  # the first start also starts the fork server
                process.start()
        except (EOFError, OSError):
            raise WorkFailed(NOT_STARTED) from None
        theirs.close()
        return _Worker(process, ours)

    def _await_ready(self, worker: _Worker) -> None:
        try:
            worker.pipe.recv()
        except EOFError:
            raise WorkFailed(NOT_STARTED) from None


def keep_memory() -> None:
    """Without this glibc may give memory back after every film: a thousand page faults, more than the decoding."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)


def limit_memory() -> None:
    """A few kilobytes can make a decoder take gigabytes. Counted beyond what is in use now; macOS has no such limit."""
    if sys.platform != "linux":
        return
    in_use = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = in_use + TASK_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _serve(
    pipe: Connection, start: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...], seconds: float
) -> None:
    # What decoders print and log quotes values of the files.
    logging.disable(logging.CRITICAL)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 2)
    keep_memory()
    function = start(*arguments)
    limit_memory()
    pipe.send("ready")
    with suppress(EOFError, OSError):
        while True:
            pipe.send([_in_time(function, task, seconds) for task in pipe.recv()])


def _in_time(function: Callable[[Any], Any], task: Any, seconds: float) -> Any:
    """A task that takes too long ends the process, because C code does not listen to exceptions."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function(task)
    except WorkFailed as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
