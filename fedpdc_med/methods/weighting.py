"""The weights of a round's updates; by number of films, with a note, if the scores allow no other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedpdc_med.methods.server import ServerRound, Weights


def by_films(r: ServerRound) -> Weights:
    """Equation 3: |D_i| / |D|."""
    total = sum(update.films for update in r.updates)
    return Weights([update.films / total for update in r.updates])


def by_score(r: ServerRound) -> Weights:
    """Equation 4: |p_i| / |sum of p|; where every score is zero the paper divides by zero."""
    return _or_by_films(r, proportional([update.score for update in r.updates]))


def by_recall(r: ServerRound) -> Weights:
    return _or_by_films(r, proportional([macro_recall(update.recall) for update in r.updates]))


def by_min_max(r: ServerRound) -> Weights:
    return _or_by_films(r, min_max([update.score for update in r.updates]))


@dataclass(frozen=True)
class BySharpenedScore:
    """By p^k: k = 1 is the paper's, a large k keeps only the best."""

    sharpness: float

    def __call__(self, r: ServerRound) -> Weights:
        return _or_by_films(r, sharpened([update.score for update in r.updates], self.sharpness))


def equal(r: ServerRound) -> Weights:
    return Weights([1 / len(r.updates)] * len(r.updates))


def _or_by_films(r: ServerRound, weights: list[float] | None) -> Weights:
    if weights is not None:
        return Weights(weights)
    found = "the same" if any(update.score for update in r.updates) else "zero"
    return Weights(by_films(r).values, f"every score is {found}: weights are by number of films")


def proportional(scores: Sequence[float]) -> list[float] | None:
    """None if their sum is zero."""
    total = abs(sum(scores))
    if total == 0:
        return None
    return [abs(score) / total for score in scores]


def sharpened(scores: Sequence[float], sharpness: float) -> list[float] | None:
    best = max(scores)
    if best == 0:
        return None
    return proportional([(score / best) ** sharpness for score in scores])  # by the best: no power vanishes


def min_max(scores: Sequence[float]) -> list[float] | None:
    """In proportion to (p - min) / (max - min); None if all are the same."""
    least, most = min(scores), max(scores)
    if least == most:
        return None
    return proportional([(score - least) / (most - least) for score in scores])


def macro_recall(recall: Mapping[str, float | None]) -> float:
    """The mean over classes that have films; equal to the accuracy if all classes have equally many."""
    known = [value for value in recall.values() if value is not None]
    return sum(known) / len(known)
