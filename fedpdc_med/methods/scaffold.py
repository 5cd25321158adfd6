"""SCAFFOLD: Karimireddy et al., Stochastic Controlled Averaging for Federated Learning, 2020; its option II."""

from typing import ClassVar

from torch import Tensor

from fedpdc_med.methods.parts import Batch, Context, Method, Parts
from fedpdc_med.methods.server import Outcome, ServerRound, State
from fedpdc_med.methods.weighting import equal


class Scaffold(Method):
    """Every local gradient is shifted by c - c_i: towards the mean of all sites' gradients, away from the site's own.

    The paper's sites use SGD without momentum. If a site has momentum, the distance that its steps would move with a
    constant gradient (`reach`) replaces the paper's steps * rate.
    """

    name: ClassVar[str] = "scaffold"

    def parts(self) -> Parts:
        return Parts(terms=(control,), weighting=equal, server=move_control, keeps=ControlVariate(), sends_memory=True)


def control(batch: Batch, context: Context) -> Tensor | None:
    """A term whose gradient is c - c_i; both are zero until the first round is complete."""
    moved = [((c - kept) * parameter).sum() for c, kept, parameter in _controls(context)]
    return sum(moved[1:], moved[0]) if moved else None


def _controls(context: Context) -> list[tuple[Tensor, Tensor | int, Tensor]]:
    named = context.model.named_parameters()
    return [(context.broadcast[name], context.kept.get(name, 0), p) for name, p in named if context.broadcast]


class ControlVariate:
    """c_i, kept at the site; its change is sent."""

    def after(self, context: Context, reach: float) -> tuple[State, State]:
        kept, change = {}, {}
        before = dict(context.global_model.named_parameters())
        for name, parameter in context.model.named_parameters():
            gradient = (before[name] - parameter.detach()) / reach
            own = context.kept.get(name, 0)
            kept[name] = own - context.broadcast.get(name, 0) + gradient
            change[name] = kept[name] - own
        return kept, change


def move_control(r: ServerRound, aggregated: State) -> Outcome:
    """c changes by the sum of its sites' changes, divided by the number of all sites."""
    c = r.memory()
    for update in r.updates:
        for name, change in update.sent().items():
            c[name] = c.get(name, 0) + change / r.sites
    return Outcome(aggregated, memory=c)
