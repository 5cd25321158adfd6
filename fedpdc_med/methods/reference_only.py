"""The public set alone: what no federation at all would give."""

from typing import ClassVar

from fedpdc_med.methods.parts import Arrangement, Method


class ReferenceOnly(Method):
    """FedAvg over a single site that holds the public films (`correction` and `weighting`) and no other."""

    name: ClassVar[str] = "reference-only"
    arrangement: ClassVar[Arrangement] = "reference"
