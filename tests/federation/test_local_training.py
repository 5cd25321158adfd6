"""Local training, above all: the paper's correction leaves every step bit-identical to FedAvg's."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedpdc_med.federation.images import Films, TrainingFilms
from fedpdc_med.federation.local_training import batches, frozen_copy, train_locally
from fedpdc_med.methods import make_method
from fedpdc_med.methods.parts import Parts
from fedpdc_med.models import build_model
from fedpdc_med.runs.plan import LocalSettings, Network, Preparation

RNG = np.random.default_rng(0)
PREPARATION = Preparation(mean=(127.0,), std=(64.0,), pad=2, flip=True)


def films(count, seed=0):
    rng = np.random.default_rng(seed)
    return Films.of(rng.integers(0, 256, (count, 1, 16, 16), dtype=np.uint8), rng.integers(0, 3, count))


SITE = TrainingFilms(films(50), None, PREPARATION)
PUBLIC = TrainingFilms(films(12, seed=1), None, PREPARATION)
NETWORK = Network(name="cnn", channels=1, size=16, classes=3)
OTHER = build_model(NETWORK, seed=5)


def trained(method, *, score=0.3, previous=None, t=2):
    model = build_model(NETWORK, seed=0)
    parts = method.parts()
    trained = train_locally(
        model,
        SITE,
        parts,
        LocalSettings(epochs=2, batch_size=8),
        round=t,
        rounds=4,
        score=score,
        seed=9,
        public=PUBLIC if parts.public.at_sites == "minibatch" else None,
        previous_model=previous,
    )
    return model.state_dict(), trained.loss


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("strength", [10, "adaptive"])
def test_the_papers_penalty_takes_fedavgs_steps_bit_for_bit(strength):
    fedavg, fedavg_loss = trained(make_method("fedavg"))
    penalty, penalty_loss = trained(make_method("fedpdc", correction="penalty", strength=strength))
    assert same(fedavg, penalty)
    added = 0.7 * (10 if strength == 10 else 0.5 * 2)
    assert penalty_loss == pytest.approx(fedavg_loss + added, rel=1e-4)  # it is in the loss, and nowhere else


@pytest.mark.parametrize("correction", ["proximal", "soft-accuracy", "cross-entropy"])
def test_the_other_corrections_do_act(correction):
    fedavg, _ = trained(make_method("fedavg"))
    corrected, _ = trained(make_method("fedpdc", correction=correction, strength=1))
    assert not same(fedavg, corrected)


def test_strength_by_size_takes_as_many_fewer_public_films(monkeypatch):
    sizes = []
    real = PUBLIC.batch
    monkeypatch.setattr(PUBLIC, "batch", lambda chosen, generator: sizes.append(len(chosen)) or real(chosen, generator))
    trained(make_method("fedpdc-ce", strength="by-size"))
    assert set(sizes) == {4}  # 12 public films beside 50: sqrt(0.24) = 0.49 of a minibatch of 8
    sizes.clear()
    trained(make_method("fedpdc-ce", strength=1))
    assert set(sizes) == {8}


def test_a_stronger_proximal_correction_stays_nearer_the_global_model():
    start = build_model(NETWORK, seed=0).state_dict()

    def distance(score):
        state, _ = trained(make_method("fedpdc", correction="proximal", strength=10), score=score)
        return sum((state[name] - start[name]).square().sum() for name in start)

    assert distance(score=0.1) < distance(score=0.9) < distance(score=1.0)


def test_moon_acts_from_a_sites_second_round():
    fedavg, _ = trained(make_method("fedavg"))
    assert same(fedavg, trained(make_method("moon"))[0])
    assert not same(fedavg, trained(make_method("moon"), previous=frozen_copy(OTHER))[0])


def test_fedprox_acts():
    assert not same(trained(make_method("fedavg"))[0], trained(make_method("fedprox", mu=1))[0])


def test_training_lowers_the_loss():
    model = build_model(NETWORK, seed=0)
    losses = [
        train_locally(
            model,
            SITE,
            Parts(),
            LocalSettings(epochs=20, batch_size=8),
            round=t,
            rounds=3,
            score=1.0,
            seed=t,
        ).loss
        for t in range(3)
    ]
    assert losses[-1] < losses[0]


def test_the_last_partial_batch_is_dropped_unless_it_is_the_only_one():
    generator = torch.Generator().manual_seed(0)
    assert [len(b) for b in batches(10, 4, generator)] == [4, 4]
    assert [len(b) for b in batches(3, 4, generator)] == [3]
    assert sorted(torch.cat(list(batches(8, 4, generator))).tolist()) == list(range(8))


class OneWeight(nn.Module):
    """Logits w * x and 0 for a film of one pixel x."""

    def __init__(self, w):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(w))

    def forward(self, images):
        x = images.flatten(1)
        return x, torch.cat([self.w * x, torch.zeros_like(x)], dim=1)


ONE_FILM = TrainingFilms(
    Films.of(np.full((1, 1, 1, 1), 2, np.uint8), np.array([0])), None, Preparation(mean=(0.0,), std=(1.0,))
)


def test_two_steps_of_sgd_by_hand():
    """The loss of label 0 is log(1 + e^(-2w)), with gradient -2 / (1 + e^(2w)); decay adds 0.2 w to it, and the second
    step keeps half of the first."""
    model = OneWeight(0.5)
    settings = LocalSettings(epochs=2, batch_size=4, learning_rate=0.1, momentum=0.5, weight_decay=0.2)
    trained = train_locally(model, ONE_FILM, Parts(), settings, round=1, rounds=1, score=1.0, seed=0)
    first = -2 / (1 + math.exp(1)) + 0.2 * 0.5
    w = 0.5 - 0.1 * first
    second = 0.5 * first - 2 / (1 + math.exp(2 * w)) + 0.2 * w
    assert trained.loss == pytest.approx(math.log(1 + math.exp(-2 * w)), rel=1e-6)  # the last epoch's, before its step
    assert model.w.item() == pytest.approx(w - 0.1 * second, rel=1e-6)


def test_a_method_can_change_the_learning_rate_by_round():
    def fading(t, rounds):
        return 1 - (t - 1) / rounds

    def step(t):
        model = OneWeight(0.5)
        settings = LocalSettings(epochs=1, learning_rate=0.1, weight_decay=0)
        train_locally(model, ONE_FILM, Parts(learning_rate=fading), settings, round=t, rounds=4, score=1.0, seed=0)
        return model.w.item() - 0.5

    assert step(1) == pytest.approx(0.1 * 2 / (1 + math.exp(1)), rel=1e-5)
    assert step(3) == pytest.approx(step(1) / 2, rel=1e-5)


def test_the_defaults_are_the_papers():
    """MOON's public code, which the paper's setting matches; mu and the temperature of its CIFAR-10 runs."""
    defaults = LocalSettings()
    assert (defaults.epochs, defaults.batch_size, defaults.learning_rate) == (10, 64, 0.01)
    assert (defaults.momentum, defaults.weight_decay) == (0.9, 1e-5)
    assert make_method("moon").model_dump() == {"mu": 5.0, "temperature": 0.5}
    assert make_method("fedprox").model_dump() == {"mu": 0.01}
