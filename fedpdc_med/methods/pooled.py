"""Pooled training: the upper bound that no group of hospitals can have."""

from typing import ClassVar

from fedpdc_med.methods.parts import Arrangement, Method


class Pooled(Method):
    """FedAvg over a single site that holds the films of all."""

    name: ClassVar[str] = "pooled"
    arrangement: ClassVar[Arrangement] = "pooled"
