"""Server momentum by hand."""

import pytest
import torch

from fedpdc_med.methods import make_method

W, VARIANCE = "w", "norm.running_var"


def state(w, variance=1.0):
    return {W: torch.tensor([w]), VARIANCE: torch.tensor([variance])}


def step(server_round, aggregated, memory=None, **settings):
    r = server_round({"state": {}}, received=state(1.0), memory=memory, parameters=[W])
    return make_method("fedavgm", **settings).parts().server(r, aggregated)


def test_the_first_round_is_fedavgs(server_round):
    made = step(server_round, state(0.6, 2.0))
    assert made.state[W].item() == pytest.approx(0.6)
    assert made.memory[W].item() == pytest.approx(0.4)


def test_a_later_round_goes_on_in_the_direction_of_those_before(server_round):
    """v = 0.9 * 0.5 + (1 - 0.6) = 0.85; w = 1 - 2 * 0.85 = -0.7."""
    made = step(server_round, state(0.6), memory={W: torch.tensor([0.5])}, momentum=0.9, server_learning_rate=2)
    assert made.memory[W].item() == pytest.approx(0.85)
    assert made.state[W].item() == pytest.approx(-0.7)


def test_statistics_are_averaged_and_have_no_momentum(server_round):
    made = step(server_round, state(0.6, 0.1), memory={W: torch.tensor([0.5])})
    assert made.state[VARIANCE].item() == pytest.approx(0.1)
    assert set(made.memory) == {W}
