"""The same seed and sites: hospitals over FLARE and processes on one machine give the same model, bit by bit."""

import pytest


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedavg", {}),
        ("fedpdc", {"correction": "penalty"}),
        ("fedpdc", {"correction": "proximal"}),
        ("fedpdc", {"correction": "soft-accuracy", "strength": 1}),
        ("fedpdc-ce", {}),
        ("fedpdc", {"correction": "none"}),
        ("moon", {}),
    ],
    ids=["fedavg", "fedpdc-penalty", "fedpdc-proximal", "fedpdc-soft-accuracy", "fedpdc-ce", "fedpdc-none", "moon"],
)
def test_federation_and_simulation_end_with_the_same_bits(federation, sources, tmp_path, method, settings):
    apart = federation.run(federation.begin(tmp_path / f"apart-{tmp_path.name}", method, 3, settings))
    together = federation.undisturbed(tmp_path / "together", method, 3, settings)
    assert apart.model_file.read_bytes() == together.model_file.read_bytes()
    for there, here in zip(apart.rounds, together.rounds, strict=True):
        assert there.accuracy == here.accuracy
        assert there.sites == here.sites
    for name, site in apart.config["sites"].items():
        labels = sources.stores[name].manifest.query("split == 'train'")["label"]
        assert site["training_films"] == {label: int((labels == label).sum()) for label in apart.config["classes"]}
