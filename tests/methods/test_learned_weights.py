"""The search for aggregation weights, on models small enough to see through."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedpdc_med.methods.learned_weights import search_weights


class Normed(nn.Module):
    """A linear layer behind BatchNorm, so that there are statistics to average and a counter to copy."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.linear = nn.Linear(2, 2, bias=False)

    def forward(self, x):
        logits = self.linear(self.norm(x))
        return logits, logits


LABELS = torch.arange(200) % 2
IMAGES = F.one_hot(LABELS, 2).float()


def state(*rows, mean=0.0):
    made = Normed().state_dict()
    made["linear.weight"] = torch.tensor(rows)
    made["norm.running_mean"] = torch.full((2,), mean)
    return made


PERFECT = state([4.0, -4.0], [-4.0, 4.0])
NOISE = state([0.3, 0.1], [-0.2, 0.4])
WRONG = state([-4.0, 4.0], [4.0, -4.0])


def loss(states, weights):
    """Independent of the search: average by hand, load, evaluate."""
    model = Normed().eval()
    average = {
        name: sum(w * s[name] for w, s in zip(weights, states, strict=True)) if tensor.is_floating_point() else tensor
        for name, tensor in states[0].items()
    }
    model.load_state_dict(average)
    with torch.no_grad():
        return F.cross_entropy(model(IMAGES)[1], LABELS).item()


def search(states, start, seed=0):
    return search_weights(Normed(), states, start, IMAGES, LABELS, seed)


@pytest.mark.parametrize("other", [NOISE, WRONG])
def test_the_weight_goes_to_the_perfect_model(other):
    found = search([PERFECT, other], [0.5, 0.5])
    assert found[0] > 0.9
    assert sum(found) == pytest.approx(1)
    assert loss([PERFECT, other], found) < loss([PERFECT, other], [0.5, 0.5])


def test_a_model_that_starts_without_weight_can_still_gain_some():
    assert search([WRONG, PERFECT], [1.0, 0.0])[1] > 0.001


def test_the_start_is_kept_where_nothing_better_is_found():
    """Equal models: every average is the same, so no weights are better than the first."""
    assert search([PERFECT, PERFECT], [0.3, 0.7]) == [0.3, 0.7]


def test_batch_statistics_are_averaged_and_not_measured():
    """Only the running mean differs: one that pushes both inputs far to the side cancels nothing and must not win."""
    shifted = state([4.0, -4.0], [-4.0, 1.0], mean=5.0)
    found = search([shifted, PERFECT], [0.5, 0.5])
    assert loss([shifted, PERFECT], found) < loss([shifted, PERFECT], [0.5, 0.5])
    assert found[1] > 0.9


def test_the_search_leaves_the_models_as_they_were_and_is_repeatable():
    before = {name: tensor.clone() for name, tensor in NOISE.items()}
    assert search([PERFECT, NOISE], [0.5, 0.5]) == search([PERFECT, NOISE], [0.5, 0.5])
    assert all(torch.equal(before[name], NOISE[name]) for name in before)
