"""MOON: Li, He and Song, Model-Contrastive Federated Learning, 2021."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from fedpdc_med.methods.parts import Batch, Context, Method, Parts


class MOON(Method):
    """FedAvg plus a term that pulls a site's projections to the global model's and away from its previous ones."""

    name: ClassVar[str] = "moon"
    mu: float = Field(default=5.0, ge=0)
    temperature: float = Field(default=0.5, gt=0)

    def parts(self) -> Parts:
        return Parts(terms=(Contrast(self.mu, self.temperature),), keeps="model")


@dataclass(frozen=True)
class Contrast:
    mu: float
    temperature: float

    def __call__(self, batch: Batch, context: Context) -> Tensor | None:
        if context.previous_model is None:  # a site's first round: nothing to move away from
            return None
        with torch.no_grad():
            of_global, _ = context.global_model(batch.images)
            of_previous, _ = context.previous_model(batch.images)
        return self.mu * contrastive_loss(batch.projection, of_global, of_previous, self.temperature)


def contrastive_loss(projection: Tensor, of_global: Tensor, of_previous: Tensor, temperature: float) -> Tensor:
    """-log(exp(sim(z, z_glob)/T) / (exp(sim(z, z_glob)/T) + exp(sim(z, z_prev)/T))), mean over the batch."""
    towards = F.cosine_similarity(projection, of_global) / temperature
    away = F.cosine_similarity(projection, of_previous) / temperature
    return F.softplus(away - towards).mean()
