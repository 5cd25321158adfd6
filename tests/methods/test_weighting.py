"""Weights worked out by hand."""

import pytest

from fedpdc_med.methods import Scored, make_method
from fedpdc_med.methods.weighting import by_films, by_score, macro_recall, min_max, sharpened


def test_films_and_scores():
    assert by_films([30, 10]) == [0.75, 0.25]
    assert by_score([0.2, 0.6]) == pytest.approx([0.25, 0.75])
    assert by_score([0.0, 0.0]) is None


def test_sharpened_scores_are_weighed_by_their_power():
    """0.2^2 : 0.4^2 : 0.4^2 is 1 : 4 : 4."""
    assert sharpened([0.2, 0.4, 0.4], 2) == pytest.approx([1 / 9, 4 / 9, 4 / 9])
    assert sharpened([0.2, 0.6], 1) == pytest.approx(by_score([0.2, 0.6]))
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


RARE = {"common": 0.5, "rare": 1.0}
COMMON = {"common": 0.75, "rare": 0.0}
SCORED = [Scored("a", 300, 0.2, RARE), Scored("b", 100, 0.6, COMMON)]


def test_abavg_weighs_by_min_max_normalised_accuracy():
    assert make_method("abavg").weights(SCORED) == [0.0, 1.0]
    assert make_method("abavg").weights([Scored("a", 3, 0.5), Scored("b", 1, 0.5)]) is None


@pytest.mark.parametrize(
    ("settings", "by_hand"),
    [
        ({}, [0.25, 0.75]),
        ({"weighting": "sharpened", "sharpness": 2}, [0.1, 0.9]),  # 0.04 : 0.36
        ({"weighting": "sharpened"}, [1 / 82, 81 / 82]),  # the default, the fourth power
        ({"weighting": "recall"}, [2 / 3, 1 / 3]),  # macro recalls 0.75 and 0.375
        ({"weighting": "learned"}, [0.25, 0.75]),  # where its search starts
    ],
)
def test_fedpdc_weightings(settings, by_hand):
    assert make_method("fedpdc", **settings).weights(SCORED) == pytest.approx(by_hand)


def test_only_learned_weights_must_see_all_models_at_once():
    assert make_method("learned-weights").searches_weights
    assert make_method("fedpdc", weighting="learned").searches_weights
    assert not make_method("fedpdc").searches_weights
    assert make_method("learned-weights").weights(SCORED) == pytest.approx([0.25, 0.75])


def test_the_data_sharing_and_finetuning_methods_say_where_public_films_are_trained_on():
    sharing, tuning, fedpdc = (make_method(name) for name in ("data-sharing", "server-finetune", "fedpdc"))
    assert (sharing.trains_on_reference, sharing.uses_correction) == (True, True)
    assert (tuning.trains_on_reference, tuning.uses_correction) == (False, True)
    assert (fedpdc.trains_on_reference, fedpdc.uses_correction) == (False, False)
