"""From hospitals, film stores and a reference set to a federation."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import key_file
from fedpdc_med.federation.data import EvaluationSet, Federation, SiteFilms
from fedpdc_med.federation.images import Films
from fedpdc_med.hospitals.site import HospitalSite
from fedpdc_med.imaging.dicom.deidentify import site_key
from fedpdc_med.imaging.duplicates import check_overlap, overlap
from fedpdc_med.imaging.reference import Reference
from fedpdc_med.imaging.store import FilmStore
from fedpdc_med.methods import Method
from fedpdc_med.runs.plan import FilmProcessing, Network, Preparation, Privacy

# No left-right flip: the heart is on one side. Normalisation is fixed, so that no site's statistics leave it.
PREPARATION = Preparation(mean=(110.0,), std=(60.0,), per_image=True, rotate=5.0, shift=0.04, zoom=0.05, contrast=0.1)
ABOUT = ["film", "patient", "label", "sex", "age_band", "view", "source"]


@dataclass(frozen=True)
class FilmSources:
    """Whatever films there are to work with: each site's store, and the public reference set."""

    stores: dict[str, FilmStore]
    reference: Reference


def build(
    sites: list[HospitalSite],
    sources: FilmSources,
    method: Method,
    *,
    model: str,
    norm: Literal["batch", "group"],
    rounds: int,
    tau: float,
    seed: int,
) -> Federation:
    reference, classes = sources.reference, sources.reference.classes
    check_alike(sources)
    check_sites_apart(sites, sources)
    pools: list[Films] = []
    held: dict[str, SiteFilms] = {}
    reported = {"holdout": reference_set(sources, "holdout"), "weighting": reference_set(sources, "weighting")}
    for site in sites:
        store = sources.stores[site.name]
        check_overlap(site.name, store.manifest, reference.store.manifest)
        if not site.takes_part:
            every = rows_of(site.name, store, None, classes)
            reported[f"external:{site.name}"] = evaluation_set(store, every, "external", site.name, classes)
            continue
        train, test = (rows_of(site.name, store, split, classes) for split in ("train", "test"))
        held[site.name] = SiteFilms(len(pools), None, len(train), site.settings, PREPARATION, *privacy_of(site))
        pools.append(films_of(store, train, classes))
        if len(test):
            reported[f"local:{site.name}"] = evaluation_set(store, test, "local", site.name, classes)
    correction = films_of(reference.store, reference.rows("correction"), classes)
    return Federation(
        method=method,
        network=Network(name=model, channels=1, size=reference.store.info["size"], classes=len(classes), norm=norm),
        classes=classes,
        preparation=PREPARATION,
        pools=pools,
        sites=held,
        weighting=reported["weighting"].films,
        correction=correction,
        reported=reported,
        judge="holdout",
        rounds=rounds,
        tau=tau,
        seed=seed,
    )


def check_alike(sources: FilmSources) -> None:
    for name, store in sources.stores.items():
        check_processing(name, store, processing_of(sources.reference.store))


def check_processing(name: str, store: FilmStore, wanted: FilmProcessing | None) -> None:
    """A site whose films were processed otherwise than the reference's would be scored too low."""
    if processing_of(store) != wanted:
        raise UserError(
            f"films of site {name!r} were brought to size with {processing_of(store)}, those of the reference with "
            f"{wanted}; ingest the site, or build the reference, again"
        )


def processing_of(store: FilmStore) -> FilmProcessing:
    """How a store's films were brought to working size."""
    how = store.info["processing"]
    return FilmProcessing(size=store.info["size"], fit=how.get("fit", "pad"), equalise=bool(how.get("equalise", False)))


def check_sites_apart(sites: list[HospitalSite], sources: FilmSources) -> None:
    """A film or patient that one site trains on must not judge the model at another."""
    manifests = {site.name: sources.stores[site.name].manifest for site in sites}
    trained = {
        site.name: mine[mine["split"] == "train"]
        for site in sites
        if site.takes_part
        for mine in [manifests[site.name]]
    }
    for site in sites:
        judging = manifests[site.name]
        if site.takes_part:
            judging = judging[judging["split"] == "test"]
        for other, films in trained.items():
            if other != site.name and (shared := overlap(judging, films)):
                raise UserError(
                    f"{int(shared.films.sum())} films that would judge the model at {site.name} are, or show a patient "
                    f"who is, among the training films of {other}; take one of the two out, or ingest {site.name} "
                    f"again with --exclude and the film store of {other}"
                )


def rows_of(name: str, store: FilmStore, split: str | None, classes: tuple[str, ...]) -> np.ndarray:
    """The rows of a split (None: all) whose class the reference knows; other films cannot be scored and stay out."""
    labels, splits = store.manifest["label"], store.manifest["split"]
    known = labels.isin(classes).to_numpy()
    if not known.any():
        raise UserError(
            f"site {name!r} has no film of a class that the reference set knows ({', '.join(classes)}); "
            "check its labels, or build the reference with its classes"
        )
    return np.flatnonzero(known & (splits == split).to_numpy() if split else known)


def films_of(store: FilmStore, rows: np.ndarray, classes: tuple[str, ...]) -> Films:
    number = {label: k for k, label in enumerate(classes)}
    labels = store.manifest["label"].iloc[rows].map(number).to_numpy()
    return Films.of(np.asarray(store.films[rows]), labels)


def evaluation_set(
    store: FilmStore, rows: np.ndarray, split: str, site: str, classes: tuple[str, ...]
) -> EvaluationSet:
    about = store.manifest.iloc[rows][ABOUT].reset_index(drop=True)
    about.insert(0, "site", site)
    about.insert(0, "split", split)
    return EvaluationSet(films_of(store, rows, classes), about)


def reference_set(sources: FilmSources, split: str) -> EvaluationSet:
    reference = sources.reference
    return evaluation_set(reference.store, reference.rows(split), split, "reference", reference.classes)


def label_counts(federation: Federation) -> pd.DataFrame:
    """Training films of each class, a row a site."""
    rows = {
        name: np.bincount(federation.pools[site.pool].labels.numpy(), minlength=len(federation.classes))
        for name, site in federation.sites.items()
    }
    return pd.DataFrame(rows, index=list(federation.classes)).T


def privacy_of(site: HospitalSite) -> tuple[Privacy | None, bytes]:
    """How the site hides its updates, and the secret that its noise is drawn with."""
    return (site.privacy, site_key(key_file(site.name))) if site.privacy else (None, b"")
