"""Checking updates and averaging them one after the other."""

from collections.abc import Iterable, Sequence

import torch

from fedpdc_med.federation.protocol import State


def problem_with(state: State, expected: State) -> str | None:
    """Why a state cannot be averaged with the others, or None: never trust a reply."""
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


def weighted_average(states: Iterable[State], weights: Sequence[float]) -> State:
    """Sum of weight * state; float entries (BatchNorm statistics too) averaged, integer counters copied.

    States are taken one at a time in the order given, so memory does not grow with their number and the result does
    not depend on who answered first. Sums are kept in float64.
    """
    total: State = {}
    types: dict[str, torch.dtype] = {}
    for state, weight in zip(states, weights, strict=True):
        for name, tensor in state.items():
            if not tensor.is_floating_point():
                total.setdefault(name, tensor.clone())
                continue
            types[name] = tensor.dtype
            part = tensor.to(torch.float64) * weight
            total[name] = total[name].add_(part) if name in total else part
    return {name: tensor.to(types.get(name, tensor.dtype)) for name, tensor in total.items()}
