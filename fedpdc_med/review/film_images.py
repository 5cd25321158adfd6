"""The films behind a run's pseudonyms, from the film stores on this machine, or a sentence why there are none.

A run names its stores by the checksum of their manifests, so a store is found wherever it is in the data folder,
and films that were ingested again since the run are never mistaken for those it was made with. A run directory may come
from anybody: site files are not loaded, because they are code, and no folder that a run names is opened.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import parsed, read_text
from fedpdc_med.common.paths import home
from fedpdc_med.imaging.store import original_shapes, read_store
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.schema import BenchmarkRun, ImageSource

REFERENCE = "reference"  # the name of the public reference set among the sites of a run
ELSEWHERE = (
    "The films of {site} are not on this machine, or were ingested again since the run. "
    "Films never leave their site: to see them, open the review app there, with FEDPDC_HOME set to its data folder."
)

NO_IMAGES = (
    "To see the {name} images of this run, start the review app with FEDPDC_DATA set to the folder that contains them. "
    "CIFAR must be in its binary layout (.bin), because the app does not open pickled files."
)


@dataclass(frozen=True)
class SiteImages:
    """One site's films: row i of `about` (film, label, patient, source, height, width) describes images[i]."""

    images: np.ndarray
    about: pd.DataFrame

    @property
    def rows(self) -> dict[str, int]:
        return {film: row for row, film in enumerate(self.about["film"])}


@dataclass(frozen=True)
class RunImages:
    """The films of a run by site (`reference`, a site's name, or "" in a benchmark).

    `absent` has a sentence for each site whose films are not here.
    """

    held: dict[str, SiteImages]
    absent: dict[str, str]

    def images(self, sites: list[str], films: list[str]) -> list[np.ndarray | None]:
        """The picture (channels, height, width) of each film, None where it cannot be shown."""
        rows = {site: self.held[site].rows for site in set(sites) & set(self.held)}
        places = [rows.get(site, {}).get(film) for site, film in zip(sites, films, strict=True)]
        return [
            None if place is None else np.asarray(self.held[site].images[place])
            for site, place in zip(sites, places, strict=True)
        ]

    def why_not(self, site: str) -> str:
        return self.absent.get(site, ELSEWHERE.format(site=name_of(site) or "this run"))


def name_of(site: str) -> str:
    return "the public reference set" if site == REFERENCE else site


def images_of(view: Run) -> RunImages:
    """Every film of a run that is on this machine."""
    if isinstance(view.config, BenchmarkRun):
        return _test_images(view.config.data)
    return _stores(view, view.config.data.fingerprints)


def _stores(view: Run, wanted: dict[str, str]) -> RunImages:
    folders = {fingerprint: folder for folder, fingerprint in _stores_on_this_machine(view)}
    held, absent = {}, {}
    for site, fingerprint in wanted.items():
        if fingerprint not in folders:
            absent[site] = ELSEWHERE.format(site=name_of(site))
            continue
        try:
            store = read_store(folders[fingerprint])
        except (UserError, OSError, ValueError, KeyError):
            absent[site] = f"The film store of {name_of(site)} is corrupt; ingest its films again."
            continue
        held[site] = SiteImages(store.films, store.manifest)
    return RunImages(held, absent)


def _stores_on_this_machine(view: Run) -> Iterator[tuple[Path, str]]:
    """Every store in the data folder, and in the one that contains the run, with its fingerprint."""
    for root in dict.fromkeys([home().resolve(), view.folder.resolve().parent.parent]):
        for pattern in ("sites/*", "reference", "phantoms/*/*/store"):
            for folder in sorted(root.glob(pattern)):
                try:
                    info = parsed(json.loads, read_text(folder / "store.json"))
                    yield folder, str(info["manifest_sha256"])[:16]
                except (UserError, OSError, ValueError, KeyError, TypeError):
                    continue


def _test_images(data: ImageSource) -> RunImages:
    """A benchmark's test images, if $FEDPDC_DATA contains the images it was run with, in a layout without pickles."""
    from fedpdc_med.datasets import load

    name, folder = data.name, os.environ.get("FEDPDC_DATA")
    try:
        images = load(name, Path(folder) if folder else None, pickles=False)
        if images.fingerprint() != data.fingerprint:
            return RunImages({}, {"": f"The {name} images on this machine differ from those of this run."})
    except (UserError, OSError, ValueError):
        return RunImages({}, {"": NO_IMAGES.format(name=name)})
    count = len(images.test_labels)
    about = pd.DataFrame({"film": [f"test-{i:05d}" for i in range(count)], "patient": "", "source": name})
    about = about.assign(label=np.array(images.classes)[images.test_labels], height="", width="")
    return RunImages({"": SiteImages(images.test_images, about)}, {})


@dataclass(frozen=True)
class ImageSample:
    """Films of several sites, for the shortcut checks; `shapes` is 0 where the original shape is unknown."""

    images: np.ndarray
    labels: np.ndarray
    sources: np.ndarray
    sites: np.ndarray
    patients: np.ndarray
    shapes: np.ndarray


def gather(images: RunImages, classes: list[str], most: int, seed: int = 0) -> ImageSample | None:
    """Films of the run's classes from every site; a random sample if there are more than `most`."""
    rows = [held.about.assign(site=site, row=np.arange(len(held.about))) for site, held in images.held.items()]
    if not rows:
        return None
    about = pd.concat(rows, ignore_index=True)
    about = about[about["label"].isin(classes)]
    if about.empty:
        return None
    if len(about) > most:
        about = about.sample(most, random_state=seed).sort_index()  # sorted: films of one site stay together
    drawn = [held.images[about.loc[about["site"] == site, "row"].to_numpy()] for site, held in images.held.items()]
    return ImageSample(
        np.concatenate(drawn),
        about["label"].to_numpy(str),
        about["source"].to_numpy(str),
        about["site"].to_numpy(str),
        about["patient"].to_numpy(str),  # published patients have one pseudonym at all sites, others never meet
        original_shapes(about),
    )
