"""Data sharing: Zhao et al., Federated Learning with Non-IID Data, 2018."""

from typing import ClassVar

from fedpdc_med.algorithms.method import Method


class DataSharing(Method):
    """FedAvg, each site's films joined by the `correction` split; its weight still counts its own films only."""

    name: ClassVar[str] = "data-sharing"
    joins_reference: ClassVar[bool] = True

    @property
    def trains_on_reference(self) -> bool:
        return True
