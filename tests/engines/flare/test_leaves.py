"""What leaves a hospital in a round: everything it hands to its connections is recorded and searched."""

import numpy as np
import pytest
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from fedpdc_med.engines.flare.messages import BadMessage
from fedpdc_med.engines.flare.policy import OnlyModelAndNumbers

NUMBERS = {"films": 12, "loss": 0.7, "films:normal": 12, "seconds": 1.5}
GOOD = {"site": "north", "round": 1, "state": b"tensors", "numbers": NUMBERS}


def test_no_film_patient_file_name_or_path_leaves(federation, collected, tmp_path):
    federation.run(federation.begin(tmp_path / "captured", rounds=1))
    (recorded,) = federation.place.glob("sent-*WsConnection*")
    sent = recorded.read_bytes()
    assert (tmp_path / "captured" / "model.safetensors").is_file() and len(sent) > 500_000  # the model went this way
    store = collected.stores["north"]
    assert b"films:normal" in sent  # strings are readable in the record, so what is not found was not sent
    for column in ("film", "patient", "pixel_hash", "perceptual_hash"):
        for value in store.manifest[column]:
            assert value.encode() not in sent, column
    for film in np.asarray(store.films):
        middle = film[0, 20:28].tobytes()  # eight rows of pixels; of any film, they are not all alike
        assert len(set(middle)) > 5 and middle not in sent
    for word in (str(federation.place), str(tmp_path), "/tmp", "/home", "hospital.py", ".dcm", "films.npy", "manifest"):
        assert word.encode() not in sent, word


def leave(content):
    shareable = Shareable()
    shareable.update(content)
    passed = OnlyModelAndNumbers(["normal", "pneumonia"]).process(shareable, FLContext())
    return {name: value for name, value in passed.items() if not name.startswith("__")}


def test_the_policy_passes_a_model_and_the_named_numbers():
    assert leave(GOOD) == GOOD


@pytest.mark.parametrize(
    "change",
    [
        {"film": b"pixels"},
        {"numbers": {**NUMBERS, "age": 71}},
        {"numbers": {**NUMBERS, "films:influenza": 1}},
        {"numbers": {**NUMBERS, "loss": "patient 17"}},
        {"numbers": {**NUMBERS, "films": True}},
        {"numbers": [0.7]},
        {"state": {"weights": [1.0]}},
        {"round": "today"},
    ],
    ids=str,
)
def test_the_policy_refuses_anything_else(change):
    with pytest.raises(BadMessage):
        leave({**GOOD, **change})


def test_headers_that_a_job_would_smuggle_out_are_left_behind():
    shareable = Shareable()
    shareable.update(GOOD)
    shareable.set_header("note", "patient 17")
    passed = OnlyModelAndNumbers(["normal"]).process(shareable, FLContext())
    assert passed.get_header("note") is None
