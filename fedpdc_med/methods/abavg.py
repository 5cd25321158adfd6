"""ABAVG: Xiao et al., A Novel Server-side Aggregation Strategy for Federated Learning in Non-IID Situations, 2021."""

from collections.abc import Sequence
from typing import ClassVar

from fedpdc_med.methods.parts import Method, Scored
from fedpdc_med.methods.weighting import min_max


class ABAVG(Method):
    """FedAvg's local steps, weights by min-max normalised accuracy: the worst model of a round has no say in it."""

    name: ClassVar[str] = "abavg"

    def weights(self, scored: Sequence[Scored]) -> list[float] | None:
        return min_max([update.score for update in scored])
