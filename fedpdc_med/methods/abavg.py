"""ABAVG: Xiao et al., A Novel Server-side Aggregation Strategy for Federated Learning in Non-IID Situations, 2021."""

from typing import ClassVar

from fedpdc_med.methods.parts import Method, Parts
from fedpdc_med.methods.weighting import by_min_max


class ABAVG(Method):
    """FedAvg's local steps, weights by min-max normalised accuracy: the worst model of a round gets weight zero."""

    name: ClassVar[str] = "abavg"

    def parts(self) -> Parts:
        return Parts(weighting=by_min_max)
