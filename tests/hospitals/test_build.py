"""What hospitals and a reference set must have in common, and what they must not share."""

import os

import numpy as np
import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.hospitals import HospitalSite, Phantoms
from fedpdc_med.hospitals.build import FilmSources, check_alike, check_sites_apart
from fedpdc_med.imaging.reference import Reference
from fedpdc_med.simulation.phantoms import phantom_store


@pytest.fixture
def store(tmp_path, film_store):
    def make(name, films, processing=None, **columns):
        how = processing or {"fit": "pad", "equalise": False}
        return film_store(tmp_path / name, films, how, **columns)

    return make


def drawn(seed):
    return np.random.default_rng(seed).integers(0, 256, (4, 1, 64, 64), dtype=np.uint8)


@pytest.mark.parametrize("how", [{"fit": "crop"}, {"fit": "pad", "equalise": True}])
def test_films_prepared_otherwise_than_the_reference_are_refused(store, how):
    reference = Reference(store("reference", drawn(0)), {})
    check_alike(FilmSources({"a": store("a", drawn(1))}, reference))
    with pytest.raises(
        UserError, match=r"site 'b'.*--(fit crop|equalise).*reference set was built with --size 64 --fit pad;"
    ):
        check_alike(FilmSources({"b": store("b", drawn(2), processing=how)}, reference))


@pytest.mark.parametrize("shared", ["recompressed film", "patient"])
def test_a_film_or_patient_that_trains_at_one_site_may_not_judge_at_another(store, shared):
    trained, judging = drawn(1), drawn(2)
    sites = [HospitalSite(name="a", films="a"), HospitalSite(name="b", films="b", takes_part=False)]
    reference = Reference(store("reference", drawn(0)), {})
    first = store("a", trained)
    check_sites_apart(sites, FilmSources({"a": first, "b": store("b", judging)}, reference))
    if shared == "patient":  # of a published collection: both sites give them the same pseudonym
        second = store("b", judging)
        second.manifest.loc[0, "patient"] = first.manifest.loc[0, "patient"]
    else:
        judging[0] = np.clip(trained[0].astype(int) + np.random.default_rng(3).integers(-2, 3, (64, 64)), 0, 255)
        second = store("b", judging)
    with pytest.raises(
        UserError,
        match=r"test films at b are also training films at .*, or show one of its training patients \(1 film\)",
    ):
        check_sites_apart(sites, FilmSources({"a": first, "b": second}, reference))


def test_drawn_films_are_for_their_owner_only(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path / "home"))
    before = os.umask(0o000)
    try:
        phantom_store("north", "North", Phantoms(case_mix={"normal": 4}), 0, 1)
    finally:
        os.umask(before)
    made = [tmp_path / "home", *(tmp_path / "home").rglob("*")]
    assert sum(entry.suffix == ".dcm" for entry in made) == 4
    assert not [entry.name for entry in made if entry.stat().st_mode & 0o077]
