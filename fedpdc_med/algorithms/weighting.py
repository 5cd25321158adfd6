"""From numbers of films or scores to the weights of a round."""

from collections.abc import Sequence


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
