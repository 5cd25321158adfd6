"""What travels between the coordinator and a site, and the seeds both derive."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

State = dict[str, Tensor]


@dataclass(frozen=True)
class Assignment:
    """To a site: round t, its score p_i of the round before, where to start, and its own last model if it keeps one."""

    site: str
    round: int
    score: float
    model: Path
    previous_model: Path | None = None


@dataclass(frozen=True)
class Update:
    """From a site: its model's state (in a file, so that memory does not grow with the sites), film count, loss."""

    site: str
    model: Path
    films: int
    loss: float
    epsilon: float | None = None  # what the site's updates up to this round give away, if it adds noise to them


@dataclass(frozen=True)
class Failure:
    """In place of an update: why there is none."""

    site: str
    reason: str
    status: Literal["failed", "rejected"] = "failed"  # no answer, or one that an engine could not accept


def seed_for(seed: int, *what: object) -> int:
    """A seed of its own for every purpose, round and site, so that no draw depends on what ran before."""
    text = ":".join(map(str, (seed, *what)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
