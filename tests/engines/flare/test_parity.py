"""The same seed and sites: hospitals over FLARE and processes on one machine give the same model, bit by bit."""

import pytest

from fedpdc_med.algorithms import make_method
from fedpdc_med.simulation import simulate


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedavg", {}),
        ("fedpdc", {"correction": "penalty"}),
        ("fedpdc", {"correction": "proximal"}),
        ("fedpdc", {"correction": "reference", "strength": 1}),
        ("moon", {}),
    ],
    ids=["fedavg", "fedpdc-penalty", "fedpdc-proximal", "fedpdc-reference", "moon"],
)
def test_federation_and_simulation_end_with_the_same_bits(federation, collected, tmp_path, method, settings):
    apart = federation.run(federation.begin(tmp_path / f"apart-{tmp_path.name}", method, 3, settings))
    fixed = simulate.Settings(rounds=3, model="cnn")
    together = simulate.start(
        fixed, make_method(method, **settings), None, federation.trial.sites, collected, None, tmp_path / "t", False, 2
    )
    assert apart.model_file.read_bytes() == together.model_file.read_bytes()
    for there, here in zip(apart.rounds(), together.rounds(), strict=True):
        assert there["accuracy"] == here["accuracy"]
        assert there["sites"] == here["sites"]
    told = {name: site["training_films"] for name, site in apart.config["sites"].items()}
    assert told == {name: site["training_films"] for name, site in together.config["sites"].items()}
