"""From numbers of films or scores to the weights of a round; None where the scores give no ground for any."""

from collections.abc import Mapping, Sequence


def by_films(films: Sequence[int]) -> list[float]:
    """Equation 3: |D_i| / |D|."""
    total = sum(films)
    return [count / total for count in films]


def by_score(scores: Sequence[float]) -> list[float] | None:
    """Equation 4: |p_i| / |sum of p|; None when every score is zero, where the paper divides by zero."""
    total = abs(sum(scores))
    if total == 0:
        return None
    return [abs(score) / total for score in scores]


def sharpened(scores: Sequence[float], sharpness: float) -> list[float] | None:
    """Equation 4 of p^k: k = 1 is the paper's, a large k leaves only the best."""
    best = max(scores)
    if best == 0:
        return None
    return by_score([(score / best) ** sharpness for score in scores])  # by the best, so that no power vanishes


def min_max(scores: Sequence[float]) -> list[float] | None:
    """Equation 4 of (p - least) / (most - least); None when all are the same."""
    least, most = min(scores), max(scores)
    if least == most:
        return None
    return by_score([(score - least) / (most - least) for score in scores])


def macro_recall(recall: Mapping[str, float | None]) -> float:
    """The mean over classes that have films; the accuracy itself where every class has as many."""
    known = [value for value in recall.values() if value is not None]
    return sum(known) / len(known)
