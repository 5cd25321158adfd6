"""SOLO: every site trains alone; the paper's baseline without federation."""

from typing import ClassVar

from fedpdc_med.methods.parts import Method


class SOLO(Method):
    """Cross-entropy at the sites, no averaging: each site goes on from its own model."""

    name: ClassVar[str] = "solo"
    keeps_local_model: ClassVar[bool] = True
    shares: ClassVar[bool] = False
