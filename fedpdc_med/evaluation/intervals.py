"""95% CIs of proportions, also when several films of one patient are not independent."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

Z = 1.959963984540054


def wilson(successes: ArrayLike, total: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval; `total` may be a fraction (an effective number of films), 0 gives NaN."""
    k, n = np.asarray(successes, dtype=float), np.asarray(total, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = k / n
        centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
        half = Z / (1 + Z**2 / n) * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    # At 0 and 1 the formula is exact on paper and off by a rounding error in floats.
    return np.where(k == 0, centre * 0, centre - half), np.where(k == n, centre * 0 + 1, centre + half)


def clopper_pearson(successes: ArrayLike, total: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The exact interval: never too narrow, usually too wide."""
    k, n = np.asarray(successes, dtype=float), np.asarray(total, dtype=float)
    with np.errstate(invalid="ignore"):
        low = np.where(k == 0, 0.0, beta.ppf(0.025, k, n - k + 1))
        high = np.where(k == n, 1.0, beta.ppf(0.975, k + 1, n - k))
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)


def effective_total(scores: np.ndarray, patients: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The effective number of independent films, for the question whether a score reaches each step.

    This is the number of films divided by the design effect, and at most the number of films. If all films agree, the
    design effect cannot be estimated, and the number of patients is used.
    """
    films = len(scores)
    order = np.lexsort((-scores, patients))
    starts = np.flatnonzero(np.diff(patients[order], prepend=-1))
    sizes = np.diff(starts, append=films)
    if len(starts) == films:
        return np.full(len(steps), float(films))
    # With h of a patient's n films at or above a step, the sum of (h - rate * n)^2 over patients takes the sums of h^2
    # and of n * h. Taken from the highest score down, a patient's r-th film adds 2r - 1 to the one and n to the other.
    rank = np.arange(films) - np.repeat(starts, sizes) + 1
    descending = np.argsort(-scores[order], kind="stable")
    squares = np.append(0, np.cumsum((2 * rank - 1)[descending]))
    products = np.append(0, np.cumsum(np.repeat(sizes, sizes)[descending]))
    reached = films - np.searchsorted(np.sort(scores), steps, side="left")
    rate = reached / films
    spread = squares[reached] - 2 * rate * products[reached] + rate**2 * (sizes**2).sum()
    spread *= len(starts) / max(len(starts) - 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.clip(films**2 * rate * (1 - rate) / spread, 1.0, films)
    return np.where((rate > 0) & (rate < 1) & (len(starts) > 1), worth, float(len(starts)))


def share_interval(hits: np.ndarray, patients: np.ndarray) -> tuple[float, float]:
    """Wilson's interval of a proportion of films, adjusted for several films of one patient."""
    worth = effective_total(hits.astype(float), patients, np.ones(1))[0]
    low, high = wilson(hits.sum() / max(len(hits), 1) * worth, worth)
    return float(low), float(high)


def mover(values: ArrayLike, lows: ArrayLike, highs: ArrayLike, weights: ArrayLike) -> tuple[float, float, float]:
    """A weighted sum of independent estimates, with an interval from theirs (MOVER: Newcombe; Zou and Donner)."""
    p, low, high, w = (np.asarray(a, dtype=float) for a in (values, lows, highs, weights))
    value = float((w * p).sum())
    down = np.where(w > 0, p - low, high - p) * w
    up = np.where(w > 0, high - p, p - low) * w
    return value, value - float(np.sqrt((down**2).sum())), value + float(np.sqrt((up**2).sum()))


def logit_interval(value: float, spread: float) -> tuple[float, float]:
    """An interval on the log-odds scale, which cannot leave 0 to 1; `spread` is the standard error of `value`."""
    odds = np.log(value / (1 - value))
    width = Z * spread / (value * (1 - value))
    return float(1 / (1 + np.exp(-(odds - width)))), float(1 / (1 + np.exp(-(odds + width))))
