"""A model's score on a labelled set of films: accuracy and recall per class."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Score:
    accuracy: float
    recall: dict[str, float | None]  # None: no films of that class

    @property
    def worst(self) -> float | None:
        return min((value for value in self.recall.values() if value is not None), default=None)


def score(labels: np.ndarray, probabilities: np.ndarray, classes: Sequence[str]) -> Score:
    right = probabilities.argmax(axis=1) == labels
    recall = {}
    for k, name in enumerate(classes):
        mine = right[labels == k]
        recall[name] = float(mine.mean()) if len(mine) else None
    return Score(float(right.mean()), recall)
