"""Weights worked out by hand."""

import pytest

from fedpdc_med.methods import make_method
from fedpdc_med.methods.weighting import macro_recall, min_max, proportional, sharpened


def test_scores_are_weighed_in_proportion():
    assert proportional([0.2, 0.6]) == pytest.approx([0.25, 0.75])
    assert proportional([0.0, 0.0]) is None


def test_sharpened_scores_are_weighed_by_their_power():
    """0.2^2 : 0.4^2 : 0.4^2 is 1 : 4 : 4."""
    assert sharpened([0.2, 0.4, 0.4], 2) == pytest.approx([1 / 9, 4 / 9, 4 / 9])
    assert sharpened([0.2, 0.6], 1) == pytest.approx([0.25, 0.75])
    assert sharpened([0.0, 0.0], 4) is None


def test_no_power_is_so_high_that_every_weight_vanishes():
    assert sharpened([0.1, 0.2], 10_000) == [0.0, 1.0]


def test_min_max_gives_the_worst_nothing():
    """(0.2, 0.3, 0.6) become (0, 0.25, 1), which add up to 1.25."""
    assert min_max([0.2, 0.3, 0.6]) == pytest.approx([0, 0.2, 0.8])


def test_min_max_of_equal_scores_gives_no_ground_for_weights():
    assert min_max([0.3, 0.3, 0.3]) is None
    assert min_max([0.3]) is None


def test_macro_recall_is_the_mean_over_classes_that_have_films():
    assert macro_recall({"a": 0.2, "b": None, "c": 0.6}) == pytest.approx(0.4)


SCORED = [
    {"films": 300, "score": 0.2, "recall": {"common": 0.5, "rare": 1.0}},
    {"films": 100, "score": 0.6, "recall": {"common": 0.75, "rare": 0.0}},
]


@pytest.mark.parametrize(
    ("method", "settings", "by_hand"),
    [
        ("fedavg", {}, [0.75, 0.25]),
        ("abavg", {}, [0.0, 1.0]),
        ("fedpdc", {}, [0.25, 0.75]),
        ("fedpdc", {"weighting": "sharpened", "sharpness": 2}, [0.1, 0.9]),  # 0.04 : 0.36
        ("fedpdc", {"weighting": "sharpened"}, [1 / 82, 81 / 82]),  # the default, the fourth power
        ("fedpdc", {"weighting": "recall"}, [2 / 3, 1 / 3]),  # macro recalls 0.75 and 0.375
        ("fedpdc", {"weighting": "by-films"}, [0.75, 0.25]),
        ("fedpdc", {"weighting": "equal"}, [0.5, 0.5]),
    ],
)
def test_weights_of_a_method(server_round, method, settings, by_hand):
    weights = make_method(method, **settings).parts().weighting(server_round(*SCORED))
    assert weights.values == pytest.approx(by_hand)
    assert weights.note == ""


@pytest.mark.parametrize(
    ("method", "score", "note"),
    [
        ("fedpdc", 0.0, "every score is zero: weights are by number of films"),
        ("abavg", 0.0, "every score is zero: weights are by number of films"),
        ("abavg", 0.5, "every score is the same: weights are by number of films"),
    ],
)
def test_scores_that_give_no_ground_for_weights_leave_them_to_the_films(server_round, method, score, note):
    weights = (
        make_method(method).parts().weighting(server_round({"films": 3, "score": score}, {"films": 1, "score": score}))
    )
    assert (weights.values, weights.note) == ([0.75, 0.25], note)


@pytest.mark.parametrize(("method", "settings"), [("learned-weights", {}), ("fedpdc", {"weighting": "learned"})])
def test_learned_weights_are_searched_from_the_scores_and_see_all_models_at_once(server_round, method, settings):
    asked = []
    r = server_round(*SCORED, t=7, run=lambda search: asked.append(search) or [0.4, 0.6])
    assert make_method(method, **settings).parts().weighting(r).values == [0.4, 0.6]
    (search,) = asked
    assert search.models == tuple(update.model for update in r.updates)
    assert search.start == pytest.approx([0.25, 0.75]) and search.round == 7


@pytest.mark.parametrize(
    ("method", "settings", "at_sites", "at_coordinator"),
    [
        ("data-sharing", {}, "joined", False),
        ("server-finetune", {}, "no", True),
        ("fedpdc", {}, "no", False),
        ("fedpdc", {"correction": "cross-entropy"}, "minibatch", False),
    ],
)
def test_a_method_says_where_public_films_are_trained_on(method, settings, at_sites, at_coordinator):
    public = make_method(method, **settings).parts().public
    assert (public.at_sites, public.at_coordinator) == (at_sites, at_coordinator)
    assert public.used == (at_sites != "no" or at_coordinator)
