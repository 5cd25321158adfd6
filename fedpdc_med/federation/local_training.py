"""Local training, the same loop for every method."""

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedpdc_med.federation.images import TrainingFilms
from fedpdc_med.methods.parts import Batch, Context, Parts, local_loss
from fedpdc_med.methods.server import State
from fedpdc_med.runs.plan import LocalSettings


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """One epoch's shuffled positions; the last partial batch is dropped, unless it is the only one."""
    order = torch.randperm(count, generator=generator)
    full = count // size * size
    yield from order[:full].split(size) if full else [order]


def frozen_copy(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).eval().requires_grad_(False)


def public_batches(films: TrainingFilms, size: int, generator: torch.Generator) -> Callable[[], tuple[Tensor, Tensor]]:
    """An endless supply of public minibatches."""
    endless = itertools.chain.from_iterable(batches(len(films), size, generator) for _ in itertools.count())
    return lambda: films.batch(next(endless), generator)


@dataclass(frozen=True)
class Trained:
    loss: float  # the mean of the last epoch
    kept: State | None = None  # only by a method with a `SiteState`, for the site's next round
    extra: State | None = None  # as above, for the coordinator


def train_locally(
    model: nn.Module,  # holds w_t; holds w_i when this returns
    films: TrainingFilms,
    parts: Parts,
    settings: LocalSettings,
    *,
    round: int,
    rounds: int,
    score: float,
    seed: int,
    public: TrainingFilms | None = None,
    previous_model: nn.Module | None = None,
    kept: State | None = None,
    broadcast: State | None = None,
) -> Trained:
    """Algorithm 2's `PartyLocalTraining`: SGD for the settings' epochs."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)  # layers that draw, such as dropout
    public_batch, ratio = None, 1.0
    if public is not None:
        ratio = parts.public.batch_ratio(len(public) / len(films))
        size = max(2, int(settings.batch_size * ratio + 0.5))  # batch normalisation needs two
        public_batch = public_batches(public, size, torch.Generator().manual_seed(seed + 1))
    context = Context(
        model,
        frozen_copy(model),
        previous_model,
        round,
        rounds,
        score,
        public_batch,
        ratio,
        kept or {},
        broadcast or {},
    )
    rate = settings.learning_rate * parts.learning_rate(round, rounds)
    optimiser = torch.optim.SGD(
        model.parameters(), lr=rate, momentum=settings.momentum, weight_decay=settings.weight_decay, fused=True
    )
    model.train()
    steps, losses = 0, list[Tensor]()
    for _ in range(settings.epochs):
        losses = []
        for chosen in batches(len(films), settings.batch_size, generator):
            images, labels = films.batch(chosen.to(films.labels.device), generator)
            projection, logits = model(images)
            loss = local_loss(parts, Batch(images, labels, projection, logits), context)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        steps += len(losses)
    trained = Trained(float(torch.stack(losses).mean()))
    if parts.site_state is None:
        return trained
    return Trained(trained.loss, *parts.site_state.after(context, reach(steps, rate, settings.momentum)))


def reach(steps: int, rate: float, momentum: float) -> float:
    """How far these steps move a number whose gradient is always one: rate * steps without momentum."""
    return rate * sum((1 - momentum**k) / (1 - momentum) for k in range(1, steps + 1))
