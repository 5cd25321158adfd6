"""FedPDC: Zhang and Zhang, Federated Learning for Public Dataset Correction, 2023 (arXiv 2302.12503)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from fedpdc_med.methods.learned_weights import Searched
from fedpdc_med.methods.parts import Batch, Context, Method, Parts, PublicFilms, Weighting, as_large, squared_distance
from fedpdc_med.methods.weighting import BySharpenedScore, by_films, by_recall, by_score, equal

Strength = Annotated[float, Field(ge=0)] | Literal["adaptive", "by-size"]


class FedPDC(Method):
    """Weights by accuracy on the public reference set; a site's score corrects its next local training.

    The paper's own correction, `penalty`, adds a number that does not depend on the weights being trained, so its
    gradient is zero and every local step is FedAvg's. `proximal` and `soft-accuracy` are two interpretations that have
    an effect; `cross-entropy` is `soft-accuracy` with a loss that also works if the site's model is confidently wrong.
    Weightings other than `accuracy` are not the paper's. On a balanced reference set `recall` equals `accuracy`.
    `by-films`, `equal` and `correction_factor=constant` do not use the scores, to measure their contribution.
    """

    name: ClassVar[str] = "fedpdc"
    correction: Literal["penalty", "proximal", "soft-accuracy", "cross-entropy", "none"] = "penalty"
    strength: Strength = 10.0
    correction_factor: Literal["by-score", "constant"] = "by-score"  # lambda times 1 - p_i, or times 1 at every site
    weighting: Literal["accuracy", "sharpened", "recall", "learned", "by-films", "equal"] = "accuracy"
    sharpness: float = Field(default=4.0, gt=0)  # k of `sharpened`: weights by p^k

    def parts(self) -> Parts:
        correction = Correction(CORRECTIONS[self.correction], self.strength, self.correction_factor == "by-score")
        weighting = BySharpenedScore(self.sharpness) if self.weighting == "sharpened" else WEIGHTINGS[self.weighting]
        public = PublicFilms()
        if self.correction in ("soft-accuracy", "cross-entropy"):
            public = PublicFilms("minibatch", batch_ratio=midway if self.strength == "by-size" else as_large)
        return Parts(terms=(correction,), weighting=weighting, public=public)


@dataclass(frozen=True)
class Correction:
    """Equations 6 to 8: cross-entropy + lambda * (1 - p_i) * the chosen correction."""

    corrected: Callable[[Context], Tensor | float] | None
    strength: float | str
    by_score: bool

    def __call__(self, batch: Batch, context: Context) -> Tensor | float | None:
        factor = lambda_of(self.strength, context) * (1 - context.score if self.by_score else 1)
        if self.corrected is None or factor == 0:
            return None
        return factor * self.corrected(context)


def lambda_of(strength: float | str, context: Context) -> float:
    """A constant, or equation 9's 0.5 * t, or a value with which every film of a step has the same weight."""
    if strength == "adaptive":
        return 0.5 * context.round
    return context.batch_ratio if strength == "by-size" else float(strength)


def midway(ratio: float) -> float:
    """`by-size`: the geometric mean of data sharing (`ratio`) and one public film per own film (1)."""
    return min(1.0, math.sqrt(ratio))


def penalty(context: Context) -> float:
    """As published: a constant, without a gradient."""
    return 1.0


def proximal(context: Context) -> Tensor:
    """As in the paper's proof, whose equation A.1 is FedProx's stationarity condition."""
    return squared_distance(context.model, context.global_model) / 2


def wrong(context: Context) -> Tensor:
    """1 - soft accuracy: "the accuracy is added to the training", made differentiable."""
    return 1 - soft_accuracy(*_on_public_films(context))


def public_cross_entropy(context: Context) -> Tensor:
    return F.cross_entropy(*_on_public_films(context))


def _on_public_films(context: Context) -> tuple[Tensor, Tensor]:
    """Logits and labels of a public minibatch."""
    assert context.public_batch is not None, "a method that trains on public films is given them"
    images, labels = context.public_batch()
    _, logits = context.model(images)
    return logits, labels


def soft_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean probability given to the true class."""
    return F.softmax(logits, dim=1).gather(1, labels[:, None]).mean()


CORRECTIONS: dict[str, Callable[[Context], Tensor | float] | None] = {
    "penalty": penalty,
    "proximal": proximal,
    "soft-accuracy": wrong,
    "cross-entropy": public_cross_entropy,
    "none": None,
}
WEIGHTINGS: dict[str, Weighting] = {
    "accuracy": by_score,
    "recall": by_recall,
    "learned": Searched(by_score),
    "by-films": by_films,
    "equal": equal,
}
