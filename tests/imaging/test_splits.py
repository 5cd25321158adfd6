"""Splits by patient."""

import time
from collections import Counter

import numpy as np
import pytest

from fedpdc_med.imaging.splits import REFERENCE, TRAIN_TEST, split_by_group


def films(patients: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(patients), rng.integers(1, 5, patients))
    label_of = rng.choice(["normal", "pneumonia", "covid-19"], patients, p=[0.6, 0.3, 0.1])
    return list(label_of[groups]), groups


@pytest.mark.parametrize("shares", [TRAIN_TEST, REFERENCE])
def test_no_patient_is_in_two_splits_and_every_class_has_its_shares(shares):
    labels, groups = films(400)
    split = split_by_group(labels, groups, shares)
    assert all(len(set(split[groups == g])) == 1 for g in set(groups))
    for label in set(labels):
        found = Counter(split[np.array(labels) == label])
        for name, share in shares.items():
            assert found[name] / found.total() == pytest.approx(share, abs=0.05)


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    labels, groups = films(60)
    first, again, other = (split_by_group(labels, groups, TRAIN_TEST, seed) for seed in (0, 0, 1))
    assert (first == again).all() and (first != other).any()


def test_ten_patients_two_of_them_tested():
    split = split_by_group(["normal"] * 10, range(10), TRAIN_TEST)
    assert Counter(split) == {"train": 8, "test": 2}


@pytest.mark.parametrize(
    "labels, groups", [([], []), (["normal"], [0]), (["normal"] * 5, [7] * 5), (["a", "b"], [0, 1])]
)
def test_too_few_patients_to_split_all_train(labels, groups):
    assert list(split_by_group(labels, groups, TRAIN_TEST)) == ["train"] * len(labels)


def test_a_class_of_one_film_does_not_stop_the_split():
    split = split_by_group(["normal"] * 20 + ["tuberculosis"], range(21), TRAIN_TEST)
    assert 3 <= Counter(split)["test"] <= 6


def test_shares_that_do_not_add_up_are_refused():
    with pytest.raises(ValueError, match=r"add up to 0\.9"):
        split_by_group(["normal"], [0], {"train": 0.8, "test": 0.1})


def test_many_patients_are_split_in_no_time_and_as_evenly():
    rng = np.random.default_rng(0)
    labels = list(rng.choice(["normal", "covid-19"], 20_000, p=[0.9, 0.1]))
    began = time.process_time()
    split = split_by_group(labels, range(20_000), TRAIN_TEST)
    assert time.process_time() - began < 5
    tested = Counter(label for label, where in zip(labels, split, strict=True) if where == "test")
    assert tested["covid-19"] / labels.count("covid-19") == pytest.approx(0.2, abs=0.01)
