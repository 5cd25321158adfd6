"""Local training: the `PartyLocalTraining` of algorithm 2, the same for every method."""

import copy
import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from fedpdc_med.federation.images import TrainingFilms
from fedpdc_med.methods import Batch, Context, Method
from fedpdc_med.runs.plan import LocalSettings


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """One epoch's shuffled positions; the last partial batch is dropped, unless it is the only one."""
    order = torch.randperm(count, generator=generator)
    full = count // size * size
    yield from order[:full].split(size) if full else [order]


def frozen_copy(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).eval().requires_grad_(False)


def reference_batches(
    films: TrainingFilms, size: int, generator: torch.Generator
) -> Callable[[], tuple[Tensor, Tensor]]:
    """An endless supply of public minibatches."""
    endless = itertools.chain.from_iterable(batches(len(films), size, generator) for _ in itertools.count())
    return lambda: films.batch(next(endless), generator)


def train_locally(
    model: nn.Module,  # holds w_t; holds w_i when this returns
    films: TrainingFilms,
    method: Method,
    settings: LocalSettings,
    *,
    round: int,
    score: float,
    previous_model: nn.Module | None,
    reference: TrainingFilms | None,
    seed: int,
) -> float:
    """Train for the settings' epochs and return the mean loss of the last one."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)  # layers that draw, such as dropout
    reference_batch, share = None, 1.0
    if reference is not None:
        share = method.reference_share(len(reference) / len(films))
        size = max(2, int(settings.batch_size * share + 0.5))  # batch normalisation needs two
        reference_generator = torch.Generator().manual_seed(seed + 1)
        reference_batch = reference_batches(reference, size, reference_generator)
    context = Context(model, frozen_copy(model), previous_model, round, score, reference_batch, share)
    optimiser = torch.optim.SGD(
        model.parameters(),
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    model.train()
    losses: list[Tensor] = []
    for _ in range(settings.epochs):
        losses = []
        for chosen in batches(len(films), settings.batch_size, generator):
            images, labels = films.batch(chosen.to(films.labels.device), generator)
            projection, logits = model(images)
            loss = method.local_loss(Batch(images, labels, projection, logits), context)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
    return float(torch.stack(losses).mean())
