"""FedPDC: Zhang and Zhang, Federated Learning for Public Dataset Correction, 2023 (arXiv 2302.12503)."""

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from fedpdc_med.methods.parts import Batch, Context, Method, Scored, squared_distance
from fedpdc_med.methods.weighting import by_films, by_score, macro_recall, sharpened


class FedPDC(Method):
    """Weights by accuracy on the reference (equation 4); the site's score corrects its next local training.

    The paper's own correction, `penalty`, adds a number that does not depend on the weights being trained, so its
    gradient is zero and every local step is FedAvg's. `proximal` and `reference` are two readings that do act,
    `cross-entropy` is `reference` with a loss that also acts where the site's model is sure of the wrong class.
    Weightings other than `accuracy` are not the paper's. On a balanced reference `recall` is the same as `accuracy`.
    `by-films`, `equal` and `corrects=all-alike` do without the scores, to show what they are worth.
    """

    name: ClassVar[str] = "fedpdc"
    correction: Literal["penalty", "proximal", "reference", "cross-entropy", "none"] = "penalty"
    strength: Annotated[float, Field(ge=0)] | Literal["adaptive", "by-size"] = 10.0
    corrects: Literal["by-score", "all-alike"] = "by-score"  # lambda times 1 - p_i, or times 1 at every site
    weighting: Literal["accuracy", "sharpened", "recall", "learned", "by-films", "equal"] = "accuracy"
    sharpness: float = Field(default=4.0, gt=0)  # k of `sharpened`: weights by p^k

    @property
    def trains_on_reference(self) -> bool:
        return self.correction in ("reference", "cross-entropy")

    @property
    def searches_weights(self) -> bool:
        return self.weighting == "learned"

    def strength_in(self, context: Context) -> float:
        """lambda: a constant, or equation 9's 0.5 * t, or such that every film of a step counts alike."""
        if self.strength == "adaptive":
            return 0.5 * context.round
        return context.reference_share if self.strength == "by-size" else self.strength

    def reference_share(self, ratio: float) -> float:
        """`by-size`: midway, in proportions, between data sharing (`ratio`) and a public film for every own one (1)."""
        return min(1.0, math.sqrt(ratio)) if self.strength == "by-size" else 1.0

    def local_loss(self, batch: Batch, context: Context) -> Tensor:
        """Equation 8: cross-entropy + lambda * (1 - p_i) * what the correction multiplies it by."""
        supervised = super().local_loss(batch, context)
        factor = self.strength_in(context) * (1 if self.corrects == "all-alike" else 1 - context.score)
        if self.correction == "none" or factor == 0:
            return supervised
        return supervised + factor * self._corrected(context)

    def _corrected(self, context: Context) -> Tensor | float:
        if self.correction == "proximal":  # the proof's reading: equation A.1 is FedProx's stationarity condition
            return squared_distance(context.model, context.global_model) / 2
        if self.trains_on_reference:
            assert context.reference_batch is not None, "the run gives a method that trains on the reference its films"
            images, labels = context.reference_batch()
            _, logits = context.model(images)
            if self.correction == "cross-entropy":
                return F.cross_entropy(logits, labels)
            return 1 - soft_accuracy(logits, labels)  # "the accuracy is added to the training", made differentiable
        return 1.0  # the paper to the letter (equation 6): a constant, without a gradient

    def weights(self, scored: Sequence[Scored]) -> list[float] | None:
        """Equation 4, of the accuracies unless `weighting` says otherwise; it is also where `learned` starts."""
        if self.weighting == "by-films":
            return by_films([update.films for update in scored])
        if self.weighting == "equal":
            return by_films([1] * len(scored))
        if self.weighting == "recall":
            return by_score([macro_recall(update.recall) for update in scored])
        accuracies = [update.score for update in scored]
        return sharpened(accuracies, self.sharpness) if self.weighting == "sharpened" else by_score(accuracies)


def soft_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean probability given to the true class."""
    return F.softmax(logits, dim=1).gather(1, labels[:, None]).mean()
