"""Differential privacy at a site: what is clipped, what is noised, what it is worth."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.federation.privacy import Releases, epsilon_of, noise_of, private, release_of
from fedpdc_med.runs.plan import Privacy

NO_NOISE = 1e-12


def model(*values):
    return {"weight": torch.tensor(values, dtype=torch.float32), "seen": torch.tensor(7)}


def test_a_long_change_is_clipped_to_length_and_keeps_its_direction():
    received, trained = model(1.0, 1.0), model(4.0, 5.0)  # a change of (3, 4), 5 long
    sent = private(trained, received, Privacy(clip=1.0, noise=NO_NOISE), np.random.default_rng(0))
    assert sent["weight"].tolist() == pytest.approx([1.6, 1.8])
    assert sent["seen"] == 7


def test_a_short_change_is_left_as_it_is():
    received, trained = model(0.0, 0.0), model(0.3, 0.4)
    sent = private(trained, received, Privacy(clip=1.0, noise=NO_NOISE), np.random.default_rng(0))
    assert sent["weight"].tolist() == pytest.approx([0.3, 0.4])


def test_the_length_is_taken_over_all_entries_together():
    received = {"a": torch.zeros(1), "b": torch.zeros(1)}
    trained = {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}
    sent = private(trained, received, Privacy(clip=2.5, noise=NO_NOISE), np.random.default_rng(0))
    assert (sent["a"].item(), sent["b"].item()) == pytest.approx((1.5, 2.0))


def test_the_noise_has_the_spread_that_was_asked_for():
    zeros = {"weight": torch.zeros(100_000)}
    sent = private(zeros, zeros, Privacy(clip=2.0, noise=0.5), np.random.default_rng(0))
    assert sent["weight"].std().item() == pytest.approx(1.0, rel=0.01)  # 0.5 clips of 2
    assert sent["weight"].mean().item() == pytest.approx(0.0, abs=0.02)


def test_epsilon_is_just_above_the_exact_value_of_the_gaussian_mechanism():
    """Balle and Wang 2018: T Gaussian releases are one, and its delta at a given epsilon has a closed form."""
    privacy, releases = Privacy(clip=1.0, noise=8.0, delta=1e-5), 10
    mu = math.sqrt(releases) / (privacy.noise / 2)  # two updates differ by two clips at most

    def delta_at(epsilon):
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)

    exact = brentq(lambda epsilon: delta_at(epsilon) - privacy.delta, 1e-6, 100)
    assert exact <= epsilon_of(privacy, releases) <= 1.2 * exact


def test_more_releases_give_more_away():
    privacy = Privacy(clip=1.0, noise=4.0)
    assert epsilon_of(privacy, 1) < epsilon_of(privacy, 2) < epsilon_of(privacy, 20)


def test_noise_is_the_sites_own_and_repeats_only_for_the_same_update():
    def draw(secret=b"mine", trained=(3.0, 4.0), received=(1.0, 2.0), noise=4.0, round=3):
        privacy = Privacy(clip=1.0, noise=noise)
        release = release_of(secret, model(*trained), model(*received), privacy, round)
        return noise_of(release).normal(size=4).tolist()

    assert draw() == draw()
    others = [
        draw(secret=b"another"),
        draw(trained=(3.0, 4.1)),  # one film more, or another method: the same noise would give away the difference
        draw(received=(1.0, 2.1)),
        draw(noise=5.0),
        draw(round=4),
    ]
    assert all(other != draw() for other in others)


def test_a_site_counts_each_different_update_once_whatever_round_it_was_called(tmp_path):
    sent = Releases(tmp_path / "site" / "releases.jsonl")
    for update, noise in ((b"first", 2.0), (b"second", 2.0), (b"second", 2.0), (b"third", 3.0)):
        sent.add(update, noise)
    assert Releases(sent.file).by_noise() == {2.0: 2, 3.0: 1}
    assert b"first" not in sent.file.read_bytes()  # it is what the noise is drawn from
    privacy = Privacy(clip=1.0, noise=2.0)
    # The third has more noise.
    assert epsilon_of(privacy, 2) < epsilon_of(privacy, sent.by_noise()) < epsilon_of(privacy, 3)


def test_a_record_of_updates_that_cannot_be_read_lets_nothing_out(tmp_path):
    (tmp_path / "releases.jsonl").write_text('{"release": "aa", "noise": 2.0}\n{"rel', encoding="utf-8")
    with pytest.raises(WorkFailed, match="corrupt"):
        Releases(tmp_path / "releases.jsonl").by_noise()
