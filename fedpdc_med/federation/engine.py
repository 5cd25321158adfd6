"""What the coordinator asks of an engine, whatever machine the sites are on."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from fedpdc_med.federation.protocol import Assignment, Failure, Update


class Engine(Protocol):
    def train(self, assignments: Sequence[Assignment], answers: Path) -> Iterator[Update | Failure]:
        """One answer an assignment, in any order, each state a file in the folder `answers`."""
        ...

    def predict(self, model: Path, films: str) -> Callable[[], np.ndarray]:
        """Start predicting a named set of films; calling the result waits for the probabilities."""
        ...

    def finetune(self, model: Path, answer: Path, round: int) -> None:
        """Train a model at the coordinator, on the `correction` split; its state is left in the file `answer`."""
        ...

    def search_weights(self, models: Sequence[Path], start: Sequence[float], round: int) -> list[float]:
        """The weights of these models whose average does best on the weighting films, looked for from `start`."""
        ...

    def close(self) -> None: ...


def answer_file(answers: Path, assignment: Assignment) -> Path:
    """Named by round, so that a site's kept model of the last round is never overwritten by an unfinished one."""
    return answers / f"{assignment.site}.round{assignment.round}.safetensors"
