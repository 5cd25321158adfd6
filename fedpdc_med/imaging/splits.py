"""Splits by patient: all films of one patient, and all near-duplicates, stay in the same split."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

TRAIN_TEST = {"train": 0.8, "test": 0.2}
REFERENCE = {"correction": 0.3, "weighting": 0.3, "holdout": 0.4}
MOST_FOLDS = 20


def split_by_group(
    labels: Sequence[str], groups: Sequence[int] | NDArray[np.int64], shares: Mapping[str, float], seed: int = 0
) -> NDArray[np.str_]:
    """The split of every film, with each class in about the given proportions and no group in two splits."""
    names = list(shares)
    if not np.isclose(sum(shares.values()), 1):
        raise ValueError(f"the shares of {', '.join(names)} add up to {sum(shares.values()):g}, not 1")
    split = np.full(len(labels), names[0], dtype=f"U{max(map(len, names))}")
    # The smallest number of folds that gives the proportions exactly, because small folds cannot be balanced well.
    exact = [Fraction(share).limit_denominator(MOST_FOLDS) for share in shares.values()]
    folds = min(lcm(*(share.denominator for share in exact)), MOST_FOLDS)
    # scikit-learn wants at least one class with as many films as there are folds.
    folds = min(folds, len(np.unique(groups)), max(Counter(labels).values(), default=0))
    if folds < 2:
        return split
    ends = np.rint(np.cumsum([float(share) for share in exact]) * folds)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
        bundles = _bundles(np.asarray(labels), np.asarray(groups), 2 * folds, seed)
        for fold, (_, films) in enumerate(splitter.split(np.zeros(len(labels)), list(labels), bundles)):
            split[films] = names[int(np.searchsorted(ends, fold, side="right"))]
    return split


def _bundles(labels: NDArray[np.str_], groups: NDArray[np.int64], most: int, seed: int) -> NDArray[np.int64]:
    """Groups with the same films of each class are interchangeable, so they are put into at most `most` bundles.

    StratifiedGroupKFold tries every group in every fold, which takes longer than reading small films.
    """
    _, group = np.unique(groups, return_inverse=True)
    _, label = np.unique(labels, return_inverse=True)
    counts = np.zeros((group.max() + 1, label.max() + 1), np.int64)
    np.add.at(counts, (group, label), 1)
    _, kind = np.unique(counts, axis=0, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(kind))
    order = order[np.argsort(kind[order], kind="stable")]
    sizes = np.bincount(kind)
    place = np.empty(len(kind), np.int64)
    place[order] = np.concatenate([np.arange(size) for size in sizes])
    return (kind * most + place % most)[group]
