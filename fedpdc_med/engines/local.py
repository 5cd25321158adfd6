"""Sites as tasks of persistent processes on this machine, one thread each, or of this process on a GPU."""

import multiprocessing
import multiprocessing.process
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.multiprocessing  # teaches multiprocessing to pass shared tensors without a copy

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.common.interrupts import interrupts_blocked
from fedpdc_med.engines.worker import Workbench
from fedpdc_med.federation.data import Federation
from fedpdc_med.federation.protocol import Assignment, Engine, Failure, R, Update, answer_file
from fedpdc_med.methods.server import CoordinatorTask

CHUNK = 2500  # films a prediction task takes; fixed, so that the number of workers cannot change a bit
_bench: Workbench | None = None


def open_engine(federation: Federation, workers: int) -> Engine:
    if torch.cuda.is_available():
        return DeviceEngine(federation, "cuda")
    return ProcessEngine(federation, workers)


def _open_bench(federation: Federation) -> None:
    """A worker's first act: one thread, and an end when its parent ends."""
    global _bench
    parent = multiprocessing.parent_process()
    assert parent is not None, "workers are started by the engine"
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    _bench = Workbench(federation)


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _train(assignment: Assignment, answer: Path) -> Update:
    assert _bench is not None
    return _bench.train(assignment, answer)


def _predict(model: Path, films: str, start: int, stop: int) -> np.ndarray:
    assert _bench is not None
    return _bench.predict(model, films, start, stop)


def _run(task: CoordinatorTask[R]) -> R:
    assert _bench is not None
    return task(_bench)


def chunks(count: int) -> list[tuple[int, int]]:
    return [(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]


def reason_for(error: BaseException) -> str:
    first_line = (str(error).splitlines() or [""])[0]
    if isinstance(error, WorkFailed):  # written for people
        return first_line
    return f"{type(error).__name__}: {first_line}"[:200]


class ProcessEngine:
    """Worker processes; one that dies (out of memory, say) is replaced, and only the site that kills two fails."""

    def __init__(self, federation: Federation, workers: int) -> None:
        self.federation, self.workers = federation, workers
        federation.share()
        self.pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, initializer=_open_bench, initargs=(self.federation,))

    def _submit(self, work: Callable[..., Any], *arguments: object) -> "Future[Any]":
        with interrupts_blocked():  # submitting may start a worker
            try:
                return self.pool.submit(work, *arguments)
            except BrokenProcessPool:
                self.pool = self._new_pool()
                return self.pool.submit(work, *arguments)

    def train(self, assignments: Sequence[Assignment], answers: Path) -> Iterator[Update | Failure]:
        def work(assignment: Assignment) -> int:
            site = self.federation.sites[assignment.site]
            return site.count * site.settings.epochs

        largest_first = sorted(assignments, key=work, reverse=True)
        futures = {self._submit(_train, one, answer_file(answers, one)): one for one in largest_first}
        lost = []
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:
                lost.append(futures[future])
            except Exception as error:
                yield Failure(futures[future].site, reason_for(error))
        for assignment in lost:  # one at a time, to tell the site that breaks its process from its neighbour
            try:
                yield self._submit(_train, assignment, answer_file(answers, assignment)).result()
            except BrokenProcessPool:
                yield Failure(assignment.site, "its training process died twice; is there enough memory?")
            except Exception as error:
                yield Failure(assignment.site, reason_for(error))

    def predict(self, model: Path, films: str) -> Callable[[], np.ndarray]:
        spans = chunks(len(self.federation.films_of(films)))
        futures = [self._submit(_predict, model, films, *span) for span in spans]

        def collect() -> np.ndarray:
            try:
                return np.concatenate([future.result() for future in futures])
            except BrokenProcessPool:
                return np.concatenate([self._once_more(_predict, model, films, *span) for span in spans])

        return collect

    def run_at_coordinator(self, task: CoordinatorTask[R]) -> R:
        """What one worker makes of it, or the one that replaces it."""
        try:
            return self._submit(_run, task).result()
        except BrokenProcessPool:
            return self._once_more(_run, task)

    def _once_more(self, work: Callable[..., Any], *arguments: object) -> Any:
        """What the worker in place of a dead one makes of it; without its answer the round cannot end."""
        try:
            return self._submit(work, *arguments).result()
        except BrokenProcessPool:
            raise WorkFailed(
                "a worker process died twice; is there enough memory? "
                "The rounds so far are kept, and the run can be resumed, with fewer --workers if need be"
            ) from None

    def close(self) -> None:
        """End the workers at once: what counts is on disk, and after Ctrl-C nobody wants to wait for a round."""
        workers = list((self.pool._processes or {}).values())
        self.pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join(timeout=10)


class DeviceEngine:
    """One process on one device: on a GPU, sites take turns."""

    def __init__(self, federation: Federation, device: str) -> None:
        self.federation, self.bench = federation, Workbench(federation, device)

    def train(self, assignments: Sequence[Assignment], answers: Path) -> Iterator[Update | Failure]:
        for assignment in assignments:
            try:
                yield self.bench.train(assignment, answer_file(answers, assignment))
            except Exception as error:
                yield Failure(assignment.site, reason_for(error))

    def predict(self, model: Path, films: str) -> Callable[[], np.ndarray]:
        spans = chunks(len(self.federation.films_of(films)))
        return lambda: np.concatenate([self.bench.predict(model, films, *span) for span in spans])

    def run_at_coordinator(self, task: CoordinatorTask[R]) -> R:
        return task(self.bench)

    def close(self) -> None:
        pass
