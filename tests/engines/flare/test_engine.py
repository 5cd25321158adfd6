"""When a round closes and who is asked again, with hospitals that train in this process as messages arrive."""

import math
import time
from dataclasses import replace

import pytest
import torch
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedpdc_med import __version__
from fedpdc_med.common.errors import UserError
from fedpdc_med.engines.flare.client import Hospital
from fedpdc_med.engines.flare.controller import reply_of
from fedpdc_med.engines.flare.coordinator_run import data_for, new_name, start_run
from fedpdc_med.engines.flare.engine import FlareEngine, Reply
from fedpdc_med.engines.flare.executor import SiteTrainer
from fedpdc_med.engines.flare.messages import TRAIN, BadMessage, packed, read_answer, unpacked
from fedpdc_med.engines.flare.policy import PLAN, OnlyModelAndNumbers
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.federation.privacy import PrivacySpent, epsilon_of
from fedpdc_med.hospitals import HospitalSite
from fedpdc_med.hospitals.build import plan_for
from fedpdc_med.methods import make_method
from fedpdc_med.runs.plan import FilmProcessing, MethodConfig, Privacy

SITE_FILE = """from fedpdc_med.hospitals import HospitalSite, Privacy
SITE = HospitalSite(name="north", films="{films}", privacy={privacy})
"""


class OneRoom:
    """A transport in one process; sites in `silent` never answer."""

    def __init__(self, hospitals):
        self.hospitals, self.replies, self.sent = hospitals, [], []
        self.silent, self.heard = set(), {}

    def send(self, site, message, seconds):
        self.sent.append((message["round"], site, message))
        if site not in self.silent:
            hospital = self.hospitals[site]
            if isinstance(hospital, Hospital):
                self.replies.append(Reply(site, message["round"], hospital.train(message)))
            else:
                self.replies.append(reply_of(site, message["round"], hospital.reply(message), hospital.plan))

    def next_reply(self, seconds):
        return self.replies.pop(0) if self.replies else None

    def cancel(self, site): ...

    def last_heard(self, site):
        return self.heard.get(site, -math.inf)


@pytest.fixture
def started(sources, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path))
    (tmp_path / "reference").symlink_to(sources.reference.store.folder)

    def start(method="fedavg", min_responses=None, **settings):
        plan = plan_for(make_method(method, **settings), sources.reference, rounds=3, model="cnn", run=new_name())
        run = start_run(tmp_path / "run", plan, dict.fromkeys(sources.stores, ""), sources.reference, False)
        hospitals = {site.name: Hospital(plan, site, sources.stores[site.name]) for site in sites_of(sources)}
        room = OneRoom(hospitals)
        data = data_for(run.config, plan, hospitals)
        engine = FlareEngine(plan, data, room, deadline=60, min_responses=min_responses, device="cpu")
        return Coordinator(plan, data, engine, run), engine, room

    return start


def sites_of(sources):
    return [HospitalSite(name=name, films=name) for name in sources.stores]


def statuses(record):
    return {name: site.status for name, site in record.sites.items()}


def test_a_round_closes_with_k_of_n_sites(started):
    coordinator, _, _ = started(min_responses=2)
    record = coordinator.run_round()
    assert sorted(statuses(record).values()) == ["failed", "ok", "ok"]
    (left_out,) = [site.reason for site in record.sites.values() if site.status == "failed"]
    assert left_out == "the round closed with the first 2 of 3 sites"


def test_a_site_that_did_not_answer_is_asked_again_only_when_it_is_back(started):
    coordinator, _, room = started()
    room.silent = {"west"}
    assert statuses(coordinator.run_round())["west"] == "failed"
    assert "still away" in coordinator.run_round().sites["west"].reason
    assert [(t, site) for t, site, _ in room.sent if site == "west"] == [(1, "west")]
    room.silent, room.heard = set(), {"west": time.monotonic()}  # it asks for work again
    assert statuses(coordinator.run_round())["west"] == "ok"


def test_a_site_that_is_not_there_at_the_start_costs_no_time(started):
    coordinator, engine, room = started()
    engine.missing(["south"])
    record = coordinator.run_round()
    assert "not connected" in record.sites["south"].reason
    assert "south" not in [site for _, site, _ in room.sent]


def test_an_answer_that_comes_as_its_round_closes_is_not_taken_for_one_of_the_next(started):
    """All three answers are there when the second of them closes the round."""
    coordinator, _, room = started(min_responses=2)
    assert statuses(coordinator.run_round())["west"] == "failed"
    assert [(one.site, one.round) for one in room.replies] == [("west", 1)]
    room.heard = {"west": time.monotonic()}  # done, it asks for work again
    room.silent = {"south"}
    assert statuses(coordinator.run_round()) == {"north": "ok", "south": "failed", "west": "ok"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"site": "south"}, "another site's name"),
        ({"round": 2}, "for round 2"),
        ({"numbers": {"films": 0, "loss": 0.5}}, "no film"),
        ({"numbers": {"films": -7, "loss": 0.5}}, "not a count"),
        ({"numbers": {"films": 10**9, "loss": 0.5}}, "too large"),
        ({"numbers": {"films": 12, "loss": math.nan}}, "not finite"),
    ],
)
def test_an_answer_that_cannot_be_is_rejected_and_the_round_goes_on(started, change, says):
    """Whatever its own policy let pass: the coordinator does not rely on it."""
    coordinator, _, room = started()
    north = room.hospitals["north"]
    north.train = lambda message: {**Hospital.train(north, message), **change}
    record = coordinator.run_round()
    assert statuses(record) == {"north": "rejected", "south": "ok", "west": "ok"}
    assert says in record.sites["north"].reason


def test_correction_films_go_out_once_and_only_where_the_method_trains_on_them(started):
    coordinator, _, room = started("fedpdc", correction="soft-accuracy")
    coordinator.run_round(), coordinator.run_round()
    carried = {(t, site): message["correction"] is not None for t, site, message in room.sent}
    assert [carried[1, site] for site in ("north", "south", "west")] == [True] * 3
    assert [carried[2, site] for site in ("north", "south", "west")] == [False] * 3


def test_a_site_is_not_told_how_the_others_scored(started):
    coordinator, _, room = started()
    coordinator.run_round(), coordinator.run_round()
    assert b"scores" in coordinator.run.checkpoint_file.read_bytes()
    assert all(b"scores" not in message["model"] and b"south" not in message["model"] for *_, message in room.sent)


def test_a_hospital_keeps_its_own_models_of_two_rounds(started, tmp_path):
    coordinator, _, room = started("moon")
    for _ in range(3):
        coordinator.run_round()
    (folder,) = (tmp_path / "federation" / "north").iterdir()
    assert {file.name for file in folder.glob("round*")} == {"round2.safetensors", "round3.safetensors"}
    assert [message["own_round"] for t, site, message in room.sent if site == "north"] == [0, 1, 2]


def test_a_new_hospital_joins_at_the_next_job_from_the_last_checkpoint(started):
    coordinator, engine, room = started()
    plan, everyone, run = coordinator.plan, coordinator.data, coordinator.run
    first = replace(everyone, sites=("north", "south"))
    of_two = FlareEngine(plan, first, room, deadline=60, min_responses=None, device="cpu")
    assert set(Coordinator(plan, first, of_two, run).run_round().sites) == {"north", "south"}
    next_job = Coordinator(plan, everyone, engine, run)
    record = next_job.run_round()
    assert (record.round, statuses(record)["west"]) == (2, "ok")
    (assigned,) = [message for _, site, message in room.sent if site == "west"]
    assert assigned["score"] == 1.0  # it took no part in the round before


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedavg", {}),
        ("fedpdc", {"correction": "penalty"}),
        ("fedpdc", {"correction": "proximal"}),
        ("fedpdc", {"correction": "soft-accuracy", "strength": 1}),
        ("fedpdc", {"correction": "none"}),
        ("fedpdc-ce", {}),
        ("moon", {}),
        ("data-sharing", {"copies": 2}),
        ("server-finetune", {}),
        ("learned-weights", {}),
        ("scaffold", {}),
        ("fedavgm", {}),
        ("median", {}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_every_method_that_shares_a_model_ends_as_it_does_on_one_machine(
    started, sources, tmp_path, undisturbed, method, settings
):
    coordinator, engine, _ = started(method, **settings)
    apart = [coordinator.run_round() for _ in range(3)]
    coordinator.finish()
    plan = coordinator.plan
    together = undisturbed(sites_of(sources), sources, plan, tmp_path / "together")
    assert coordinator.run.model_file.read_bytes() == together.model_file.read_bytes()
    for there, here in zip(apart, together.rounds, strict=True):
        assert (there.accuracy, there.sites, there.note) == (here.accuracy, here.sites, here.note)
    for name, counts in engine.counts.items():
        labels = sources.stores[name].manifest.query("split == 'train'")["label"]
        assert counts == {label: int((labels == label).sum()) for label in plan.classes}


def test_what_a_method_sends_beside_the_model_leaves_only_if_it_is_like_the_model(started):
    """SCAFFOLD's control variate: as large as what is trained, and of no other method."""
    coordinator, _, room = started("scaffold")
    coordinator.run_round()
    plan, message = coordinator.plan, room.sent[0][2]
    answer = room.hospitals["north"].train({**message, "round": 2})

    def left(content, plan):
        shareable, context = Shareable(), FLContext()
        shareable.update(content)
        context.set_prop(PLAN, plan, private=True, sticky=False)
        return OnlyModelAndNumbers(list(plan.classes)).process(shareable, context)

    assert unpacked(left(answer, plan)["extra"]).keys() == unpacked(answer["extra"]).keys()
    films = packed({"films": torch.zeros(3)})
    for content, of in (
        ({**answer, "extra": films}, plan),
        ({**answer, "extra": None}, plan),
        (answer, plan.model_copy(update={"method": MethodConfig(name="fedavg")})),
    ):
        with pytest.raises(BadMessage):
            left(content, of)


@pytest.mark.parametrize("method", ["solo", "pooled", "reference-only"])
def test_methods_that_share_no_model_are_refused(started, method):
    with pytest.raises(UserError, match="fedpdc simulate"):
        started(method)


def test_a_site_that_hides_its_updates_says_what_they_give_away(started):
    coordinator, _, room = started()
    privacy = Privacy(clip=1.0, noise=2.0)
    north = room.hospitals["north"]
    room.hospitals["north"] = Hospital(north.plan, north.site.model_copy(update={"privacy": privacy}), north.store)
    first, second = coordinator.run_round(), coordinator.run_round()
    assert first.sites["north"].epsilon == epsilon_of(privacy, 1)
    assert second.sites["north"].epsilon == epsilon_of(privacy, 2)
    assert second.sites["south"].epsilon is None


def test_a_coordinator_that_calls_every_round_the_first_does_not_hide_what_leaves(started):
    """The site counts what it sends itself, over runs too, and stops at its own limit."""
    coordinator, _, room = started()
    coordinator.run_round()
    message, north = room.sent[0][2], room.hospitals["north"]
    free = Privacy(clip=1.0, noise=2.0)
    privacy = free.model_copy(update={"limit": epsilon_of(free, 3)})
    site = north.site.model_copy(update={"privacy": privacy})
    epsilons = []
    for run in ("a" * 16, "b" * 16, "c" * 16):
        hospital = Hospital(north.plan.model_copy(update={"run": run}), site, north.store)
        changed = {name: tensor + len(epsilons) for name, tensor in unpacked(message["model"]).items()}
        epsilons.append(hospital.train({**message, "round": 1, "model": packed(changed)})["numbers"]["epsilon"])
    assert epsilons == [epsilon_of(free, 1), epsilon_of(free, 2), epsilon_of(free, 3)]
    with pytest.raises(PrivacySpent, match="limit"):
        hospital.train({**message, "round": 1})


@pytest.mark.parametrize(
    ("code", "passed"), [("privacy-spent", "privacy-spent"), ("at /data/films", "EXECUTION_EXCEPTION")]
)
def test_of_an_empty_answer_only_a_known_code_leaves(code, passed):
    reply = make_reply(code)
    reply.set_header("film", "patient-17")
    left = OnlyModelAndNumbers(["normal"]).process(reply, FLContext())
    assert left.get_return_code() == passed
    assert "patient-17" not in str(left)


class Trainer:
    """A hospital's own executor and policy, in front of what is in its kit."""

    def __init__(self, plan, kit):
        self.kit, self.plan = kit, plan
        self.trainer, self.policy = SiteTrainer(plan.model_dump(mode="json")), OnlyModelAndNumbers(list(plan.classes))

    def get_workspace(self):
        return self

    def get_root_dir(self):
        return str(self.kit)

    def fire_event(self, event_type, fl_ctx): ...

    def reply(self, message):
        manager = FLContextManager(engine=self, identity_name=self.kit.name, job_id="1", public_stickers={})
        task = Shareable()
        task.update(message)
        with manager.new_context() as fl_ctx:
            return self.policy.process(self.trainer.execute(TRAIN, task, fl_ctx, Signal()), fl_ctx)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("protocol", "install the same version at both"),
        ("version", "not the coordinator's version, 99.0.1"),
        ("processing", "ingest them again at the site, with --size 48 --fit crop"),
        ("site-file", "fedpdc federation check"),
        ("no-films", "no training films of the classes a, b, c"),
        ("privacy", "method scaffold sends more"),
        ("privacy-spent", "its own limit of epsilon"),
    ],
)
def test_a_site_that_does_not_go_with_the_run_says_so_by_a_word_and_the_round_goes_on(
    started, sources, tmp_path, word, told
):
    """The site's own trainer and policy answer; what it says reaches the round as a sentence."""
    coordinator, _, room = started("scaffold" if word == "privacy" else "fedavg")
    plan, kit = room.hospitals["north"].plan, tmp_path / "north"
    (kit / "local").mkdir(parents=True)
    privacy = "Privacy(clip=1.0, noise=0.1, limit=0.1)" if word.startswith("privacy") else "None"
    text = SITE_FILE.format(films=sources.stores["north"].folder, privacy=privacy)
    (kit / "local" / "hospital.py").write_text("nonsense" if word == "site-file" else text, encoding="utf-8")
    changes = {
        "protocol": {"protocol": 2},
        "version": {"package": "99.0.1"},
        "processing": {"film_processing": FilmProcessing(size=48, fit="crop")},
        "no-films": {"classes": ("a", "b", "c")},
    }
    room.hospitals["north"] = Trainer(plan.model_copy(update=changes.get(word, {})), kit)
    record = coordinator.run_round()
    assert statuses(record) == {"north": "failed", "south": "ok", "west": "ok"}
    reason = record.sites["north"].reason
    assert told in reason and str(tmp_path) not in reason


def test_a_site_of_the_same_minor_version_trains(started, sources, tmp_path):
    coordinator, _, room = started()
    plan, kit = room.hospitals["north"].plan, tmp_path / "north"
    (kit / "local").mkdir(parents=True)
    text = SITE_FILE.format(films=sources.stores["north"].folder, privacy="None")
    (kit / "local" / "hospital.py").write_text(text, encoding="utf-8")
    fixed = ".".join([*__version__.split(".")[:2], "99"])
    room.hospitals["north"] = Trainer(plan.model_copy(update={"package": fixed}), kit)
    assert statuses(coordinator.run_round())["north"] == "ok"


def test_names_that_a_hospital_makes_up_reach_nobody_as_commands_to_a_terminal():
    with pytest.raises(BadMessage) as refused:
        read_answer({"\x1b[2J\x1b]0;owned\x07": 1, "site": "north"}, ("normal",), 10)
    assert "\\x1b[2J" in str(refused.value) and "\x1b" not in str(refused.value)
