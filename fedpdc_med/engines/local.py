"""Sites as tasks of persistent processes on this machine, with one thread each, or of this process on a GPU."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.common.processes import Lost, Workers
from fedpdc_med.common.progress import progress
from fedpdc_med.engines.estimate import say_beforehand
from fedpdc_med.engines.shared import Shared
from fedpdc_med.engines.worker import AtCoordinator, AtSites, Bench
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.federation.data import LocalFederation
from fedpdc_med.federation.pooled import arranged
from fedpdc_med.federation.protocol import Assignment, Engine, Failure, R, Update, answer_file
from fedpdc_med.methods.server import CoordinatorTask
from fedpdc_med.runs.directory import Run

CHUNK = 2500  # films per prediction task; fixed, so that the number of workers cannot change the result
DIED_TWICE = (
    "a worker process died twice; is there enough memory? "
    "The rounds so far are saved; resume the run, with fewer --workers if necessary"
)
Task = tuple[Any, ...]  # a function of `Here`, and its other arguments


def run_rounds(federation: LocalFederation, run: Run, workers: int, label: str, runs: int = 1) -> None:
    """Run what is left of the rounds, then write the final model and its predictions.

    `runs`: how many runs like this one the command has ahead, for what it says beforehand; 0: it has said it.
    """
    federation = arranged(federation)
    federation.check()
    if run.finished:
        return
    engine, rounds = open_engine(federation, workers), federation.plan.rounds
    try:
        coordinator = Coordinator(federation.plan, federation.coordinator, engine, run)
        if runs:
            say_beforehand(federation, run.folder, rounds - coordinator.progress.round, workers, runs)
        with progress(label, rounds, coordinator.progress.round) as step:
            while coordinator.progress.round < rounds:
                step(1, coordinator.run_round().in_short())
        coordinator.finish()
    finally:
        engine.close()


def open_engine(federation: LocalFederation, workers: int) -> Engine:
    if torch.cuda.is_available():
        return DeviceEngine(federation, "cuda")
    return ProcessEngine(federation, workers)


def chunks(count: int) -> list[tuple[int, int]]:
    return [(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]


def reason_for(error: BaseException) -> str:
    first_line = (str(error).splitlines() or [""])[0]
    if isinstance(error, WorkFailed):  # written for people
        return first_line
    return f"{type(error).__name__}: {first_line}"[:200]


class Here:
    """All sites and the coordinator, in one process."""

    def __init__(self, federation: LocalFederation, device: str = "cpu") -> None:
        bench = Bench(federation.plan, device)
        self.federation, self.sites = federation, AtSites(bench)
        self.coordinator = AtCoordinator(bench, federation.coordinator)

    def train(self, assignment: Assignment, answers: Path) -> Update | Failure:
        site, correction = self.federation.sites[assignment.site], self.federation.coordinator.correction
        try:
            return self.sites.train(site, assignment, answer_file(answers, assignment), correction)
        except Exception as error:
            return Failure(assignment.site, reason_for(error))

    def predict(self, model: Path, films: str, start: int, stop: int) -> np.ndarray:
        return self.coordinator.predict(model, films, start, stop)

    def run_at_coordinator(self, task: CoordinatorTask[R]) -> R:
        return task(self.coordinator)


def _start(federation: LocalFederation) -> Callable[[Task], Any]:
    """In a worker process: parallel work is done by processes, so each has one thread."""
    torch.set_num_threads(1)
    return partial(_do, Here(federation))


def _do(here: Here, task: Task) -> Any:
    work, *arguments = task
    try:
        return work(here, *arguments)
    except Exception as error:  # an error is an answer too: the process is still usable
        error.add_note(traceback.format_exc())
        return error


class ProcessEngine:
    """Worker processes; one that dies (out of memory, say) is replaced, and only a site that kills two of them fails.

    They are kept after the engine is closed, for the next method of the same command.
    """

    kept: "ClassVar[list[Workers[Task, Any]]]" = []

    def __init__(self, federation: LocalFederation, workers: int) -> None:
        self.federation = federation
        self.workers = self.kept.pop() if self.kept else Workers[Task, Any](workers)
        if self.workers.processes != workers:
            self.workers.close()
            self.workers = Workers(workers)
        self.workers.open(_start, Shared(federation))

    def train(self, assignments: Sequence[Assignment], answers: Path) -> Iterator[Update | Failure]:
        def work(assignment: Assignment) -> int:
            site = self.federation.sites[assignment.site]
            return len(site) * site.settings.epochs

        largest_first = sorted(assignments, key=work, reverse=True)
        tasks = [(Here.train, one, answers) for one in largest_first]
        for place, answer in self.workers.stream(tasks, [[i] for i in range(len(tasks))]):
            if isinstance(answer, Lost):
                answer = Failure(largest_first[place].site, "its training process died twice; is there enough memory?")
            yield _sound(answer)

    def predict(self, model: Path, films: str) -> Callable[[], np.ndarray]:
        spans = chunks(len(self.federation.coordinator.films_of(films)))
        answers = [self.workers.submit((Here.predict, model, films, *span)) for span in spans]
        return lambda: np.concatenate([_sound(answer()) for answer in answers])

    def run_at_coordinator(self, task: CoordinatorTask[R]) -> R:
        return _sound(self.workers.submit((Here.run_at_coordinator, task))())

    def close(self) -> None:
        self.workers.stop()
        self.kept.append(self.workers)


def _sound(answer: Any) -> Any:
    """The answer, or an error: without it the round cannot end."""
    if isinstance(answer, Lost):
        raise WorkFailed(DIED_TWICE)
    if isinstance(answer, Exception):
        raise answer
    return answer


class CoordinatorHere:
    """The coordinator's half of an engine, in this process."""

    def __init__(self, work: AtCoordinator) -> None:
        self.work = work

    def predict(self, model: Path, films: str) -> Callable[[], np.ndarray]:
        spans = chunks(len(self.work.data.films_of(films)))
        return lambda: np.concatenate([self.work.predict(model, films, *span) for span in spans])

    def run_at_coordinator(self, task: CoordinatorTask[R]) -> R:
        return task(self.work)

    def close(self) -> None: ...


class DeviceEngine(CoordinatorHere):
    """One process on one device: on a GPU, sites take turns."""

    def __init__(self, federation: LocalFederation, device: str) -> None:
        self.here = Here(federation, device)
        super().__init__(self.here.coordinator)

    def train(self, assignments: Sequence[Assignment], answers: Path) -> Iterator[Update | Failure]:
        for assignment in assignments:
            yield self.here.train(assignment, answers)
