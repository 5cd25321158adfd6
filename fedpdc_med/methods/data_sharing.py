"""Data sharing: Zhao et al., Federated Learning with Non-IID Data, 2018."""

from typing import ClassVar

from pydantic import Field

from fedpdc_med.methods.parts import Method


class DataSharing(Method):
    """FedAvg, each site's films joined by the `correction` split; its weight still counts its own films only."""

    name: ClassVar[str] = "data-sharing"
    copies: int = Field(default=1, ge=1)  # of the public films, which are few beside a site's own

    @property
    def trains_on_reference(self) -> bool:
        return True

    @property
    def joined_copies(self) -> int:
        return self.copies
