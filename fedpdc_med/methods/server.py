"""What a method can use at the coordinator: the updates of a round, its own memory, and where its heavy work runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

State = dict[str, Tensor]
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class ScoredUpdate:
    """An update that passed its checks, with its score and recall on the weighting films; files are read on demand."""

    site: str
    model: Path
    films: int
    score: float  # p_i
    recall: Mapping[str, float | None] = field(default_factory=dict)  # by class; None: no films of that class
    extra: Path | None = None  # what the method sends in addition to the model

    def state(self) -> State:
        return load_file(self.model)

    def names(self) -> list[str]:
        with safe_open(self.model, framework="pt") as file:
            return list(file.keys())

    def tensor(self, name: str) -> Tensor:
        with safe_open(self.model, framework="pt") as file:
            return file.get_tensor(name)

    def sent(self) -> State:
        return load_file(self.extra) if self.extra else {}


class CoordinatorWork(Protocol):
    """The network and the public films, in the process that computes with them."""

    @property
    def device(self) -> str: ...

    @property
    def model(self) -> nn.Module:
        """Only its architecture counts."""
        ...

    def weighting_films(self) -> tuple[Tensor, Tensor]:
        """Normalised images and labels."""
        ...

    def train_on_correction(self, start: Path, answer: Path, epochs: int, learning_rate: float, seed: int) -> None:
        """Plain cross-entropy, in batches like those of most sites; the trained state is left in `answer`."""
        ...

    def seed_for(self, *what: object) -> int: ...


class CoordinatorTask(Protocol[R_co]):
    """A frozen dataclass of paths and numbers, so that it can be sent to the process that does the work."""

    def __call__(self, work: CoordinatorWork) -> R_co: ...


class RunAtCoordinator(Protocol):
    def __call__(self, task: CoordinatorTask[R_co]) -> R_co: ...


@dataclass(frozen=True)
class ServerRound:
    """One round at the coordinator; states are read from their files on demand."""

    round: int  # t, from 1
    rounds: int
    sites: int  # N: all that could have been sampled
    updates: Sequence[ScoredUpdate]
    parameters: frozenset[str]  # names of what is trained; the rest are statistics and counters
    global_model: Path  # w_t
    memory_file: Path | None  # what the server step of the previous round kept
    folder: Path  # for files of this round
    run_at_coordinator: RunAtCoordinator

    def received(self) -> State:
        """w_t, which the sites received."""
        return load_file(self.global_model)

    def memory(self) -> State:
        return load_file(self.memory_file) if self.memory_file else {}


@dataclass(frozen=True)
class Weights:
    values: list[float]  # one per update; their sum is 1
    note: str = ""  # for the round's record


@dataclass(frozen=True)
class Outcome:
    """The result of a server step."""

    state: State
    memory: State = field(default_factory=dict)  # for its next round
    note: str = ""
