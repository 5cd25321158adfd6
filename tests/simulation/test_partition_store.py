"""One film store partitioned into simulated sites."""

import numpy as np
import pandas as pd
import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import site_store
from fedpdc_med.hospitals.site import load_sites
from fedpdc_med.imaging.store import pixel_hash, read_store, write_store
from fedpdc_med.simulation.partition_store import partition_store


@pytest.fixture
def store(tmp_path, monkeypatch, film_store):
    """90 films of 45 patients, two each, in three classes."""
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path / "home"))
    films = np.random.default_rng(0).integers(0, 256, (90, 1, 32, 32), dtype=np.uint8)
    labels = np.repeat(["normal", "pneumonia", "covid-19"], 30)
    return film_store(site_store("all"), films, label=labels, patient=[f"p{i // 2}" for i in range(90)])


def test_every_film_goes_to_one_site_and_patients_stay_together(store, tmp_path):
    made = partition_store(store, 3, "dirichlet", 0.3, tmp_path / "hospitals", seed=1)
    together = pd.concat(made.values())
    assert sorted(together["film"]) == sorted(store.manifest["film"])
    owners = pd.concat([films.assign(owner=name) for name, films in made.items()]).groupby("patient")["owner"]
    assert owners.nunique().max() == 1
    shares = pd.DataFrame({name: films["label"].value_counts(normalize=True) for name, films in made.items()})
    assert shares.max().max() > 0.6  # skewed


def test_the_new_sites_can_be_simulated_and_their_pixels_are_the_old_ones(store, tmp_path):
    partition_store(store, 2, "iid", 0.3, tmp_path / "hospitals", seed=0)
    sites = load_sites(tmp_path / "hospitals")
    assert [site.name for site in sites] == ["all-1", "all-2"]
    made = read_store(site_store("all-1"))
    assert [pixel_hash(film) for film in made.films] == list(made.manifest["pixel_hash"])
    assert set(made.manifest["split"]) == {"train", "test"}
    assert made.manifest.groupby("patient")["split"].nunique().max() == 1


def test_the_new_sites_are_for_its_owner_only(store, tmp_path):
    partition_store(store, 2, "iid", 0.3, tmp_path / "hospitals", seed=0)
    made = [
        tmp_path / "hospitals",
        *(tmp_path / "hospitals").iterdir(),
        site_store("all-1"),
        *site_store("all-1").iterdir(),
    ]
    assert not [entry.name for entry in made if entry.stat().st_mode & 0o077]


def test_fewer_sites_than_before_leave_no_site_behind(store, tmp_path):
    partition_store(store, 3, "iid", 0.3, tmp_path / "hospitals", seed=0)
    (tmp_path / "hospitals" / "all-own.py").write_text(
        (tmp_path / "hospitals" / "all-3.py").read_text(encoding="utf-8")[-200:], encoding="utf-8"
    )
    partition_store(store, 2, "iid", 0.3, tmp_path / "hospitals", seed=1, overwrite=True)
    assert sorted(file.name for file in (tmp_path / "hospitals").glob("*.py")) == ["all-1.py", "all-2.py", "all-own.py"]


def test_a_folder_that_has_such_a_module_is_not_overwritten(store, tmp_path):
    partition_store(store, 2, "iid", 0.3, tmp_path / "hospitals", seed=0)
    with pytest.raises(UserError, match="already in the folder"):
        partition_store(store, 2, "iid", 0.3, tmp_path / "hospitals", seed=0)


def test_the_film_store_of_another_site_is_not_overwritten_and_nothing_is_half_done(store, tmp_path):
    manifest = store.manifest.assign(site="mine")
    write_store(site_store("all-2"), store.films, manifest, site="all-2", size=32, processing={})
    with pytest.raises(UserError, match="already a film store all-2"):
        partition_store(store, 2, "iid", 0.3, tmp_path / "hospitals", seed=0)
    assert not (tmp_path / "hospitals").exists() and not site_store("all-1").exists()
    partition_store(store, 2, "iid", 0.3, tmp_path / "hospitals", seed=0, overwrite=True)
    assert len(read_store(site_store("all-2")).films) < 90


def test_films_that_a_site_ingested_are_never_overwritten(store, tmp_path):
    write_store(site_store("all-2"), store.films, store.manifest, site="all-2", size=32, processing={}, ingest="abc")
    with pytest.raises(UserError, match="all-2 is a site whose films were ingested"):
        partition_store(store, 2, "iid", 0.3, tmp_path / "hospitals", seed=0, overwrite=True)
    assert len(read_store(site_store("all-2")).films) == 90 and not site_store("all-1").exists()
