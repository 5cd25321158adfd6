"""Data sharing: Zhao et al., Federated Learning with Non-IID Data, 2018."""

from typing import ClassVar

from pydantic import Field

from fedpdc_med.methods.parts import Method, Parts, PublicFilms


class DataSharing(Method):
    """FedAvg with the `correction` split added to each site's films; its weight counts its own films only."""

    name: ClassVar[str] = "data-sharing"
    costs: ClassVar[tuple[str, ...]] = ("copies",)
    copies: int = Field(default=1, ge=1)  # of the public films, which are few compared with a site's own

    def parts(self) -> Parts:
        return Parts(public=PublicFilms(at_sites="joined", copies=self.copies))
