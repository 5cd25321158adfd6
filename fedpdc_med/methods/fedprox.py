"""FedProx: Li et al., Federated Optimization in Heterogeneous Networks, 2020."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from fedpdc_med.methods.parts import Batch, Context, Method, Parts, squared_distance


class FedProx(Method):
    """FedAvg plus mu/2 * ||w - w_t||^2, which keeps a site near the global model."""

    name: ClassVar[str] = "fedprox"
    mu: float = Field(default=0.01, ge=0)

    def parts(self) -> Parts:
        return Parts(terms=(Proximal(self.mu / 2),))


@dataclass(frozen=True)
class Proximal:
    factor: float

    def __call__(self, batch: Batch, context: Context) -> Tensor:
        return self.factor * squared_distance(context.model, context.global_model)
