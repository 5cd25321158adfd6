"""Learned aggregation weights, as in FedLAW: Li et al., Revisiting Weighted Aggregation in Federated Learning, 2023."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.func import functional_call

from fedpdc_med.methods.parts import Method, Parts, Weighting
from fedpdc_med.methods.server import CoordinatorWork, ServerRound, State, Weights
from fedpdc_med.methods.weighting import by_score

STEPS, BATCH, RATE = 50, 128, 0.1  # of Adam, on the logarithms of the weights
LEAST = 1e-4  # the start of a weight that would be zero, where its gradient would vanish


class LearnedWeights(Method):
    """FedAvg's local steps; weights by gradient descent on the weighting films' loss, starting from those by score."""

    name: ClassVar[str] = "learned-weights"

    def parts(self) -> Parts:
        return Parts(weighting=Searched(by_score))


@dataclass(frozen=True)
class Searched:
    """The search must see all models at once: memory grows with the sites."""

    start: Weighting

    def __call__(self, r: ServerRound) -> Weights:
        start = self.start(r)
        search = SearchWeights(tuple(update.model for update in r.updates), tuple(start.values), r.round)
        return replace(start, values=r.run_at_coordinator(search))


@dataclass(frozen=True)
class SearchWeights:
    models: tuple[Path, ...]
    start: tuple[float, ...]
    round: int

    def __call__(self, work: CoordinatorWork) -> list[float]:
        states = [load_file(model, work.device) for model in self.models]
        seed = work.seed_for("weights", self.round)
        return search_weights(work.model, states, self.start, *work.weighting_films(), seed)


def search_weights(
    model: nn.Module,  # only its architecture counts
    states: Sequence[State],
    start: Sequence[float],
    images: Tensor,
    labels: Tensor,
    seed: int,
) -> list[float]:
    """The weights with the lowest cross-entropy found for the averaged state, never higher than that of `start`."""
    stacked = {key: torch.stack([s[key] for s in states]) for key, t in states[0].items() if t.is_floating_point()}
    counters = {key: tensor for key, tensor in states[0].items() if key not in stacked}
    trained = {key for key, _ in model.named_parameters()}
    model.eval()

    def loss_at(weights: Tensor, chosen: Tensor) -> Tensor:
        # BatchNorm's statistics are averaged with the same weights, but PyTorch has no gradient for them.
        given = {key: weights if key in trained else weights.detach() for key in stacked}
        average = {key: torch.tensordot(given[key], each, dims=1) for key, each in stacked.items()}
        _, logits = functional_call(model, (average, counters), (images[chosen],))
        return F.cross_entropy(logits, labels[chosen], reduction="sum")

    @torch.no_grad()
    def loss_of(weights: Tensor) -> float:
        return sum(float(loss_at(weights, part)) for part in torch.arange(len(labels)).split(BATCH))

    begin = torch.tensor(start, device=images.device)
    free = begin.clamp(min=LEAST).log().requires_grad_()
    optimiser = torch.optim.Adam([free], lr=RATE)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        chosen = torch.randperm(len(labels), generator=generator)[:BATCH]
        optimiser.zero_grad()
        (loss_at(free.softmax(0), chosen) / len(chosen)).backward()
        optimiser.step()
    found = free.detach().softmax(0)
    if not loss_of(found) < loss_of(begin):  # not better, or not a number
        return list(start)
    return found.double().div(found.double().sum()).tolist()
