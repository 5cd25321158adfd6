"""Median and trimmed mean by hand."""

import pytest
import torch

from fedpdc_med.methods import make_method


def made(server_round, method, values, **settings):
    states = [{"w": torch.tensor([float(value), -float(value)]), "count": torch.tensor(int(value))} for value in values]
    r, parts = server_round(*[{"state": state} for state in states]), make_method(method, **settings).parts()
    weights = parts.weighting(r).values
    assert weights == [1 / len(values)] * len(values)
    return parts.aggregate(r.updates, weights)


@pytest.mark.parametrize(("values", "by_hand"), [([1, 100, 2], 2), ([1, 100, 2, 4], 3), ([5], 5)])
def test_median(server_round, values, by_hand):
    state = made(server_round, "median", values)
    assert state["w"].tolist() == [by_hand, -by_hand]
    assert (state["w"].dtype, state["count"].item()) == (torch.float32, values[0])


@pytest.mark.parametrize(
    ("share", "by_hand"),
    [(0.2, 5.0), (0.39, 5.0), (0.4, 4.0), (0, 23.2)],  # without 1 and 100; without one each; without two each; of all
)
def test_trimmed_mean(server_round, share, by_hand):
    state = made(server_round, "trimmed-mean", [100, 2, 9, 1, 4], share=share)
    assert state["w"].tolist() == pytest.approx([by_hand, -by_hand])


def test_a_share_that_comes_out_just_below_a_whole_number_of_sites_is_that_number(server_round):
    """0.29 * 100 is 28.999999999999996 in floating point; without 29 at each end no zero is left."""
    assert made(server_round, "trimmed-mean", [0] * 29 + [1] * 71, share=0.29)["w"][0].item() == 1
