"""Worker processes that may crash or hang without losing the work of the others.

Image decoders are C code that reads files from anyone, and training can use up the memory. Python's own pools lose all
work when a worker dies, and cannot say which task killed it.
"""

import ctypes
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.common.interrupts import interrupts_blocked

T = TypeVar("T")
R = TypeVar("R")
PRELOADED = ["monai.networks.nets", "fedpdc_med.cli", "fedpdc_med.engines.worker", "fedpdc_med.imaging.ingest.examine"]
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT_BYTES = -1, -3, 1 << 28  # names of malloc.h
TASK_BYTES = 3 << 30  # measured: a film of 100 million pixels takes up to 1 GB in any format
NOT_STARTED = "a worker process could not start; there may be too little memory, or the installation is broken"


def cores() -> int:
    """The cores that this process may use; some systems only report how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Lost:
    """A task whose worker died twice or ran out of time."""

    timed_out: bool


@dataclass(eq=False)
class _Job:
    number: int
    task: Any
    done: "deque[_Job]"  # where it is put when it has its answer
    answer: Any = None
    suspect: bool = False

    def finish(self, answer: Any) -> None:
        self.answer = answer
        self.done.append(self)


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    queue: deque[list[_Job]] = field(default_factory=deque)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Workers(Generic[T, R]):
    """`processes` processes that run the function set by `open`; `ahead` batches are sent to each worker in advance.

    `seconds` is for tasks that read untrusted files: each has that much time, TASK_BYTES of memory, and cannot print.
    """

    def __init__(self, processes: int, seconds: float | None = None, ahead: int = 0) -> None:
        self.processes, self.replaced = processes, 0
        self._seconds, self._ahead = seconds, ahead
        self._start: tuple[Callable[..., Callable[[T], R]], tuple[Any, ...]]
        self._workers: list[_Worker] = []
        self._waiting: deque[list[_Job]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, start: Callable[..., Callable[[T], R]], *arguments: Any) -> None:
        """Every worker calls `start(*arguments)`, and then the function it returned for every task."""
        self.stop()
        self._start = start, arguments
        self._workers += [self._new() for _ in range(self.processes - len(self._workers))]
        for worker in self._workers:
            self._begin(worker)
        for worker in self._workers:
            self._await_ready(worker)

    def submit(self, task: T) -> Callable[[], R | Lost]:
        """Start a task; calling the result waits for its answer."""
        done: deque[_Job] = deque()
        self._waiting.append([_Job(0, task, done)])
        self._feed()

        def answer() -> R | Lost:
            while not done:
                self._step()
            return _checked(done[0].answer)

        return answer

    def stream(self, tasks: Sequence[T], batches: Sequence[Sequence[int]]) -> Iterator[tuple[int, R | Lost]]:
        """Yield (index, answer) as they arrive; a batch is a list of task indices that are sent together.

        A batch sent in advance must fit into the buffer of a pipe (64 kB), or both ends could wait for each other.
        """
        done: deque[_Job] = deque()
        self._waiting.extend([_Job(i, tasks[i], done) for i in batch] for batch in batches)
        self._feed()
        for _ in range(sum(map(len, batches))):
            while not done:
                self._step()
            job = done.popleft()
            yield job.number, _checked(job.answer)

    def stop(self) -> None:
        """Forget all tasks. Workers that are busy are ended; the others stay."""
        self._waiting.clear()
        for worker in [one for one in self._workers if one.queue or not one.process.is_alive()]:
            self._workers.remove(worker)
            worker.kill()

    def close(self) -> None:
        """End all workers at once: everything that matters is on disk."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.kill()
        self._workers.clear()

    def _step(self) -> None:
        """Wait for answers, and send out the next tasks."""
        busy = {worker.pipe: worker for worker in self._workers if worker.queue}
        assert busy, "nothing to wait for"
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            try:
                answers = worker.pipe.recv()
            except (EOFError, OSError):
                self._bury(worker)
                continue
            for job, answer in zip(worker.queue.popleft(), answers, strict=True):
                job.finish(answer)
        self._feed()

    def _feed(self) -> None:
        for queued in range(self._ahead + 1):
            for worker in self._workers:
                if self._waiting and len(worker.queue) <= queued:
                    batch = self._waiting.popleft()
                    worker.queue.append(batch)
                    # A worker that is already dead is noticed when its pipe is read.
                    with suppress(OSError):
                        worker.pipe.send([job.task for job in batch])

    def _bury(self, worker: _Worker) -> None:
        """Replace a dead worker; its tasks are tried again one by one, each twice before it is given up."""
        worker.process.join()
        timed_out = worker.process.exitcode == -signal.SIGALRM
        batch = worker.queue.popleft()
        self._waiting.extendleft(reversed(worker.queue))
        self._workers.remove(worker)
        worker.pipe.close()
        self.replaced += 1
        replacement = self._new()
        self._workers.append(replacement)
        self._begin(replacement)
        self._await_ready(replacement)
        if len(batch) > 1:
            self._waiting.extendleft([job] for job in reversed(batch))
        elif timed_out or batch[0].suspect:
            batch[0].finish(Lost(timed_out))
        else:
            batch[0].suspect = True
            self._waiting.appendleft(batch)

    def _new(self) -> _Worker:
        context = _context()
        ours, theirs = context.Pipe()
        umask = os.umask(0o077)
        os.umask(umask)
        process = context.Process(target=_serve, args=(theirs, self._seconds, umask), daemon=True)  # type: ignore[attr-defined]
        try:
            with interrupts_blocked():  # the first start also starts the fork server
                process.start()
        except (EOFError, OSError):
            raise WorkFailed(NOT_STARTED) from None
        theirs.close()
        return _Worker(process, ours)

    def _begin(self, worker: _Worker) -> None:
        with suppress(OSError):  # a dead worker is noticed when its pipe is read
            worker.pipe.send(self._start)

    def _await_ready(self, worker: _Worker) -> None:
        try:
            worker.pipe.recv()
        except (EOFError, OSError):
            raise WorkFailed(NOT_STARTED) from None


def start_server() -> None:
    """Start loading what workers need, in parallel with what this process does next."""
    if isinstance(_context(), multiprocessing.context.ForkServerContext):
        with interrupts_blocked():
            forkserver.ensure_running()


def _context() -> BaseContext:
    """A fork server imports once what all workers need, and they inherit no threads or pipes of this process.

    Importing starts no computation: torch's threads start in the workers. Only on Linux do the system's own libraries
    reliably survive a fork.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def keep_memory() -> None:
    """Without this, glibc may return memory after every film: a thousand page faults, slower than the decoding."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)


def limit_memory() -> None:
    """A file of a few kilobytes can make a decoder use gigabytes. The limit adds to current use; macOS has none."""
    if sys.platform != "linux":
        return
    in_use = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[5]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = in_use + TASK_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _serve(pipe: Connection, seconds: float | None, umask: int) -> None:
    os.umask(umask)  # a fork server keeps the one it was started with
    parent = multiprocessing.parent_process()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if seconds is not None:
        _silence()
        keep_memory()
    function: Callable[[Any], Any] | None = None
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            return
        if isinstance(message, tuple):
            function = None  # frees its data before the next one's is loaded
            start, arguments = message
            function = start(*arguments)
            if seconds is not None:
                limit_memory()
            answer: Any = "ready"
        else:
            assert function is not None, "open() comes first"
            answer = [_in_time(function, task, seconds or 0) for task in message]
        with suppress(OSError):
            pipe.send(answer)


def _end_with(parent: BaseProcess) -> None:
    """End with the parent, even in the middle of a task, if it was killed and could not close the pipe."""
    parent.join()
    os._exit(1)


def _silence() -> None:
    """Discard what decoders print and log, because it quotes values from the files."""
    logging.disable(logging.CRITICAL)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 2)


def _in_time(function: Callable[[Any], Any], task: Any, seconds: float) -> Any:
    """A task that takes too long ends the process, because C code does not respond to exceptions."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function(task)
    except WorkFailed as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _checked(answer: Any) -> Any:
    if isinstance(answer, WorkFailed):
        raise answer
    return answer
