"""What leaves a hospital in a round: everything it hands to its connections is recorded and searched."""

import logging
import math

import numpy as np
import pytest
import torch
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.private.event import fire_event
from nvflare.widgets.info_collector import InfoCollector
from safetensors.torch import save

from fedpdc_med import __version__
from fedpdc_med.engines.flare.executor import SiteTrainer
from fedpdc_med.engines.flare.messages import TRAIN, BadMessage, largest, packed, read_answer
from fedpdc_med.engines.flare.policy import OnlyModelAndNumbers
from fedpdc_med.hospitals.build import PREPARATION
from fedpdc_med.models import ENCODERS, build_model
from fedpdc_med.runs.plan import FilmProcessing, MethodConfig, Network, Plan

NUMBERS = {"films": 12, "loss": 0.7, "films:normal": 12, "seconds": 1.5}
PLAN = Plan(
    run="0123456789abcdef",
    package=__version__,
    method=MethodConfig(name="fedavg"),
    network=Network(name="cnn", channels=1, size=16, classes=2),
    classes=("a", "b"),
    preparation=PREPARATION,
    film_processing=FilmProcessing(size=16),
    rounds=3,
)
STATE = build_model(PLAN.network, seed=1).state_dict()
GOOD = {"site": "north", "round": 1, "state": packed(STATE), "extra": None, "numbers": NUMBERS}


def test_no_film_patient_file_name_or_path_leaves(federation, sources, tmp_path):
    federation.run(federation.begin(tmp_path / "captured", rounds=1))
    (recorded,) = federation.place.glob("sent-*WsConnection*")
    sent = recorded.read_bytes()
    assert (tmp_path / "captured" / "model.safetensors").is_file() and len(sent) > 500_000  # the model went this way
    store = sources.stores["north"]
    assert b"films:normal" in sent  # strings are readable in the record, so what is not found was not sent
    for column in ("film", "patient", "pixel_hash", "perceptual_hash"):
        for value in store.manifest[column]:
            assert value.encode() not in sent, column
    for film in np.asarray(store.films):
        middle = film[0, 20:28].tobytes()  # eight rows of pixels; of any film, they are not all alike
        assert len(set(middle)) > 5 and middle not in sent
    for word in (str(federation.place), str(tmp_path), "/tmp", "/home", "hospital.py", ".dcm", "films.npy", "manifest"):
        assert word.encode() not in sent, word


def passed(content, plan=PLAN, context=None, **headers):
    shareable, context = Shareable(), context or FLContext()
    shareable.update(content)
    for name, value in headers.items():
        shareable.set_header(name, value)
    context.set_prop("fedpdc_plan", plan, private=True, sticky=False)
    return OnlyModelAndNumbers(["normal", "pneumonia"]).process(shareable, context)


def test_the_policy_passes_a_model_and_the_named_numbers():
    assert {name: value for name, value in passed(GOOD).items() if not name.startswith("__")} == GOOD


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("model", ENCODERS)
def test_an_update_of_every_model_leaves_and_one_that_is_larger_stays(model, norm):
    """The names and shapes in front of densenet121's tensors alone take 94 kB."""
    network = Network(name=model, channels=1, size=32, classes=2, norm=norm)
    plan, state = PLAN.model_copy(update={"network": network}), build_model(network, seed=1).state_dict()
    left = passed({**GOOD, "state": packed(state)}, plan)
    assert read_answer({name: left[name] for name in GOOD}, ("normal",), largest(state)).state == packed(state)
    with pytest.raises(BadMessage, match="bytes"):
        passed({**GOOD, "state": packed({**state, "film": torch.zeros(48, 48)})}, plan)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"film": b"pixels"}, "entries"),
        ({"round": "today"}, "round"),
        ({"state": {"weights": [1.0]}}, "not bytes"),
        ({"state": b"pixels"}, "cannot be read"),
        ({"state": packed({**STATE, "film": torch.zeros(4)})}, "1 unknown"),
        ({"state": packed({**STATE, "classify.bias": torch.zeros(7)})}, "shape"),
        ({"state": packed({**STATE, "classify.bias": torch.full((2,), math.nan)})}, "not finite"),
        ({"extra": packed(STATE)}, "in addition to the model"),
        ({"numbers": [0.7]}, "agreed ones"),
        ({"numbers": {"films": 12}}, "agreed ones"),
        ({"numbers": {"loss": 0.7}}, "agreed ones"),
        ({"numbers": {**NUMBERS, "age": 71}}, "agreed ones"),
        ({"numbers": {**NUMBERS, "films:influenza": 1}}, "agreed ones"),
        ({"numbers": {**NUMBERS, "loss": "patient 17"}}, "loss is not a number"),
        ({"numbers": {**NUMBERS, "loss": 10**400}}, "loss is too large"),
        ({"numbers": {**NUMBERS, "films": True}}, "films is not a number"),
        ({"numbers": {"films": 0, "loss": 0.7}}, "no film"),
        ({"numbers": {"films": -1, "loss": 0.7}}, "films is not a count"),
        ({"numbers": {"films": 1.5, "loss": 0.7}}, "films is not a count"),
        ({"numbers": {"films": 1e9, "loss": 0.7}}, "films is not a count"),
        ({"numbers": {"films": 10**9, "loss": 0.7}}, "films is too large"),
        ({"numbers": {**NUMBERS, "films": 1200}}, "sum"),
        ({"numbers": {**NUMBERS, "films:normal": -12}}, "normal is not a count"),
        ({"numbers": {**NUMBERS, "seconds": math.inf}}, "seconds"),
        ({"numbers": {**NUMBERS, "seconds": 10**400}}, "seconds is too large"),
        ({"numbers": {**NUMBERS, "epsilon": -0.1}}, "epsilon"),
        ({"numbers": {**NUMBERS, "epsilon": math.nan}}, "epsilon"),
    ],
)
def test_the_policy_refuses_anything_else(change, why):
    with pytest.raises(BadMessage, match=why):
        passed({**GOOD, **change})


def test_a_result_that_is_not_the_trainers_stays():
    with pytest.raises(BadMessage):
        passed(GOOD, plan=None)


def test_headers_and_notes_in_the_models_file_are_left_behind():
    noted = save(STATE, metadata={"note": "patient 17"})
    left = passed({**GOOD, "state": noted}, note="patient 17")
    assert b"patient 17" in noted and b"patient 17" not in left["state"]
    assert left.get_header("note") is None
    assert passed({}, note="patient 17").get_header("note") is None


class Site:
    """As much of a site's job process as events need: FLARE's collector, which administrators may ask, hears them."""

    def __init__(self, kit):
        self.collector, self.kit = InfoCollector(), kit

    def fire_event(self, event_type, fl_ctx):
        fire_event(event_type, [self.collector], fl_ctx)

    def get_workspace(self):
        return self

    def get_root_dir(self):
        return str(self.kit)

    def context(self):
        return FLContextManager(engine=self, identity_name="north", job_id="1", public_stickers={}).new_context()


def test_why_a_result_is_refused_stays_in_the_sites_own_log(tmp_path, caplog):
    site = Site(tmp_path)
    with site.context() as context:
        OnlyModelAndNumbers([]).log_error(context, "what FLARE hears")
        assert "what FLARE hears" in str(site.collector.get_errors())
        site.collector.reset_errors()
        with caplog.at_level(logging.ERROR), pytest.raises(BadMessage):
            passed({**GOOD, "patient-17": b"pixels"}, context=context)
    assert "patient-17" in caplog.text
    assert not site.collector.get_errors()


def test_why_a_site_does_not_train_stays_in_its_own_log(tmp_path, caplog):
    """A site file that cannot be loaded, and says so with names."""
    site = Site(tmp_path)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "hospital.py").write_text("raise OSError('/data/films of patient-17')", encoding="utf-8")
    with site.context() as context, caplog.at_level(logging.ERROR):
        reply = SiteTrainer(PLAN.model_dump()).execute(TRAIN, Shareable(), context, Signal())
    assert reply.get_return_code() == "site-file"
    assert "patient-17" in caplog.text
    assert "patient-17" not in str(reply) and not site.collector.get_errors()
