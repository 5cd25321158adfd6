"""What a run will take, said before it begins."""

import re

import pytest

from fedpdc_med.engines import estimate
from fedpdc_med.federation.pooled import arranged


@pytest.mark.parametrize(
    ("workers", "tau", "seconds"),
    [
        (
            1,
            1.0,
            3 * 0.1 * (180 + 190 / 3),
        ),  # sites of 30, 40, 50 and 60 films; 30 weighting films 5 times, 40 test films
        (2, 1.0, 3 * 0.1 * (90 + 190 / 6)),
        (8, 1.0, 3 * 0.1 * (60 + 190 / 24)),  # not faster than the largest site
        (1, 0.5, 3 * 0.1 * (90 + 130 / 3)),
    ],
)
def test_time_and_disk_by_hand(tiny_federation, monkeypatch, workers, tau, seconds):
    monkeypatch.setattr(estimate, "_costs", lambda *_: (0.1, 1000))
    found = estimate.estimate(tiny_federation(tau=tau), 3, workers)
    assert found.seconds == pytest.approx(seconds)
    assert found.bytes == 7000  # a model of each site, and three of the coordinator


@pytest.mark.parametrize("method", ["fedpdc-ce", "moon", "scaffold", "data-sharing", "solo", "pooled"])
def test_the_time_of_a_film_is_measured_as_the_method_trains(tiny_federation, tmp_path, method):
    seconds, size = estimate._costs(arranged(tiny_federation(method)), tmp_path)
    assert 0 < seconds < 1 and size == (tmp_path / "start.safetensors").stat().st_size


@pytest.mark.parametrize(
    ("seconds", "runs", "says"),
    [
        (10, 1, ""),
        (30, 3, "3 runs of 15 rounds will take about 2 minutes with 2 worker processes, and 60 MB of disk in "),
        (61, 1, "15 rounds will take about 1 minute with 2 worker processes, and 20 MB of disk in "),
        (7200, 1, "15 rounds will take about 2.0 hours"),
    ],
)
def test_what_takes_more_than_a_minute_is_said_beforehand(monkeypatch, tmp_path, capsys, seconds, runs, says):
    monkeypatch.setattr(estimate, "estimate", lambda *_: estimate.Estimate(seconds, 20_000_000))
    estimate.say_beforehand(None, tmp_path, 15, 2, runs)
    said = capsys.readouterr().err
    assert says in said and bool(says) == bool(said)
    if says:
        assert re.search(r"\([\d,]+ GB free\)", said)


def test_a_site_that_cannot_train_is_left_to_the_round(tiny_federation, tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError

    monkeypatch.setattr(estimate, "_costs", fails)
    estimate.say_beforehand(tiny_federation(), tmp_path, 15, 2)
