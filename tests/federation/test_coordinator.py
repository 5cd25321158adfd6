"""Rounds as they are recorded, with real training in this process."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fedpdc_med.engines.local import DeviceEngine
from fedpdc_med.errors import UserError, WorkFailed
from fedpdc_med.federation.aggregation import weighted_average
from fedpdc_med.federation.coordinator import Coordinator, dissimilarity, sample_sites
from fedpdc_med.federation.messages import Update
from fedpdc_med.runs import Run


class Recording(DeviceEngine):
    """The engine, with a note of what each site was assigned and what it answered."""

    def __init__(self, federation):
        super().__init__(federation, "cpu")
        self.assignments, self.states = [], {}

    def train(self, assignments, answers):
        self.assignments.append({one.site: one for one in assignments})
        for answer in super().train(assignments, answers):
            if isinstance(answer, Update):
                self.states[answer.site] = load_file(answer.model)
            yield answer


def opened(federation, folder):
    run = Run.create(folder / "run", {"kind": "test"})
    engine = Recording(federation)
    return Coordinator(federation, engine, run), engine, run


def test_a_round_is_recorded_as_the_design_says(tiny_federation, tmp_path):
    coordinator, _, run = opened(tiny_federation("fedpdc"), tmp_path)
    record = coordinator.run_round()
    assert run.rounds() == [record]
    assert record["round"] == 1
    assert set(record) == {"round", "seconds", "accuracy", "recall", "sites"}
    site = record["sites"]["site-2"]
    assert set(site) == {"status", "films", "loss", "score", "recall", "weight", "dissimilarity"}
    assert (site["status"], site["films"]) == ("ok", 50)
    assert set(site["recall"]) == {"class-0", "class-1", "class-2"}
    scores = [one["score"] for one in record["sites"].values()]
    assert [one["weight"] for one in record["sites"].values()] == pytest.approx([s / sum(scores) for s in scores])
    assert sum(one["weight"] for one in record["sites"].values()) == pytest.approx(1)


def test_the_global_model_is_the_weighted_average_of_the_updates(tiny_federation, tmp_path):
    coordinator, engine, run = opened(tiny_federation("fedavg"), tmp_path)
    coordinator.run_round()
    films = np.array([30, 40, 50, 60])  # worked out by hand from the fixture: 30 + 10 a site
    expected = weighted_average([engine.states[f"site-{i}"] for i in range(4)], list(films / 180))
    made = load_file(run.checkpoint_file)
    assert all(torch.equal(made[name], expected[name]) for name in expected)


def test_scores_travel_with_the_next_round_and_absent_sites_are_sent_one(tiny_federation, tmp_path):
    coordinator, engine, _ = opened(tiny_federation("fedpdc", sites=6, tau=0.5), tmp_path)
    records = [coordinator.run_round() for _ in range(6)]
    assert all(one.score == 1 for one in engine.assignments[0].values())
    repeated = fresh = 0
    for before, sent, record in zip(records, engine.assignments[1:], records[1:], strict=False):
        assert len(sent) == 3
        for name, one in sent.items():
            took_part = before["sites"][name]["status"] == "ok"
            assert one.score == (before["sites"][name]["score"] if took_part else 1.0)
            repeated, fresh = repeated + took_part, fresh + (not took_part)
        absent = [s for s in record["sites"].values() if s["status"] == "absent"]
        assert len(absent) == 3 and all(s["reason"] for s in absent)
    assert repeated and fresh  # both cases were seen


def test_dissimilarity_is_global_over_local_accuracy():
    assert dissimilarity(0.6, 0.5) == pytest.approx(1.2)
    assert dissimilarity(0.6, 0.0) is None


def test_recorded_dissimilarity_uses_the_global_accuracy_on_the_weighting_films(tiny_federation, tmp_path):
    coordinator, engine, run = opened(tiny_federation("fedpdc"), tmp_path)
    record = coordinator.run_round()
    probabilities = engine.predict(run.checkpoint_file, "weighting")()
    p = float((probabilities.argmax(1) == coordinator.federation.weighting.labels.numpy()).mean())
    site = record["sites"]["site-1"]
    assert site["dissimilarity"] == pytest.approx(p / site["score"])


def test_all_scores_zero_falls_back_to_film_counts_and_says_so(tiny_federation, tmp_path):
    federation = tiny_federation("fedpdc", sites=2, per_site={i: {"epochs": 30} for i in range(2)})
    all_class_0 = [dataclasses.replace(pool, labels=pool.labels * 0) for pool in federation.pools]
    all_class_1 = dataclasses.replace(federation.weighting, labels=federation.weighting.labels * 0 + 1)
    coordinator, _, _ = opened(dataclasses.replace(federation, pools=all_class_0, weighting=all_class_1), tmp_path)
    record = coordinator.run_round()
    assert [one["score"] for one in record["sites"].values()] == [0, 0]
    assert [one["weight"] for one in record["sites"].values()] == pytest.approx([30 / 70, 40 / 70])
    assert "every score is zero" in record["note"]


def test_a_diverged_site_is_rejected_and_the_run_goes_on(tiny_federation, tmp_path):
    coordinator, _, run = opened(tiny_federation("fedpdc", per_site={1: {"learning_rate": 1e30}}), tmp_path)
    record = coordinator.run_round()
    assert record["sites"]["site-1"]["status"] == "rejected"
    assert "not finite" in record["sites"]["site-1"]["reason"]
    assert sum(one.get("weight", 0) for one in record["sites"].values()) == pytest.approx(1)
    assert all(torch.isfinite(value).all() for value in load_file(run.checkpoint_file).values())


def test_a_site_whose_training_breaks_has_failed_and_the_run_goes_on(tiny_federation, tmp_path):
    federation = tiny_federation("fedavg")
    broken = dataclasses.replace(federation.sites["site-0"], indices=np.array([10_000]))
    coordinator, _, _ = opened(dataclasses.replace(federation, sites={**federation.sites, "site-0": broken}), tmp_path)
    record = coordinator.run_round()
    assert record["sites"]["site-0"]["status"] == "failed"
    assert record["sites"]["site-0"]["reason"].startswith("IndexError")
    assert record["sites"]["site-1"]["weight"] == pytest.approx(40 / 150)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda file: file.write_bytes(b"not a model"), "cannot be read"),
        (lambda file: save_file({"x": torch.zeros(1)}, file), "do not match the model"),
    ],
)
def test_an_answer_that_is_no_model_is_rejected(tiny_federation, tmp_path, spoil, says):
    federation = tiny_federation("fedavg", sites=2)
    run = Run.create(tmp_path / "run", {"kind": "test"})

    class Spoiled(DeviceEngine):
        def train(self, assignments, answers):
            for answer in super().train(assignments, answers):
                if answer.site == "site-0":
                    spoil(answer.model)
                yield answer

    record = Coordinator(federation, Spoiled(federation, "cpu"), run).run_round()
    assert record["sites"]["site-0"]["status"] == "rejected"
    assert says in record["sites"]["site-0"]["reason"]


def test_a_round_without_any_usable_update_fails_and_keeps_what_was_done(tiny_federation, tmp_path):
    federation = tiny_federation("fedavg", sites=2, per_site={0: {"learning_rate": 1e30}, 1: {"learning_rate": 1e30}})
    coordinator, _, run = opened(federation, tmp_path)
    with pytest.raises(WorkFailed, match="round 1 got no usable update"):
        coordinator.run_round()
    assert run.progress().round == 0


def test_moon_finds_its_previous_model_again_and_only_then(tiny_federation, tmp_path):
    coordinator, engine, run = opened(tiny_federation("moon", sites=2), tmp_path)
    coordinator.run_round()
    first = {name: value.clone() for name, value in engine.states["site-0"].items()}
    coordinator.run_round()
    assert engine.assignments[0]["site-0"].previous_model is None
    kept = engine.assignments[1]["site-0"].previous_model
    assert kept.name == "site-0.round1.safetensors" and not kept.exists()  # replaced by round 2's
    assert sorted(file.name for file in run.site_models.iterdir()) == [f"site-{i}.round2.safetensors" for i in (0, 1)]
    assert not torch.equal(first["classify.weight"], engine.states["site-0"]["classify.weight"])


def test_solo_sites_go_on_from_their_own_model_and_the_record_is_their_mean(tiny_federation, tmp_path):
    coordinator, engine, _ = opened(tiny_federation("solo", sites=3), tmp_path)
    coordinator.run_round()
    record = coordinator.run_round()
    assert engine.assignments[1]["site-1"].model.name == "site-1.round1.safetensors"
    labels = coordinator.federation.reported["test"].films.labels.numpy()
    own = []
    for i in range(3):
        file = coordinator.run.site_models / f"site-{i}.round2.safetensors"
        own.append((engine.predict(file, "test")().argmax(1) == labels).mean())
    assert record["accuracy"] == pytest.approx(np.mean(own))
    assert set(coordinator.predictions()["model"]) == {"site-0", "site-1", "site-2"}


def test_a_run_resumed_from_any_round_ends_in_the_same_bits(tiny_federation, tmp_path):
    """MOON has the most to remember: scores, models kept by sites, the sampling of sites."""
    federation = tiny_federation("moon", sites=5, tau=0.6)
    whole, _, run = opened(federation, tmp_path / "whole")
    for _ in range(4):
        whole.run_round()
    expected = run.checkpoint_file.read_bytes()
    for stop in range(1, 4):
        coordinator, _, part = opened(federation, tmp_path / f"stopped-after-{stop}")
        for _ in range(stop):
            coordinator.run_round()
        part.rounds_file.open("a").write('{"round": 99, "torn')  # a line that a kill cut short
        (part.site_models / "site-0.round99.safetensors").write_bytes(b"an update of an open round")
        again = Coordinator(federation, Recording(federation), part)
        for _ in range(4 - stop):
            again.run_round()
        assert part.checkpoint_file.read_bytes() == expected
        assert [record["round"] for record in part.rounds()] == [1, 2, 3, 4]


def test_rounds_can_be_read_while_a_run_is_under_way(tiny_federation, tmp_path):
    coordinator, _, run = opened(tiny_federation("fedavg"), tmp_path)
    coordinator.run_round()
    with run.rounds_file.open("a") as file:
        file.write('{"round": 2, "sec')
    assert [record["round"] for record in run.rounds()] == [1]
    assert json.loads(run.rounds_file.read_text().splitlines()[0])["round"] == 1


def test_sampling_takes_tau_of_the_sites_and_at_least_one():
    sites = [f"s{i}" for i in range(10)]
    assert sample_sites(sites, 1.0, 0, 1) == sites
    assert len(sample_sites(sites, 0.3, 0, 1)) == 3
    assert len(sample_sites(sites, 0.01, 0, 1)) == 1
    assert sample_sites(sites, 0.3, 0, 1) == sample_sites(sites, 0.3, 0, 1)
    assert len({tuple(sample_sites(sites, 0.3, 0, t)) for t in range(1, 20)}) > 5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tau": 0.0}, "tau = 0.0"),
        ({"tau": 1.5}, "tau = 1.5"),
        ({"sites": {}}, "no site"),
        ({"rounds": 0}, "at least one round"),
    ],
)
def test_what_would_fail_later_is_said_before_the_first_round(tiny_federation, change, says):
    with pytest.raises(UserError, match=says):
        dataclasses.replace(tiny_federation(), **change).check()


def test_a_method_that_trains_on_the_reference_needs_a_correction_split(tiny_federation):
    federation = tiny_federation("fedpdc", settings={"correction": "reference"})
    federation.check()
    with pytest.raises(UserError, match="`correction` split, which is empty"):
        dataclasses.replace(federation, correction=None).check()


def test_a_site_without_images_is_named(tiny_federation):
    federation = tiny_federation()
    empty = dataclasses.replace(federation.sites["site-2"], count=0)
    with pytest.raises(UserError, match="site 'site-2' has no images"):
        dataclasses.replace(federation, sites={**federation.sites, "site-2": empty}).check()
