"""How the training images are partitioned between the sites; every rule uses every image exactly once.

A rule takes the labels and a generator and returns one array of indices per site. The indices are sorted, because the
order does not matter: training shuffles.
"""

import math
import re
from collections.abc import Sequence

import numpy as np

from fedpdc_med.common.errors import UserError

PARTITIONS = ("dirichlet", "iid", "labels-k", "quantity")
MOST_DRAWS = 500


def partition(
    name: str, labels: np.ndarray, sites: int, rng: np.random.Generator, *, beta: float = 0.1, least: int = 10
) -> list[np.ndarray]:
    """Partition by the named rule; `labels-k` is written with its number, as in `labels-2`."""
    if name == "dirichlet":
        return dirichlet(labels, sites, beta, rng, least)
    if name == "iid":
        return iid(labels, sites, rng)
    if name == "quantity":
        return quantity(labels, sites, beta, rng, least)
    if match := re.fullmatch(r"labels-([0-9]+)", name):
        return labels_k(labels, sites, int(match[1]), rng)
    raise UserError(f"unknown partition '{name}': choose one of {', '.join(PARTITIONS)} (k a number, as in labels-2)")


def dirichlet(
    labels: np.ndarray, sites: int, beta: float, rng: np.random.Generator, least: int = 10
) -> list[np.ndarray]:
    """Skew the classes by the rule of MOON's code, in which a site that has its equal share gets no more.

    For each class in order, the images are shuffled and cut in proportions from Dirichlet(beta), with those of full
    sites set to zero. The whole partition is drawn again until every site has `least` images.
    """
    _check(labels, sites, least, beta)
    images_of_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    even_share = len(labels) / sites
    owner = np.empty(len(labels), np.int64)
    for _ in range(MOST_DRAWS):
        sizes = np.zeros(sites, np.int64)
        for images in images_of_class:
            shuffled = rng.permutation(images)
            shares = np.zeros(sites)
            while shares.sum() == 0:  # with a tiny beta every share can go to full sites; at least one site is not full
                shares = rng.dirichlet(np.full(sites, beta)) * (sizes < even_share)
            counts = _counts(shares, len(images))
            owner[shuffled] = np.repeat(np.arange(sites), counts)
            sizes += counts
        if sizes.min() >= least:
            return _by_site(owner, sites)
    raise _too_skewed(sites, beta, least)


def quantity(
    labels: np.ndarray, sites: int, beta: float, rng: np.random.Generator, least: int = 10
) -> list[np.ndarray]:
    """Skew only the sizes, in proportions from Dirichlet(beta): every site is a random sample of all images."""
    _check(labels, sites, least, beta)
    for _ in range(MOST_DRAWS):
        counts = _counts(rng.dirichlet(np.full(sites, beta)), len(labels))
        if counts.min() >= least:
            return _by_site(rng.permutation(np.repeat(np.arange(sites), counts)), sites)
    raise _too_skewed(sites, beta, least)


def iid(labels: np.ndarray, sites: int, rng: np.random.Generator) -> list[np.ndarray]:
    """No skew: random samples whose sizes differ by one image at most."""
    _check(labels, sites, least=1)
    return _by_site(rng.permutation(np.arange(len(labels)) % sites), sites)


def labels_k(labels: np.ndarray, sites: int, k: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Give every site k classes, every class to equally many sites (or one more), and divide each class evenly."""
    _check(labels, sites, least=1)
    classes = np.unique(labels)
    if not 1 <= k <= len(classes):
        raise UserError(f"labels-{k}: the images have {len(classes)} classes, choose labels-1 to labels-{len(classes)}")
    if sites * k < len(classes):
        raise UserError(
            f"labels-{k}: {sites} sites with {k} classes each cannot cover {len(classes)} classes, choose "
            f"labels-{math.ceil(len(classes) / sites)} or at least {math.ceil(len(classes) / k)} sites"
        )
    holds = np.zeros((sites, len(classes)), bool)
    for site in range(sites):
        ties = rng.permutation(len(classes))
        least_used = ties[np.argsort(holds.sum(axis=0)[ties], kind="stable")]
        holds[site, least_used[:k]] = True
    owner = np.empty(len(labels), np.int64)
    for column, label in enumerate(classes):
        images = rng.permutation(np.flatnonzero(labels == label))
        owner[images] = np.resize(rng.permutation(np.flatnonzero(holds[:, column])), len(images))
    parts = _by_site(owner, sites)
    empty = sum(len(part) == 0 for part in parts)
    if empty:
        raise UserError(f"labels-{k} leaves {empty} of {sites} sites with no images: use fewer sites or a larger k")
    return parts


def hold_out(labels: np.ndarray, per_class: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Take a balanced public set out of the training images, before they are partitioned; returns (public, rest)."""
    if per_class < 0:
        raise UserError(f"public images per class is {per_class}: choose 0 or more")
    public = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        images = np.flatnonzero(labels == label)
        if len(images) <= per_class:
            raise UserError(
                f"class {label} has {len(images)} training images, too few to hold out {per_class} and train on the "
                f"rest: choose at most {len(images) - 1} public images per class"
            )
        public[rng.choice(images, per_class, replace=False)] = True
    return np.flatnonzero(public), np.flatnonzero(~public)


def halve(public: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Halve the public images of each class, (correction, weighting); an odd image of a class goes to weighting."""
    of_public = labels[public]
    correction = np.zeros(len(public), bool)
    for label in np.unique(of_public):
        positions = np.flatnonzero(of_public == label)
        correction[rng.choice(positions, len(positions) // 2, replace=False)] = True
    return np.sort(public[correction]), np.sort(public[~correction])


def class_counts(labels: np.ndarray, parts: Sequence[np.ndarray], classes: int) -> np.ndarray:
    """How many images of each class every site has, sites x classes."""
    return np.array([np.bincount(labels[part], minlength=classes) for part in parts])


def _counts(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers with the sum `total`, cut at the cumulative sum of the shares, as in MOON's code.

    The cuts are rounded down, so the last site often gets one image more than its share, even if that is zero.
    """
    cuts = (np.cumsum(shares / shares.sum()) * total).astype(np.int64)[:-1]
    return np.diff(cuts, prepend=0, append=total)


def _by_site(owner: np.ndarray, sites: int) -> list[np.ndarray]:
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=sites))[:-1])


def _check(labels: np.ndarray, sites: int, least: int, beta: float = 1.0) -> None:
    if sites < 1:
        raise UserError(f"the number of sites is {sites}: choose 1 or more")
    if not 0 < beta <= 1e6:
        raise UserError(f"beta is {beta}: choose a number above 0 (0.1 is strong skew, 100 is almost none)")
    if sites * least > len(labels):
        raise UserError(
            f"{len(labels):,} images are too few for {sites:,} sites with at least {least} each: "
            f"use at most {len(labels) // least:,} sites"
        )


def _too_skewed(sites: int, beta: float, least: int) -> UserError:
    return UserError(
        f"beta {beta} is too much skew for {sites:,} sites: in each of {MOST_DRAWS:,} draws some site had fewer than "
        f"{least} images: choose a larger beta or fewer sites"
    )
