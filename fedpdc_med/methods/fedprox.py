"""FedProx: Li et al., Federated Optimization in Heterogeneous Networks, 2020."""

from typing import ClassVar

from pydantic import Field
from torch import Tensor

from fedpdc_med.methods.parts import Batch, Context, Method, squared_distance


class FedProx(Method):
    """FedAvg plus mu/2 * ||w - w_t||^2, which holds a site near the global model."""

    name: ClassVar[str] = "fedprox"
    mu: float = Field(default=0.01, ge=0)

    def local_loss(self, batch: Batch, context: Context) -> Tensor:
        distance = squared_distance(context.model, context.global_model)
        return super().local_loss(batch, context) + self.mu / 2 * distance
