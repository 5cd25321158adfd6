"""Rounds as they are recorded, with real training in this process."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.engines.local import DeviceEngine
from fedpdc_med.federation.checkpoint import read_progress
from fedpdc_med.federation.coordinator import Coordinator, dissimilarity, sample_sites
from fedpdc_med.federation.data import initial_model
from fedpdc_med.federation.images import TrainingFilms
from fedpdc_med.federation.local_training import train_locally
from fedpdc_med.federation.privacy import epsilon_of
from fedpdc_med.federation.protocol import Update, seed_for
from fedpdc_med.methods.parts import Parts
from fedpdc_med.methods.server import State
from fedpdc_med.runs.directory import scratch_run
from fedpdc_med.runs.plan import LocalSettings, Privacy
from fedpdc_med.runs.schema import SiteRound


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


def averaged(states: list[State], weights: list[float]) -> State:
    """In float64, as a reader of equation 3 would write it."""
    return {
        name: sum((state[name].double() * w for state, w in zip(states, weights, strict=True)), torch.zeros(())).float()
        for name in states[0]
    }


def opened(federation, folder):
    run = scratch_run(folder / "run")
    engine = Recording(federation)
    return coordinator_of(federation, engine, run), engine, run


def coordinator_of(federation, engine, run):
    return Coordinator(federation.plan, federation.coordinator, engine, run)


def with_films(federation, change, weighting=None):
    """The same federation; every site's training films are changed, and perhaps what scores them."""
    sites = {name: dataclasses.replace(one, films=change(one.films)) for name, one in federation.sites.items()}
    data = federation.coordinator
    return dataclasses.replace(
        federation, sites=sites, coordinator=dataclasses.replace(data, weighting=weighting or data.weighting)
    )


def all_of_class(k):
    return lambda films: dataclasses.replace(films, labels=films.labels * 0 + k)


def without_correction(federation):
    return dataclasses.replace(federation, coordinator=dataclasses.replace(federation.coordinator, correction=None))


def test_a_round_is_recorded_as_the_design_says(tiny_federation, tmp_path):
    coordinator, _, run = opened(tiny_federation("fedpdc"), tmp_path)
    record = coordinator.run_round()
    assert run.rounds == [record]
    assert record.round == 1
    assert record.model_fields_set == {
        "round",
        "seconds",
        "bytes",
        "accuracy",
        "recall",
        "worst_recall",
        "score",
        "sites",
    }
    site = record.sites["site-2"]
    assert site.model_fields_set == {"status", "films", "loss", "score", "recall", "weight", "dissimilarity"}
    assert (site.status, site.films) == ("ok", 50)
    assert set(site.recall) == {"class-0", "class-1", "class-2"}
    scores = [one.score for one in record.sites.values()]
    assert [one.weight for one in record.sites.values()] == pytest.approx([s / sum(scores) for s in scores])
    assert sum(one.weight for one in record.sites.values()) == pytest.approx(1)


def test_a_site_with_privacy_sends_its_change_clipped_and_noised_and_says_what_that_is_worth(tiny_federation, tmp_path):
    privacy = Privacy(clip=0.01, noise=1e-9)
    plain = tiny_federation("fedavg")
    hidden = {name: dataclasses.replace(site, privacy=privacy, secret=b"own") for name, site in plain.sites.items()}
    coordinator, engine, run = opened(dataclasses.replace(plain, sites=hidden), tmp_path)
    start = load_file(run.checkpoint_file)
    record = coordinator.run_round()
    assert record.sites["site-0"].epsilon == pytest.approx(epsilon_of(privacy, 1))
    for state in engine.states.values():
        change = sum(float((state[name] - start[name]).double().square().sum()) for name in start)
        assert np.sqrt(change) == pytest.approx(0.01, rel=1e-3)


def test_the_global_model_is_the_weighted_average_of_the_updates(tiny_federation, tmp_path):
    coordinator, engine, run = opened(tiny_federation("fedavg"), tmp_path)
    coordinator.run_round()
    films = np.array([30, 40, 50, 60])  # worked out by hand from the fixture: 30 + 10 a site
    expected = averaged([engine.states[f"site-{i}"] for i in range(4)], list(films / 180))
    made = load_file(run.checkpoint_file)
    assert all(torch.equal(made[name], expected[name]) for name in expected)


@pytest.mark.parametrize(("method", "unscored"), [("fedpdc", 1.0), ("fedpdc-ce", 0.0)])
def test_scores_travel_with_the_next_round_and_absent_sites_have_none(tiny_federation, tmp_path, method, unscored):
    coordinator, engine, _ = opened(tiny_federation(method, sites=6, tau=0.5), tmp_path)
    records = [coordinator.run_round() for _ in range(6)]
    assert all(one.score == unscored for one in engine.assignments[0].values())
    repeated = fresh = 0
    for before, sent, record in zip(records, engine.assignments[1:], records[1:], strict=False):
        assert len(sent) == 3
        for name, one in sent.items():
            took_part = before.sites[name].status == "ok"
            assert one.score == (before.sites[name].score if took_part else unscored)
            repeated, fresh = repeated + took_part, fresh + (not took_part)
        absent = [s for s in record.sites.values() if s.status == "absent"]
        assert len(absent) == 3 and all(s.reason for s in absent)
    assert repeated and fresh  # both cases were seen


def test_dissimilarity_is_global_over_local_accuracy():
    assert dissimilarity(0.6, 0.5) == pytest.approx(1.2)
    assert dissimilarity(0.6, 0.0) is None


def test_recorded_dissimilarity_uses_the_global_accuracy_on_the_weighting_films(tiny_federation, tmp_path):
    coordinator, engine, run = opened(tiny_federation("fedpdc"), tmp_path)
    record = coordinator.run_round()
    probabilities = engine.predict(run.checkpoint_file, "weighting")()
    p = float((probabilities.argmax(1) == coordinator.data.weighting.labels.numpy()).mean())
    site = record.sites["site-1"]
    assert site.dissimilarity == pytest.approx(p / site.score)


def test_all_scores_zero_falls_back_to_film_counts_and_says_so(tiny_federation, tmp_path):
    federation = tiny_federation("fedpdc", sites=2, per_site={i: {"epochs": 30} for i in range(2)})
    weighting = all_of_class(1)(federation.coordinator.weighting)
    coordinator, _, _ = opened(with_films(federation, all_of_class(0), weighting), tmp_path)
    record = coordinator.run_round()
    assert [one.score for one in record.sites.values()] == [0, 0]
    assert [one.weight for one in record.sites.values()] == pytest.approx([30 / 70, 40 / 70])
    assert "every score is zero" in record.note


def test_equal_scores_give_abavg_no_weights_and_the_round_says_so(tiny_federation, tmp_path):
    federation = tiny_federation("abavg", sites=2, per_site={i: {"epochs": 30} for i in range(2)})
    coordinator, _, _ = opened(with_films(federation, all_of_class(0)), tmp_path)
    record = coordinator.run_round()
    first, second = (one.score for one in record.sites.values())
    assert first == second > 0
    assert [one.weight for one in record.sites.values()] == pytest.approx([30 / 70, 40 / 70])
    assert record.note == "every score is the same: weights are by number of films"


def test_learned_weights_are_recorded_and_lower_the_loss_on_the_weighting_films(tiny_federation, tmp_path):
    federation = tiny_federation("learned-weights", per_site={i: {"epochs": 10} for i in range(4)})
    coordinator, engine, run = opened(federation, tmp_path)
    sites = coordinator.run_round().sites.values()
    found, scores = [one.weight for one in sites], [one.score for one in sites]
    assert sum(found) == pytest.approx(1)
    states = [engine.states[f"site-{i}"] for i in range(4)]
    expected = averaged(states, found)
    assert all(torch.equal(value, expected[name]) for name, value in load_file(run.checkpoint_file).items())

    def loss(file):
        probabilities = torch.from_numpy(engine.predict(file, "weighting")())
        return torch.nn.functional.nll_loss(probabilities.log(), federation.coordinator.weighting.labels).item()

    by_accuracy = tmp_path / "by_accuracy.safetensors"
    save_file(averaged(states, [score / sum(scores) for score in scores]), by_accuracy)
    assert loss(run.checkpoint_file) < loss(by_accuracy)


def test_finetuning_at_the_coordinator_starts_from_the_average_and_changes_it(tiny_federation, tmp_path):
    federation = tiny_federation("server-finetune", settings={"server_epochs": 3})
    coordinator, engine, run = opened(federation, tmp_path)
    record = coordinator.run_round()
    average = averaged([engine.states[f"site-{i}"] for i in range(4)], [30 / 180, 40 / 180, 50 / 180, 60 / 180])
    model = initial_model(federation.plan).to(memory_format=torch.channels_last)
    model.load_state_dict(average)
    train_locally(
        model,
        TrainingFilms(federation.coordinator.correction, None, federation.plan.preparation),
        Parts(),
        LocalSettings(epochs=3, batch_size=8, learning_rate=0.01),
        round=1,
        rounds=1,
        score=1.0,
        seed=seed_for(0, "finetune", 1),
    )
    made, by_hand = load_file(run.checkpoint_file), model.state_dict()
    assert all(torch.equal(made[name], by_hand[name]) for name in made)
    assert not torch.equal(made["classify.weight"], average["classify.weight"])
    assert record.note is None and list(run.site_models.iterdir()) == []


def test_a_model_that_finetuning_spoils_is_not_used_and_the_round_says_so(tiny_federation, tmp_path):
    spoiling = {"server_learning_rate": 1e30, "server_epochs": 5}
    coordinator, engine, run = opened(tiny_federation("server-finetune", settings=spoiling), tmp_path)
    record = coordinator.run_round()
    assert "the fine-tuned model is not used" in record.note and "not finite" in record.note
    average = averaged([engine.states[f"site-{i}"] for i in range(4)], [30 / 180, 40 / 180, 50 / 180, 60 / 180])
    assert all(torch.equal(value, average[name]) for name, value in load_file(run.checkpoint_file).items())


def test_bytes_are_models_both_ways_and_the_public_films_once_a_site(tiny_federation, tmp_path):
    """Of 6 sites 3 are sampled a round; 12 public films of 16 x 16 pixels go to each site the first time."""
    coordinator, engine, _ = opened(tiny_federation("data-sharing", sites=6, tau=0.5), tmp_path)
    records = [coordinator.run_round() for _ in range(5)]
    model = sum(value.numel() * value.element_size() for value in engine.states["site-0"].values())
    seen = set()
    for record, sent in zip(records, engine.assignments, strict=True):
        new = set(sent) - seen
        assert record.bytes == 6 * model + len(new) * 12 * 16 * 16
        seen |= new
    assert len(seen) == 6


def test_bytes_leave_out_the_models_that_never_came_back(tiny_federation, tmp_path):
    coordinator, _, _ = opened(tiny_federation("fedavg", per_site={1: {"learning_rate": 1e30}}), tmp_path)
    one = sum(value.nbytes for value in coordinator.expected.values())
    assert coordinator.run_round().bytes == 7 * one  # four out, three usable ones back


def test_solo_sends_nothing(tiny_federation, tmp_path):
    coordinator, _, _ = opened(tiny_federation("solo"), tmp_path)
    assert coordinator.run_round().bytes == 0


def test_a_diverged_site_is_rejected_and_the_run_goes_on(tiny_federation, tmp_path):
    coordinator, _, run = opened(tiny_federation("fedpdc", per_site={1: {"learning_rate": 1e30}}), tmp_path)
    record = coordinator.run_round()
    assert record.sites["site-1"].status == "rejected"
    assert "not finite" in record.sites["site-1"].reason
    assert sum(one.weight or 0 for one in record.sites.values()) == pytest.approx(1)
    assert all(torch.isfinite(value).all() for value in load_file(run.checkpoint_file).values())


def test_a_site_whose_training_breaks_has_failed_and_the_run_goes_on(tiny_federation, tmp_path):
    federation = tiny_federation("fedavg")
    broken = dataclasses.replace(federation.sites["site-0"], indices=np.array([10_000]))
    coordinator, _, _ = opened(dataclasses.replace(federation, sites={**federation.sites, "site-0": broken}), tmp_path)
    record = coordinator.run_round()
    assert record.sites["site-0"].status == "failed"
    assert record.sites["site-0"].reason.startswith("IndexError")
    assert record.sites["site-1"].weight == pytest.approx(40 / 150)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda file: file.write_bytes(b"not a model"), "cannot be read"),
        (lambda file: save_file({"x": torch.zeros(1)}, file), "do not match the model"),
        (
            lambda file: save_file({name: tensor * 1e30 for name, tensor in load_file(file).items()}, file),
            "predictions are not finite",
        ),
    ],
)
def test_an_answer_that_is_no_model_is_rejected(tiny_federation, tmp_path, spoil, says):
    federation = tiny_federation("fedavg", sites=2)
    run = scratch_run(tmp_path / "run")

    class Spoiled(DeviceEngine):
        def train(self, assignments, answers):
            for answer in super().train(assignments, answers):
                if answer.site == "site-0":
                    spoil(answer.model)
                yield answer

    record = coordinator_of(federation, Spoiled(federation, "cpu"), run).run_round()
    assert record.sites["site-0"].status == "rejected"
    assert says in record.sites["site-0"].reason


@pytest.mark.parametrize("method", ["fedavg", "fedpdc-ce", "moon", "scaffold"])
def test_a_site_with_a_single_film_takes_part(tiny_federation, tmp_path, method):
    coordinator, _, _ = opened(tiny_federation(method, sites=2, films=1), tmp_path)
    for record in (coordinator.run_round(), coordinator.run_round()):
        assert [(site.status, site.films) for site in record.sites.values()] == [("ok", 1), ("ok", 11)]


def test_a_round_without_any_usable_update_fails_and_keeps_what_was_done(tiny_federation, tmp_path):
    federation = tiny_federation("fedavg", sites=2, per_site={0: {"learning_rate": 1e30}, 1: {"learning_rate": 1e30}})
    coordinator, _, run = opened(federation, tmp_path)
    with pytest.raises(WorkFailed, match=r"round 1: none of the .* sampled sites returned a usable update"):
        coordinator.run_round()
    assert read_progress(run).round == 0


def test_an_average_whose_answers_are_not_finite_is_never_kept(tiny_federation, tmp_path):
    coordinator, engine, run = opened(tiny_federation("fedavg", sites=2), tmp_path)
    coordinator.run_round()
    before = run.checkpoint_file.read_bytes()
    answers = engine.predict

    def spoiled(model, films):
        return (lambda: np.full((1, 3), np.nan)) if model == run.next_checkpoint_file else answers(model, films)

    engine.predict = spoiled
    with pytest.raises(WorkFailed, match="the predictions of the model after round 2 are not finite"):
        coordinator.run_round()
    assert (read_progress(run).round, run.checkpoint_file.read_bytes()) == (1, before)


def test_a_model_that_only_spoils_the_average_is_left_out_and_the_run_goes_on(tiny_federation, tmp_path):
    """All its numbers are finite, and so are its own answers; among the others' its size makes the average's not."""
    federation = tiny_federation("fedavg", sites=3)
    run = scratch_run(tmp_path / "run")

    class Hostile(DeviceEngine):
        def train(self, assignments, answers):
            for answer in super().train(assignments, answers):
                if answer.site == "site-1":
                    state = {name: torch.zeros_like(value) for name, value in load_file(answer.model).items()}
                    for name in state.keys() - {"encoder.conv1.weight"}:  # behind zeros they do nothing
                        if name.endswith("weight"):
                            state[name] += 1e37
                    save_file(state, answer.model)
                yield answer

    record = coordinator_of(federation, Hostile(federation, "cpu"), run).run_round()
    assert record.sites["site-1"].status == "rejected"
    assert "the averaged model's predictions are not finite" in record.sites["site-1"].reason
    weights = [record.sites[name].weight for name in ("site-0", "site-2")]
    assert weights == pytest.approx([30 / 80, 50 / 80])
    assert all(torch.isfinite(value).all() for value in load_file(run.checkpoint_file).values())


def test_moon_finds_its_previous_model_again_and_only_then(tiny_federation, tmp_path):
    coordinator, engine, run = opened(tiny_federation("moon", sites=2), tmp_path)
    coordinator.run_round()
    first = {name: value.clone() for name, value in engine.states["site-0"].items()}
    coordinator.run_round()
    assert engine.assignments[0]["site-0"].kept is None
    kept = engine.assignments[1]["site-0"].kept
    assert kept.name == "site-0.round1.safetensors" and not kept.exists()  # replaced by round 2's
    assert sorted(file.name for file in run.site_models.iterdir()) == [f"site-{i}.round2.safetensors" for i in (0, 1)]
    assert not torch.equal(first["classify.weight"], engine.states["site-0"]["classify.weight"])


def test_solo_sites_go_on_from_their_own_model_and_the_record_is_their_mean(tiny_federation, tmp_path):
    coordinator, engine, _ = opened(tiny_federation("solo", sites=3), tmp_path)
    coordinator.run_round()
    record = coordinator.run_round()
    assert engine.assignments[1]["site-1"].model.name == "site-1.round1.safetensors"
    labels = coordinator.data.evaluation["test"].films.labels.numpy()
    own, worst = [], []
    for i in range(3):
        right = (
            engine.predict(coordinator.run.site_models / f"site-{i}.round2.safetensors", "test")().argmax(1) == labels
        )
        own.append(right.mean())
        worst.append(min(right[labels == k].mean() for k in range(3)))
    assert record.accuracy == pytest.approx(np.mean(own))
    assert record.worst_recall == pytest.approx(np.mean(worst))
    assert set(coordinator.predictions()["model"]) == {"site-0", "site-1", "site-2"}


@pytest.mark.parametrize(
    "method", ["moon", "server-finetune", "learned-weights", "data-sharing", "scaffold", "fedavgm", "trimmed-mean"]
)
def test_a_run_resumed_from_any_round_ends_in_the_same_bits(tiny_federation, tmp_path, method):
    """MOON has the most to remember: scores, models kept by sites, the sampling of sites."""
    federation = tiny_federation(method, sites=5, tau=0.6)
    whole, _, run = opened(federation, tmp_path / "whole")
    for _ in range(4):
        whole.run_round()
    expected = run.checkpoint_file.read_bytes()
    for stop in range(1, 4):
        coordinator, _, part = opened(federation, tmp_path / f"stopped-after-{stop}")
        for _ in range(stop):
            coordinator.run_round()
        part.rounds_file.open("a", encoding="utf-8").write('{"round": 99, "torn')  # a line that a kill cut short
        (part.site_models / "site-0.round99.safetensors").write_bytes(b"an update of an open round")
        again = coordinator_of(federation, Recording(federation), part)
        for _ in range(4 - stop):
            again.run_round()
        assert part.checkpoint_file.read_bytes() == expected
        assert [record.round for record in part.rounds] == [1, 2, 3, 4]
        assert [record.bytes for record in part.rounds] == [record.bytes for record in run.rounds]


def test_rounds_can_be_read_while_a_run_is_under_way(tiny_federation, tmp_path):
    coordinator, _, run = opened(tiny_federation("fedavg"), tmp_path)
    coordinator.run_round()
    with run.rounds_file.open("a", encoding="utf-8") as file:
        file.write('{"round": 2, "sec')
    assert [record.round for record in run.rounds] == [1]
    assert json.loads(run.rounds_file.read_text(encoding="utf-8").splitlines()[0])["round"] == 1


def test_sampling_takes_tau_of_the_sites_and_at_least_one():
    sites = [f"s{i}" for i in range(10)]
    assert sample_sites(sites, 1.0, 0, 1) == sites
    assert len(sample_sites(sites, 0.3, 0, 1)) == 3
    assert len(sample_sites(sites, 0.29, 0, 1)) == 3  # 2.9 rounded, not cut
    assert len(sample_sites(sites, 0.01, 0, 1)) == 1
    assert sample_sites(sites, 0.3, 0, 1) == sample_sites(sites, 0.3, 0, 1)
    assert len({tuple(sample_sites(sites, 0.3, 0, t)) for t in range(1, 20)}) > 5


def test_a_federation_without_sites_is_refused_before_the_first_round(tiny_federation):
    federation = tiny_federation()
    nobody = dataclasses.replace(federation.coordinator, sites=())
    with pytest.raises(UserError, match="no site"):
        dataclasses.replace(federation, coordinator=nobody, sites={}).check()


def test_a_method_that_trains_on_the_reference_needs_a_correction_split(tiny_federation):
    federation = tiny_federation("fedpdc", settings={"correction": "soft-accuracy"})
    federation.check()
    finetuning = tiny_federation("server-finetune")
    with pytest.raises(UserError, match=r"method 'server-finetune'.*`correction` split"):
        without_correction(finetuning).check()
    with pytest.raises(UserError, match="`correction` split of the public reference set, which is empty"):
        without_correction(federation).check()


def test_a_site_with_privacy_refuses_a_method_that_sends_more_than_a_model(tiny_federation):
    federation = tiny_federation("scaffold")
    federation.check()
    private = dataclasses.replace(federation.sites["site-2"], privacy=Privacy(clip=1, noise=1), secret=b"own")
    with pytest.raises(UserError, match="'scaffold' sends more than a model, but the privacy of site 'site-2'"):
        dataclasses.replace(federation, sites={**federation.sites, "site-2": private}).check()


def test_scaffold_remembers_what_sites_keep_and_the_server_has_for_exactly_the_last_round(tiny_federation, tmp_path):
    coordinator, engine, run = opened(tiny_federation("scaffold", sites=2), tmp_path)
    first = coordinator.run_round()
    assert engine.assignments[0]["site-0"].broadcast is None
    second = coordinator.run_round()
    sent = engine.assignments[1]["site-0"]
    assert (sent.kept.name, sent.broadcast.name) == ("site-0.round1.kept.safetensors", "server_state1.safetensors")
    assert sorted(file.name for file in run.site_models.iterdir()) == [
        "server_state2.safetensors",
        "site-0.round2.kept.safetensors",
        "site-1.round2.kept.safetensors",
    ]
    model = sum(value.nbytes for value in coordinator.expected.values())  # all of it trained: no statistics, no counter
    assert [first.bytes, second.bytes] == [6 * model, 8 * model]  # c goes out from the second round on


def test_an_answer_without_what_its_method_sends_is_rejected(tiny_federation, tmp_path):
    federation = tiny_federation("scaffold", sites=2)
    run = scratch_run(tmp_path / "run")

    class Forgetful(DeviceEngine):
        def train(self, assignments, answers):
            for answer in super().train(assignments, answers):
                yield dataclasses.replace(answer, extra=None) if answer.site == "site-0" else answer

    record = coordinator_of(federation, Forgetful(federation, "cpu"), run).run_round()
    told = SiteRound(status="rejected", reason="entries do not match the model: 14 missing, 0 unknown")
    assert record.sites["site-0"] == told


def test_a_site_without_images_is_named(tiny_federation):
    federation = tiny_federation()
    empty = dataclasses.replace(federation.sites["site-2"], indices=np.array([], int))
    with pytest.raises(UserError, match="site 'site-2' has no images"):
        dataclasses.replace(federation, sites={**federation.sites, "site-2": empty}).check()
