"""The same seed and sites: hospitals over FLARE and processes on one machine give bit-identical models.

test_engine.py does the same for every method, without FLARE's processes.
"""

import pytest

from fedpdc_med.runs.directory import read_run


@pytest.mark.parametrize(
    ("method", "settings"),
    [("fedpdc-ce", {}), ("scaffold", {})],  # public films at the sites; something beside the model, both ways
)
def test_federation_and_simulation_end_with_the_same_bits(federation, sources, tmp_path, method, settings):
    apart = federation.run(federation.begin(tmp_path / f"apart-{tmp_path.name}", method, 3, settings))
    together = federation.undisturbed(tmp_path / "together", method, 3, settings)
    assert apart.model_file.read_bytes() == together.model_file.read_bytes()
    for there, here in zip(apart.rounds, together.rounds, strict=True):
        assert there.accuracy == here.accuracy
        assert there.sites == here.sites
    for name, site in read_run(apart.folder).sites.items():
        labels = sources.stores[name].manifest.query("split == 'train'")["label"]
        assert site.training_films == {label: int((labels == label).sum()) for label in apart.classes}
