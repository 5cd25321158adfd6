"""The same seed and sites: hospitals over FLARE and processes on one machine give bit-identical models.

test_engine.py does the same for every method without FLARE's processes, and test_trial.py for the default method.
"""

from fedpdc_med.runs.directory import read_run


def test_federation_and_simulation_end_with_the_same_bits(federation, sources, tmp_path):
    """SCAFFOLD: something besides the model travels, both ways."""
    apart = federation.run(federation.begin(tmp_path / f"apart-{tmp_path.name}", "scaffold", 3))
    together = federation.undisturbed(tmp_path / "together", "scaffold", 3)
    assert apart.model_file.read_bytes() == together.model_file.read_bytes()
    for there, here in zip(apart.rounds, together.rounds, strict=True):
        assert there.accuracy == here.accuracy
        assert there.sites == here.sites
    for name, site in read_run(apart.folder).sites.items():
        labels = sources.stores[name].manifest.query("split == 'train'")["label"]
        assert site.training_films == {label: int((labels == label).sum()) for label in apart.classes}
