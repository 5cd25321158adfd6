"""FedPDC with a correction that acts, the recommended method; docs/recommended.md explains it."""

from typing import Annotated, ClassVar, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from fedpdc_med.algorithms.fedpdc import FedPDC


class FedPDCCE(FedPDC):
    """Equation 8 with the cross-entropy of public films in place of the accuracy, whose gradient is zero."""

    name: ClassVar[str] = "fedpdc-ce"
    correction: Literal["reference"] = "reference"
    strength: Annotated[float, Field(ge=0)] = 2.0
    schedule: Literal["decaying", "constant"] = "decaying"

    def strength_in(self, round: int) -> float:
        """lambda: strength / t, strong while the model knows little, or a constant."""
        return self.strength / round if self.schedule == "decaying" else self.strength

    def public_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels)
