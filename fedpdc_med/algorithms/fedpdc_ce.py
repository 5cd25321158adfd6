"""FedPDC with a correction that acts, the recommended method; docs/recommended.md explains it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedpdc_med.algorithms.fedpdc import FedPDC


class FedPDCCE(FedPDC):
    """FedPDC with the cross-entropy of public films as its correction, strong while the model knows little."""

    name: ClassVar[str] = "fedpdc-ce"
    correction: Literal["cross-entropy"] = "cross-entropy"
    strength: Annotated[float, Field(ge=0)] = 2.0

    def strength_in(self, round: int) -> float:
        """lambda = strength / t."""
        return self.strength / round
