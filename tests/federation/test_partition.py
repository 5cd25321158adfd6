"""Rules against hand-made examples, independent code with the same generator, and properties of any input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpdc_med.common.errors import UserError
from fedpdc_med.datasets import load
from fedpdc_med.federation.partition import class_counts, dirichlet, halve, hold_out, iid, labels_k, partition, quantity


def seeded(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def balanced(classes: int, images: int) -> np.ndarray:
    """`images` of each class, mixed."""
    return seeded(99).permutation(np.repeat(np.arange(classes), images))


def assert_each_image_once(parts: list[np.ndarray], images: int) -> None:
    assert np.sort(np.concatenate(parts)).tolist() == list(range(images))


# ---- dirichlet


def moons_rule(labels: np.ndarray, sites: int, beta: float, rng: np.random.Generator, least: int) -> list[list[int]]:
    """The rule once more, site by site and in plain lists."""
    full = len(labels) / sites
    while True:
        held: list[list[int]] = [[] for _ in range(sites)]
        for label in range(labels.max() + 1):
            images = np.array([i for i in range(len(labels)) if labels[i] == label])
            rng.shuffle(images)
            shares = rng.dirichlet([beta] * sites)
            for site in range(sites):
                if len(held[site]) >= full:
                    shares[site] = 0
            whole, running, start = shares.sum(), 0.0, 0
            for site in range(sites):
                running += shares[site] / whole
                end = len(images) if site == sites - 1 else int(running * len(images))
                held[site] += images[start:end].tolist()
                start = end
        if min(len(images) for images in held) >= least:
            return held


@pytest.mark.parametrize(("sites", "beta", "least"), [(10, 0.1, 10), (10, 0.3, 10), (5, 0.5, 40), (3, 100.0, 10)])
def test_dirichlet_deals_as_the_rule_written_out_in_plain_lists(sites: int, beta: float, least: int) -> None:
    labels = balanced(classes=8, images=100)

    for seed in range(5):
        ours = dirichlet(labels, sites, beta, seeded(seed), least)
        theirs = moons_rule(labels, sites, beta, seeded(seed), least)
        assert [part.tolist() for part in ours] == [sorted(images) for images in theirs]


def test_dirichlet_draws_again_until_every_site_holds_enough() -> None:
    labels = balanced(classes=4, images=50)

    first_draws = [dirichlet(labels, 5, 0.3, seeded(seed), least=0) for seed in range(20)]
    redrawn = [dirichlet(labels, 5, 0.3, seeded(seed), least=20) for seed in range(20)]

    assert min(len(part) for parts in first_draws for part in parts) < 20
    assert min(len(part) for parts in redrawn for part in parts) >= 20


def test_a_site_with_its_even_share_gets_nothing_of_the_next_class() -> None:
    labels = np.repeat([0, 1], 50)

    # At this beta a class goes to one site whole, so the second class must go to the other site.
    for seed in range(10):
        parts = dirichlet(labels, 2, 1e-9, seeded(seed))
        assert sorted(part.tolist() for part in parts) == [list(range(50)), list(range(50, 100))]


def test_a_small_beta_skews_the_classes_and_a_large_one_does_not() -> None:
    labels = balanced(classes=10, images=500)

    def largest_class_share(beta: float) -> float:
        counts = class_counts(labels, dirichlet(labels, 10, beta, seeded()), 10)
        return float(np.mean(counts.max(axis=1) / counts.sum(axis=1)))

    assert largest_class_share(0.1) > 0.5
    assert largest_class_share(1000.0) < 0.15


# ---- the other rules


def test_iid_sites_differ_by_one_image_at_most() -> None:
    parts = iid(balanced(classes=2, images=5), 4, seeded())

    assert sorted(len(part) for part in parts) == [2, 2, 3, 3]
    assert_each_image_once(parts, 10)


def test_iid_sites_have_all_classes_even_when_the_images_come_sorted_by_class() -> None:
    labels = np.repeat(np.arange(5), 4000)

    counts = class_counts(labels, iid(labels, 10, seeded()), 5)

    assert np.abs(counts / 2000 - 0.2).max() < 0.05


def test_labels_2_gives_ten_sites_two_halves_of_a_class_each() -> None:
    labels = balanced(classes=10, images=100)

    counts = class_counts(labels, labels_k(labels, 10, 2, seeded()), 10)

    assert [sorted(site[site > 0]) for site in counts] == [[50, 50]] * 10
    assert np.all((counts > 0).sum(axis=0) == 2)


def test_labels_k_uses_a_class_once_more_than_another_at_most() -> None:
    labels = balanced(classes=5, images=60)

    counts = class_counts(labels, labels_k(labels, 4, 3, seeded()), 5)  # 12 places for 5 classes

    assert np.all((counts > 0).sum(axis=1) == 3)
    assert sorted((counts > 0).sum(axis=0)) == [2, 2, 2, 3, 3]
    assert set(counts[counts > 0]) == {20, 30}


def test_labels_k_pairs_different_classes_from_seed_to_seed() -> None:
    labels = balanced(classes=10, images=20)

    def pairs(seed: int) -> list[tuple[int, ...]]:
        return [tuple(np.unique(labels[part])) for part in labels_k(labels, 10, 2, seeded(seed))]

    assert len({pair for seed in range(5) for pair in pairs(seed)}) > 20


def test_quantity_skews_the_sizes_and_leaves_the_classes_alone() -> None:
    labels = np.repeat(np.arange(5), 4000)  # sorted by class, as a data set may come

    parts = quantity(labels, 8, 0.5, seeded())

    sizes = np.array([len(part) for part in parts])
    assert sizes.max() > 5 * sizes.min()
    counts = class_counts(labels, parts, 5)[sizes > 1000]
    assert np.abs(counts / counts.sum(axis=1, keepdims=True) - 0.2).max() < 0.05


RULES = ["dirichlet", "iid", "labels-2", "quantity"]


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=60, max_size=200).filter(lambda labels: len(set(labels)) >= 2),
    sites=st.integers(3, 6),
    beta=st.floats(0.3, 50),
    seed=st.integers(0, 1000),
    rule=st.sampled_from(RULES),
)
def test_every_rule_deals_every_image_exactly_once(
    labels: list[int], sites: int, beta: float, seed: int, rule: str
) -> None:
    given_labels = np.array(labels)
    try:
        parts = partition(rule, given_labels, sites, seeded(seed), beta=beta, least=2)
    except UserError:
        # Rare classes: two classes a site can leave a site empty, and that is refused. No other rule may refuse these.
        assert rule == "labels-2"
        return

    assert len(parts) == sites
    assert min(len(part) for part in parts) >= 1
    assert_each_image_once(parts, len(given_labels))
    assert all(np.all(np.diff(part) > 0) for part in parts)


@pytest.mark.parametrize("rule", RULES)
def test_the_generator_alone_decides(rule: str) -> None:
    labels = balanced(classes=6, images=50)

    def deal(seed: int) -> list[list[int]]:
        return [part.tolist() for part in partition(rule, labels, 6, seeded(seed), beta=0.5)]

    assert deal(1) == deal(1)
    assert deal(1) != deal(2)


@pytest.mark.parametrize(("rule", "beta"), [("dirichlet", 0.5), ("iid", 1.0), ("labels-2", 1.0), ("quantity", 5.0)])
def test_a_thousand_sites_can_be_dealt_to(rule: str, beta: float) -> None:
    labels = balanced(classes=10, images=5000)

    parts = partition(rule, labels, 1000, seeded(), beta=beta)

    assert len(parts) == 1000
    assert_each_image_once(parts, 50_000)


# ---- what is refused


@pytest.mark.parametrize("name", ["dirchlet", "labels", "labels-", "labels-two", "labels-k", "labels-2-3", ""])
def test_an_unknown_rule_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(UserError, match=f"unknown partition '{name}'.*dirichlet, iid, labels-k, quantity"):
        partition(name, balanced(2, 50), 2, seeded())


@pytest.mark.parametrize(
    ("name", "sites", "beta", "expected"),
    [
        ("labels-11", 10, 1.0, "labels-11: the images have 10 classes, choose labels-1 to labels-10"),
        ("labels-0", 10, 1.0, "choose labels-1 to labels-10"),
        (
            "labels-2",
            4,
            1.0,
            "4 sites with 2 classes each cannot cover 10 classes, choose labels-3 or at least 5 sites",
        ),
        ("iid", 201, 1.0, "200 images are too few for 201 sites with at least 1 each: use at most 200 sites"),
        ("dirichlet", 21, 1.0, "200 images are too few for 21 sites with at least 10 each: use at most 20 sites"),
        ("dirichlet", 15, 0.01, "beta 0.01 is too much skew for 15 sites.*choose a larger beta or fewer sites"),
        ("quantity", 15, 0.01, "beta 0.01 is too much skew for 15 sites.*choose a larger beta or fewer sites"),
        ("iid", 0, 1.0, "the number of sites is 0: choose 1 or more"),
        ("dirichlet", 5, 0.0, "beta is 0.0: choose a number above 0"),
        ("quantity", 5, float("nan"), "beta is nan: choose a number above 0"),
        ("dirichlet", 5, float("inf"), "beta is inf: choose a number above 0"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_what_to_change(
    name: str, sites: int, beta: float, expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        partition(name, balanced(classes=10, images=20), sites, seeded(), beta=beta)


def test_labels_k_refuses_to_leave_a_site_with_no_images() -> None:
    labels = np.array([0] + [1] * 10)  # the only image of class 0 cannot serve two of five sites

    with pytest.raises(UserError, match="of 5 sites with no images: use fewer sites or a larger k"):
        labels_k(labels, 5, 1, seeded())


# ---- the public set


def test_the_public_set_is_balanced_and_apart_from_the_rest_and_from_the_test_images() -> None:
    digits = load("digits", None)

    public, rest = hold_out(digits.train_labels, 5, seeded())

    assert np.bincount(digits.train_labels[public]).tolist() == [5] * 10
    assert_each_image_once([public, rest], len(digits.train_labels))
    test_images = {image.tobytes() for image in digits.test_images}
    assert not any(image.tobytes() in test_images for image in digits.train_images[public])


def test_the_public_set_is_drawn_by_the_generator() -> None:
    labels = balanced(classes=3, images=40)

    assert hold_out(labels, 10, seeded(1))[0].tolist() == hold_out(labels, 10, seeded(1))[0].tolist()
    assert hold_out(labels, 10, seeded(1))[0].tolist() != hold_out(labels, 10, seeded(2))[0].tolist()


def test_no_public_images_leave_all_for_training() -> None:
    public, rest = hold_out(np.array([0, 1, 1]), 0, seeded())

    assert (public.tolist(), rest.tolist()) == ([], [0, 1, 2])
    assert np.array([5, 6, 7])[public].size == 0  # still usable as an index


@pytest.mark.parametrize("per_class", [2, 3])
def test_a_class_with_too_few_images_for_public_and_training_is_refused(per_class: int) -> None:
    with pytest.raises(UserError, match=r"class 1 has 2 training images.*choose at most 1 public images per class"):
        hold_out(np.array([0, 0, 0, 0, 1, 1]), per_class, seeded())


def test_a_negative_number_of_public_images_is_refused() -> None:
    with pytest.raises(UserError, match="public images per class is -1"):
        hold_out(np.array([0, 1]), -1, seeded())


def test_halves_are_balanced_and_the_odd_image_of_a_class_goes_to_weighting() -> None:
    labels = balanced(classes=4, images=30)
    public, _ = hold_out(labels, 5, seeded())

    correction, weighting = halve(public, labels, seeded())

    assert np.bincount(labels[correction]).tolist() == [2] * 4
    assert np.bincount(labels[weighting]).tolist() == [3] * 4
    assert sorted([*correction, *weighting]) == public.tolist()


def test_class_counts_has_a_row_a_site_and_a_column_for_a_class_nobody_holds() -> None:
    labels = np.array([0, 1, 1, 0, 0])

    assert class_counts(labels, [np.array([0, 1, 2]), np.array([3, 4])], 3).tolist() == [[1, 2, 0], [2, 0, 0]]
