"""The contract: a method is its settings and the parts that they define."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from fedpdc_med.methods.aggregation import weighted_average
from fedpdc_med.methods.server import Outcome, ScoredUpdate, ServerRound, State, Weights
from fedpdc_med.methods.weighting import by_films


@dataclass(frozen=True)
class Batch:
    """One step's films with the output of the model being trained."""

    images: Tensor
    labels: Tensor
    projection: Tensor
    logits: Tensor


@dataclass(frozen=True)
class Context:
    """Everything that stays the same during one round of local training."""

    model: nn.Module
    global_model: nn.Module  # w_t, frozen
    previous_model: nn.Module | None  # this site's own model from its last round, frozen, if the method keeps it
    round: int  # t, from 1
    rounds: int
    score: float  # p_i: this site's accuracy on the weighting films in the previous round, or `unscored`
    public_batch: Callable[[], tuple[Tensor, Tensor]] | None = None  # films of the `correction` split
    batch_ratio: float = 1.0  # the size of a public minibatch relative to the site's
    kept: State = field(default_factory=dict)  # what this site's `SiteState` kept in its last round
    broadcast: State = field(default_factory=dict)  # the memory of the server step, if the method sends it


class SiteState(Protocol):
    """What a site keeps for its next round, if that is more than its own last model."""

    def after(self, context: Context, reach: float) -> tuple[State, State]:
        """(kept at the site, sent with the update), both with the names and shapes of trained parameters.

        `reach` is how far a gradient of one would have moved every number in this round.
        """
        ...


Term = Callable[[Batch, Context], Tensor | float | None]  # None: nothing to add in this round
Weighting = Callable[[ServerRound], Weights]
Aggregate = Callable[[Sequence[ScoredUpdate], Sequence[float]], State]
ServerStep = Callable[[ServerRound, State], Outcome]  # from the aggregated state
Schedule = Callable[[int, int], float]  # round t of T -> factor


def constant(t: int, rounds: int) -> float:
    return 1.0


def as_large(ratio: float) -> float:
    return 1.0


@dataclass(frozen=True)
class PublicFilms:
    """Where the `correction` split is trained on. In every case the scores come from other films."""

    at_sites: Literal["no", "minibatch", "joined"] = "no"  # joined: in the same batches as the site's own
    copies: int = 1  # of the joined films
    batch_ratio: Callable[[float], float] = as_large  # public films for one own film -> size of a public minibatch
    at_coordinator: bool = False

    @property
    def used(self) -> bool:
        return self.at_sites != "no" or self.at_coordinator


@dataclass(frozen=True)
class Parts:
    """The default is federated averaging; a method names only what it does differently."""

    terms: tuple[Term, ...] = ()  # local loss = cross-entropy + terms, added in this order
    weighting: Weighting = by_films
    aggregate: Aggregate = weighted_average
    server: ServerStep | None = None
    keeps: Literal["nothing", "model"] | SiteState = "nothing"  # "model": its own update, without a copy
    sends_memory: bool = False  # sites get the server step's memory as context.broadcast
    public: PublicFilms = PublicFilms()
    learning_rate: Schedule = constant
    unscored: float = 1.0  # p_i of a site that was not in the previous round; 1: it is not corrected
    trains: Literal["sites", "alone", "pooled", "public"] = "sites"  # alone: no averaging; the last two: in one place

    @property
    def site_state(self) -> SiteState | None:
        return None if isinstance(self.keeps, str) else self.keeps


class Method(BaseModel):
    """The fields are the settings of --set and config.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    costs: ClassVar[tuple[str, ...]] = ()  # settings that change the work of a round

    def parts(self) -> Parts:
        return Parts()


def local_loss(parts: Parts, batch: Batch, context: Context) -> Tensor:
    loss = F.cross_entropy(batch.logits, batch.labels)
    for term in parts.terms:
        more = term(batch, context)
        if more is not None:
            loss = loss + more
    return loss


def squared_distance(model: nn.Module, other: nn.Module) -> Tensor:
    """||w - w'||^2 over all trained parameters."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    parts = [(mine - theirs).square().sum() for mine, theirs in pairs]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
