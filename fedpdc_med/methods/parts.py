"""The contract of a method: how a site computes its loss, and how a round weighs its updates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from fedpdc_med.methods.weighting import by_films

Arrangement = Literal["sites", "pooled", "reference"]


@dataclass(frozen=True)
class Batch:
    """One step's films with what the model being trained says of them."""

    images: Tensor
    labels: Tensor
    projection: Tensor
    logits: Tensor


@dataclass(frozen=True)
class Context:
    """What stays the same during one round of local training."""

    model: nn.Module
    global_model: nn.Module  # w_t, frozen
    previous_model: nn.Module | None  # this site's own model of its last round, frozen
    round: int  # t, from 1
    score: float  # p_i: this site's accuracy on the reference in the round before, or `unscored`
    reference_batch: Callable[[], tuple[Tensor, Tensor]] | None  # films of the `correction` split
    reference_share: float = 1.0  # the size of its minibatch beside the site's


@dataclass(frozen=True)
class Scored:
    """An update that passed its checks, with what the reference says of it."""

    site: str
    films: int
    score: float
    recall: Mapping[str, float | None] = field(default_factory=dict)  # by class; None: no film of that class


@dataclass(frozen=True)
class Finetuning:
    """Training at the coordinator on the `correction` split, after averaging."""

    epochs: int
    learning_rate: float


class Method(BaseModel):
    """Federated averaging; a method overrides the step that it changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    keeps_local_model: ClassVar[bool] = False  # the site finds its own last model again in its next round
    shares: ClassVar[bool] = True  # False: no averaging, every site goes on from its own model
    unscored: ClassVar[float] = 1.0  # p_i of a site that took no part in the round before; 1: it is not corrected
    arrangement: ClassVar[Arrangement] = "sites"  # who trains: the sites, or one place with their or the public films

    @property
    def trains_on_reference(self) -> bool:
        """Whether sites receive the `correction` split."""
        return False

    @property
    def joined_copies(self) -> int:
        """How many copies of the `correction` split a site's own films are joined by, in the same batches."""
        return 0

    @property
    def finetuning(self) -> Finetuning | None:
        """Training at the coordinator on the `correction` split, or None."""
        return None

    @property
    def uses_correction(self) -> bool:
        """Whether anyone trains on the `correction` split, so that the scores must come from other films."""
        return self.trains_on_reference or self.finetuning is not None

    @property
    def searches_weights(self) -> bool:
        """Whether `weights` only start a search that must see all models at once: memory grows with the sites."""
        return False

    def reference_share(self, ratio: float) -> float:
        """The size of a public minibatch beside the site's, where there are `ratio` public films for one of its own."""
        return 1.0

    def local_loss(self, batch: Batch, context: Context) -> Tensor:
        return F.cross_entropy(batch.logits, batch.labels)

    def weights(self, scored: Sequence[Scored]) -> list[float] | None:
        """One weight an update, adding up to 1; None when the scores give no ground for any."""
        return by_films([update.films for update in scored])


def squared_distance(model: nn.Module, other: nn.Module) -> Tensor:
    """||w - w'||^2 over all trained parameters."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    parts = [(mine - theirs).square().sum() for mine, theirs in pairs]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
