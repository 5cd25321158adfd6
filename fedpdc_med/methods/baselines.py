"""Training without a federation: each site alone, all films in one place, the public films alone."""

from typing import ClassVar

from fedpdc_med.methods.parts import Method, Parts


class SOLO(Method):
    """Cross-entropy at the sites, no averaging: each site goes on from its own model."""

    name: ClassVar[str] = "solo"

    def parts(self) -> Parts:
        return Parts(keeps="model", trains="alone")


class Pooled(Method):
    """FedAvg over a single site that holds the films of all: the upper bound that no group of hospitals can have."""

    name: ClassVar[str] = "pooled"

    def parts(self) -> Parts:
        return Parts(trains="pooled")


class ReferenceOnly(Method):
    """FedAvg over a single site that holds the public films (`correction` and `weighting`) and no other."""

    name: ClassVar[str] = "reference-only"

    def parts(self) -> Parts:
        return Parts(trains="public")
