"""Every site's film store and the reference set; synthetic ones are made here."""

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import atomic_write
from fedpdc_med.common.paths import home, owner_only, shipped, site_store
from fedpdc_med.hospitals.build import FilmSources
from fedpdc_med.hospitals.site import HospitalSite, Phantoms
from fedpdc_med.imaging.ingest.labels import read_labels
from fedpdc_med.imaging.ingest.pipeline import ingest
from fedpdc_med.imaging.phantoms.films import write_films
from fedpdc_med.imaging.reference import Reference, build_reference, read_reference
from fedpdc_med.imaging.store import FilmStore, read_store

PHANTOM_SIZE = 96  # pixels per side: synthetic films have no finer detail, and a demonstration should be quick


def open_films(sites: list[HospitalSite], reference: Path | None, seed: int, workers: int) -> FilmSources:
    """Open every film store; make synthetic films, once per seed, for the sites that use them."""
    stores = {site.name: store_of(site, seed, workers) for site in sites}
    if reference is None and all(isinstance(site.films, Phantoms) for site in sites):
        return FilmSources(stores, phantom_reference(seed, workers))
    return FilmSources(stores, read_reference(reference or home() / "reference"))


def store_of(site: HospitalSite, seed: int, workers: int) -> FilmStore:
    if isinstance(site.films, str):
        folder = Path(site.films) if "/" in site.films else site_store(site.films)
        return read_store(folder)
    return phantom_store(site.name, site.title or site.name, site.films, seed, workers)


def phantom_folder(seed: int, name: str) -> Path:
    return home() / "phantoms" / f"seed{seed}" / name


@owner_only()
def phantom_store(name: str, title: str, films: Phantoms, seed: int, workers: int) -> FilmStore:
    """Written as DICOM files and ingested like any hospital's films; kept until the recipe changes."""
    folder = phantom_folder(seed, name)
    if not is_current(folder, films):
        dicom = draw(folder, films, seed, title, workers)
        ingest(
            dicom,
            name,
            labels=read_labels(dicom / "labels.csv"),
            labels_file=dicom / "labels.csv",
            size=PHANTOM_SIZE,
            provenance="phantom",
            store=folder / "store",
            replace=True,
            processes=workers,
            seed=seed,
        )
        finish(folder, films)
    return read_store(folder / "store")


@owner_only()
def phantom_reference(seed: int, workers: int) -> Reference:
    """The default reference set, by the recipe in public_reference/."""
    recipe = read_recipe()
    films = Phantoms(**recipe["phantoms"])
    folder = phantom_folder(seed, "reference")
    if not is_current(folder, films):
        dicom = draw(folder, films, seed, recipe["title"], workers)
        build_reference(
            dicom,
            folder / "store",
            provenance=recipe["provenance"],
            licence=recipe["licence"],
            version=recipe["version"],
            per_class=None,
            replace=True,
            seed=seed,
            kind="phantom",
            labels=read_labels(dicom / "labels.csv"),
            labels_file=dicom / "labels.csv",
            size=PHANTOM_SIZE,
            processes=workers,
        )
        finish(folder, films)
    return read_reference(folder / "store")


def read_recipe() -> dict[str, Any]:
    file = shipped("public_reference") / "reference.toml"
    if not file.is_file():
        raise UserError("the recipe of the default reference set (public_reference/reference.toml) is not installed")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def draw(folder: Path, films: Phantoms, seed: int, title: str, workers: int) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    write_films(folder / "dicom", films.scanner, films.case_mix, seed, hospital=title, ages=films.ages, workers=workers)
    return folder / "dicom"


def is_current(folder: Path, films: Phantoms) -> bool:
    recipe = folder / "recipe.json"
    return recipe.is_file() and json.loads(recipe.read_text(encoding="utf-8")) == json.loads(films.model_dump_json())


def finish(folder: Path, films: Phantoms) -> None:
    atomic_write(folder / "recipe.json", lambda file: file.write(films.model_dump_json().encode()))
