"""What a labelled set of films says of a model: accuracy and recall per class."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedpdc_med.federation.images import Films, Preparation


@dataclass(frozen=True)
class Score:
    accuracy: float
    recall: dict[str, float | None]  # None: no film of that class

    @property
    def worst(self) -> float | None:
        return min((value for value in self.recall.values() if value is not None), default=None)


@torch.inference_mode()
def predict(
    model: nn.Module, films: Films, preparation: Preparation, start: int, stop: int, step: int = 500
) -> np.ndarray:
    """Probabilities, float32 (films, classes), of the films at start:stop."""
    model.eval()
    parts = []
    for at in range(start, stop, step):
        _, logits = model(preparation.normalise(films.images[at : min(at + step, stop)]))
        parts.append(torch.softmax(logits, dim=1))
    return torch.cat(parts).cpu().numpy()


def score(labels: np.ndarray, probabilities: np.ndarray, classes: Sequence[str]) -> Score:
    right = probabilities.argmax(axis=1) == labels
    recall = {}
    for k, name in enumerate(classes):
        mine = right[labels == k]
        recall[name] = float(mine.mean()) if len(mine) else None
    return Score(float(right.mean()), recall)
