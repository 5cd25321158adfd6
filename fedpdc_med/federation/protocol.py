"""The messages between coordinator and site, the interface of an engine, and the seeds of both."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import numpy as np

from fedpdc_med.methods.server import CoordinatorTask

R = TypeVar("R")


@dataclass(frozen=True)
class Assignment:
    """To a site: round t, its score p_i of the previous round, where to start, and what it kept of its last round."""

    site: str
    round: int
    score: float
    model: Path
    kept: Path | None = None  # its own last model, or what its method keeps instead
    broadcast: Path | None = None  # the memory of the server step, if the method sends it


@dataclass(frozen=True)
class Update:
    """From a site: its model's state (in a file, so that memory does not grow with the sites), film count, loss."""

    site: str
    model: Path
    films: int
    loss: float
    epsilon: float | None = None  # privacy spent by the site's updates up to this round, if it adds noise to them
    extra: Path | None = None  # what the method sends in addition to the model


@dataclass(frozen=True)
class Failure:
    """Instead of an update: why there is none."""

    site: str
    reason: str
    status: Literal["failed", "rejected"] = "failed"  # no answer, or one that an engine could not accept


class Engine(Protocol):
    """Runs the sites, on whatever machines they are."""

    def train(self, assignments: Sequence[Assignment], folder: Path) -> Iterator[Update | Failure]:
        """One answer per assignment, in any order, each with its files in the folder."""
        ...

    def predict(self, model: Path, films: str) -> Callable[[], np.ndarray]:
        """Start predicting a named set of films; calling the result waits for the probabilities."""
        ...

    def run_at_coordinator(self, task: CoordinatorTask[R]) -> R: ...

    def close(self) -> None: ...


def answer_file(folder: Path, assignment: Assignment) -> Path:
    """Named by round, so that an unfinished round never overwrites what a site kept of the last one."""
    return folder / f"{assignment.site}.round{assignment.round}.safetensors"


def extra_file(answer: Path) -> Path:
    """What the method sends in addition to the model."""
    return answer.with_suffix(".extra.safetensors")


def kept_file(answer: Path) -> Path:
    """What stays at the site, if it is not the model itself."""
    return answer.with_suffix(".kept.safetensors")


def seed_for(seed: int, *what: object) -> int:
    """A separate seed for every purpose, round and site, so that no random draw depends on what ran before."""
    text = ":".join(map(str, (seed, *what)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
