"""Training without a federation: local-only, on all films in one place, or on the public films only."""

from typing import ClassVar

from fedpdc_med.methods.parts import Method, Parts


class SOLO(Method):
    """Local-only training: cross-entropy at the sites without averaging; each site continues from its own model."""

    name: ClassVar[str] = "solo"

    def parts(self) -> Parts:
        return Parts(keeps="model", trains="alone")


class Pooled(Method):
    """FedAvg with a single site that has all films: an upper bound that no group of hospitals can reach."""

    name: ClassVar[str] = "pooled"

    def parts(self) -> Parts:
        return Parts(trains="pooled")


class ReferenceOnly(Method):
    """FedAvg with a single site that has the public films (`correction` and `weighting`) and no others."""

    name: ClassVar[str] = "reference-only"

    def parts(self) -> Parts:
        return Parts(trains="public")
