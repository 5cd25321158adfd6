"""Update checks, and one state from many."""

import re
import weakref

import pytest
import torch

from fedpdc_med.methods.aggregation import problem_with, weighted_average


def state(value, count=0):
    return {
        "layer.weight": torch.tensor([value, 2 * value]),
        "norm.running_mean": torch.tensor([value / 2]),
        "norm.num_batches_tracked": torch.tensor(count),
    }


class Made:
    """An update whose state is made when it is read."""

    def __init__(self, make):
        self.state = make


def average(states, weights):
    return weighted_average([Made(lambda made=made: made) for made in states], weights)


def test_average_by_hand():
    """0.25 * 4 + 0.75 * 8 = 7; BatchNorm statistics alike; the counter is the first one's."""
    mean = average([state(4.0, 5), state(8.0, 9)], [0.25, 0.75])
    assert mean["layer.weight"].tolist() == [7.0, 14.0]
    assert mean["norm.running_mean"].tolist() == [3.5]
    assert mean["norm.num_batches_tracked"].item() == 5
    assert mean["layer.weight"].dtype == torch.float32


def test_the_average_holds_one_state_at_a_time():
    made, most = [], 0

    def read(i):
        nonlocal most
        most = max(most, sum(one() is not None for one in made))
        fresh = state(float(i))
        made.append(weakref.ref(fresh["layer.weight"]))
        return fresh

    mean = weighted_average([Made(lambda i=i: read(i)) for i in range(50)], [0.02] * 50)
    assert mean["layer.weight"][0].item() == pytest.approx(24.5)
    assert (len(made), most) == (50, 0)  # when the next is read, none of those before is left


def test_average_keeps_more_digits_than_a_float32_sum():
    """Ten thousand times 0.1 with weight 1e-4 is 0.1 to the last bit; a float32 running sum drifts."""
    mean = average([{"w": torch.tensor([0.1])}] * 10_000, [1e-4] * 10_000)
    assert mean["w"].item() == torch.tensor(0.1).item()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s.pop("layer.weight"), "1 missing, 0 unknown"),
        (lambda s: s.update(extra=torch.zeros(1)), "0 missing, 1 unknown"),
        (lambda s: s.update({"layer.weight": torch.zeros(3)}), r"layer.weight has shape \(3,\), not \(2,\)"),
        (lambda s: s.update({"layer.weight": torch.zeros(2, dtype=torch.float64)}), "has type torch.float64"),
        (lambda s: s["layer.weight"].fill_(float("nan")), "layer.weight is not finite"),
        (lambda s: s["norm.running_mean"].fill_(float("inf")), "norm.running_mean is not finite"),
    ],
)
def test_an_unusable_state_has_a_reason(change, says):
    answer = state(1.0)
    assert problem_with(answer, state(0.0)) is None
    change(answer)
    problem = problem_with(answer, state(0.0))
    assert problem is not None
    assert re.search(says, problem)
