"""Sites as tasks of persistent processes on this machine, one thread each, or of this process on a GPU."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.common.processes import Lost, Workers
from fedpdc_med.engines.shared import Shared
from fedpdc_med.engines.worker import Workbench
from fedpdc_med.federation.data import Federation
from fedpdc_med.federation.protocol import Assignment, Engine, Failure, R, Update, answer_file
from fedpdc_med.methods.server import CoordinatorTask

CHUNK = 2500  # films a prediction task takes; fixed, so that the number of workers cannot change a bit
DIED_TWICE = (
    "a worker process died twice; is there enough memory? "
    "The rounds so far are kept, and the run can be resumed, with fewer --workers if need be"
)
Task = tuple[Any, ...]  # a function of a Workbench, and its other arguments


def open_engine(federation: Federation, workers: int) -> Engine:
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


def _start(federation: Federation) -> Callable[[Task], Any]:
    """In a worker process: parallel work is done by processes, so each has one thread."""
    torch.set_num_threads(1)
    return partial(_do, Workbench(federation))


def _do(bench: Workbench, task: Task) -> Any:
    work, *arguments = task
    try:
        return work(bench, *arguments)
    except Exception as error:  # is an answer too: the process is sound
        error.add_note(traceback.format_exc())
        return error


def _train(bench: Workbench, assignment: Assignment, answers: Path) -> Update | Failure:
    try:
        return bench.train(assignment, answer_file(answers, assignment))
    except Exception as error:
        return Failure(assignment.site, reason_for(error))


def _run(bench: Workbench, task: CoordinatorTask[R]) -> R:
    return task(bench)


class ProcessEngine:
    """Worker processes; one that dies (out of memory, say) is replaced, and only the site that kills two fails.

    They outlive the engine, for the next method of the same command.
    """

    kept: "ClassVar[list[Workers[Task, Any]]]" = []

    def __init__(self, federation: Federation, workers: int) -> None:
        self.federation = federation
        self.workers = self.kept.pop() if self.kept else Workers[Task, Any](workers)
        if self.workers.processes != workers:
            self.workers.close()
            self.workers = Workers(workers)
        self.workers.open(_start, Shared(federation))

    def train(self, assignments: Sequence[Assignment], answers: Path) -> Iterator[Update | Failure]:
        def work(assignment: Assignment) -> int:
            site = self.federation.sites[assignment.site]
            return site.count * site.settings.epochs

        largest_first = sorted(assignments, key=work, reverse=True)
        tasks = [(_train, one, answers) for one in largest_first]
        for place, answer in self.workers.stream(tasks, [[i] for i in range(len(tasks))]):
            if isinstance(answer, Lost):
                answer = Failure(largest_first[place].site, "its training process died twice; is there enough memory?")
            yield _sound(answer)

    def predict(self, model: Path, films: str) -> Callable[[], np.ndarray]:
        spans = chunks(len(self.federation.films_of(films)))
        answers = [self.workers.submit((Workbench.predict, model, films, *span)) for span in spans]
        return lambda: np.concatenate([_sound(answer()) for answer in answers])

    def run_at_coordinator(self, task: CoordinatorTask[R]) -> R:
        return _sound(self.workers.submit((_run, task))())

    def close(self) -> None:
        self.workers.stop()
        self.kept.append(self.workers)


def _sound(answer: Any) -> Any:
    """Without this answer the round cannot end."""
    if isinstance(answer, Lost):
        raise WorkFailed(DIED_TWICE)
    if isinstance(answer, Exception):
        raise answer
    return answer


class DeviceEngine:
    """One process on one device: on a GPU, sites take turns."""

    def __init__(self, federation: Federation, device: str) -> None:
        self.federation, self.bench = federation, Workbench(federation, device)

    def train(self, assignments: Sequence[Assignment], answers: Path) -> Iterator[Update | Failure]:
        for assignment in assignments:
            yield _train(self.bench, assignment, answers)

    def predict(self, model: Path, films: str) -> Callable[[], np.ndarray]:
        spans = chunks(len(self.federation.films_of(films)))
        return lambda: np.concatenate([self.bench.predict(model, films, *span) for span in spans])

    def run_at_coordinator(self, task: CoordinatorTask[R]) -> R:
        return task(self.bench)

    def close(self) -> None:
        pass
