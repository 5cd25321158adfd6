"""Checks of a state, and the aggregation of a round's updates into one state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedpdc_med.methods.server import ScoredUpdate, State


def problem_with(state: State, expected: State) -> str | None:
    """Why a state cannot be averaged with the others, or None. Replies are never trusted."""
    if state.keys() != expected.keys():
        missing, extra = expected.keys() - state.keys(), state.keys() - expected.keys()
        return f"entries do not match the model: {len(missing)} missing, {len(extra)} unknown"
    for name, tensor in state.items():
        if tensor.shape != expected[name].shape:
            return f"{name} has shape {tuple(tensor.shape)}, not {tuple(expected[name].shape)}"
        if tensor.dtype != expected[name].dtype:
            return f"{name} has type {tensor.dtype}, not {expected[name].dtype}"
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            return f"{name} is not finite"
    return None


def largest_number(state: State) -> float:
    return max(float(tensor.abs().max()) for tensor in state.values() if tensor.is_floating_point() and tensor.numel())


def weighted_average(updates: Sequence[ScoredUpdate], weights: Sequence[float]) -> State:
    """Sum of weight * state; float entries (BatchNorm statistics too) averaged, integer counters copied.

    States are read one at a time in the given order, so memory does not grow with their number and the result does not
    depend on which site answered first. Sums are in float64.
    """
    total: State = {}
    types: dict[str, torch.dtype] = {}
    for update, weight in zip(updates, weights, strict=True):
        _add(total, types, update.state(), weight)  # a call, so that the state is freed before the next is read
    return {name: tensor.to(types.get(name, tensor.dtype)) for name, tensor in total.items()}


def _add(total: State, types: dict[str, torch.dtype], state: State, weight: float) -> None:
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            total.setdefault(name, tensor.clone())
            continue
        types[name] = tensor.dtype
        part = tensor.to(torch.float64) * weight
        total[name] = total[name].add_(part) if name in total else part


@dataclass(frozen=True)
class TensorWise:
    """Reduces the sites' values of each number to one; keeps one tensor of every site in memory at a time.

    The weights are not used; integer counters are copied from the first site.
    """

    reduce: Callable[[Tensor], Tensor]  # (sites, ...) in float64 -> (...)

    def __call__(self, updates: Sequence[ScoredUpdate], weights: Sequence[float]) -> State:
        return {name: self._reduced([update.tensor(name) for update in updates]) for name in updates[0].names()}

    def _reduced(self, tensors: list[Tensor]) -> Tensor:
        if not tensors[0].is_floating_point():
            return tensors[0]
        return self.reduce(torch.stack(tensors).double()).to(tensors[0].dtype)
