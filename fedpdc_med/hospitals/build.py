"""Makes the three parts of a federation from sites, film stores and a public reference set."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from fedpdc_med import __version__
from fedpdc_med.common.description import count
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import key_file
from fedpdc_med.federation.data import CoordinatorData, EvaluationSet, LocalFederation, SiteData, usual_settings
from fedpdc_med.federation.images import Films
from fedpdc_med.hospitals.site import HospitalSite
from fedpdc_med.imaging.dicom.deidentify import site_key
from fedpdc_med.imaging.duplicates import check_overlap, overlap
from fedpdc_med.imaging.reference import Reference
from fedpdc_med.imaging.store import FilmStore
from fedpdc_med.methods import Method, config_of
from fedpdc_med.runs.plan import FilmProcessing, LocalSettings, Network, Plan, Preparation
from fedpdc_med.runs.schema import SiteSummary

# No left-right flip: the heart is on one side. Normalisation is fixed, so that a site's statistics do not leave it.
PREPARATION = Preparation(mean=(110.0,), std=(60.0,), per_image=True, rotate=5.0, shift=0.04, zoom=0.05, contrast=0.1)
ABOUT = ["film", "patient", "label", "sex", "age_band", "view", "source"]


@dataclass(frozen=True)
class FilmSources:
    """The available films: each site's store, and the public reference set."""

    stores: dict[str, FilmStore]
    reference: Reference


def plan_for(
    method: Method,
    reference: Reference,
    *,
    rounds: int,
    model: str = "densenet-small",
    norm: Literal["batch", "group"] = "batch",
    tau: float = 1.0,
    seed: int = 0,
    run: str = "",
) -> Plan:
    """What all parties agree on; the classes and the preparation of films are those of the reference set."""
    classes = reference.classes
    size = reference.store.info["size"]
    return Plan(
        package=__version__,
        run=run,
        method=config_of(method),
        network=Network(name=model, channels=1, size=size, classes=len(classes), norm=norm),
        classes=classes,
        preparation=PREPARATION,
        film_processing=processing_of(reference.store),
        rounds=rounds,
        tau=tau,
        seed=seed,
    )


def coordinator_data(
    reference: Reference,
    plan: Plan,
    sites: Iterable[str],
    settings: LocalSettings,
    more: Mapping[str, EvaluationSet] | None = None,
) -> CoordinatorData:
    """The coordinator's part; `more`: further sets to predict at the end, if all films are on one machine."""
    splits = {
        name: evaluation_set(reference.store, reference.rows(name), name, "reference", plan.classes)
        for name in ("holdout", "weighting")
    }
    return CoordinatorData(
        sites=tuple(sites),
        weighting=splits["weighting"].films,
        correction=films_of(reference.store, reference.rows("correction"), plan.classes),
        settings=settings,
        evaluation={**splits, **(more or {})},
        reported="holdout",
    )


def site_data(site: HospitalSite, store: FilmStore, plan: Plan, releases: Path | None = None) -> SiteData:
    """A site's part."""
    rows = rows_of(site.name, store, "train", plan.classes)
    films = films_of(store, rows, plan.classes)
    secret = site_key(key_file(site.name)) if site.privacy else b""
    return SiteData(site.name, films, None, site.settings, site.privacy, secret, releases)


def local_federation(sites: Sequence[HospitalSite], sources: FilmSources, plan: Plan) -> LocalFederation:
    """All parts on one machine, after checking their films against each other."""
    check_alike(sources)
    check_sites_apart(sites, sources)
    training: dict[str, SiteData] = {}
    testing: dict[str, EvaluationSet] = {}
    for site in sites:
        store = sources.stores[site.name]
        check_overlap(site.name, store.manifest, sources.reference.store.manifest)
        if site.takes_part:
            training[site.name] = site_data(site, store, plan)
            rows = rows_of(site.name, store, "test", plan.classes)
            if len(rows):
                testing[f"local:{site.name}"] = evaluation_set(store, rows, "local", site.name, plan.classes)
        else:
            rows = rows_of(site.name, store, None, plan.classes)
            testing[f"external:{site.name}"] = evaluation_set(store, rows, "external", site.name, plan.classes)
    settings = usual_settings([site.settings for site in sites if site.takes_part])
    return LocalFederation(plan, coordinator_data(sources.reference, plan, training, settings, testing), training)


def check_alike(sources: FilmSources) -> None:
    for name, store in sources.stores.items():
        check_processing(name, store, processing_of(sources.reference.store))


def check_processing(name: str, store: FilmStore, wanted: FilmProcessing | None) -> None:
    """A site whose films were processed differently from the reference set would be scored too low."""
    if processing_of(store) != wanted:
        raise UserError(
            f"site {name!r} was ingested with {processing_of(store)}, but the reference set was built with {wanted}; "
            "use the same options for both and ingest or build again"
        )


def processing_of(store: FilmStore) -> FilmProcessing:
    """How a store's films were resized."""
    how = store.info["processing"]
    return FilmProcessing(size=store.info["size"], fit=how.get("fit", "pad"), equalise=bool(how.get("equalise", False)))


def check_sites_apart(sites: Sequence[HospitalSite], sources: FilmSources) -> None:
    """A film or patient that one site trains on must not test the model at another."""
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
                    f"test films at {site.name} are also training films at {other}, or show one of its training "
                    f"patients ({count(int(shared.films.sum()), 'film')}); remove one of the two sites, or ingest "
                    f"{site.name} again with --exclude and the film store of {other}"
                )


def rows_of(name: str, store: FilmStore, split: str | None, classes: tuple[str, ...]) -> np.ndarray:
    """The rows of a split (None: all) whose class is in the reference set; other films cannot be scored."""
    labels, splits = store.manifest["label"], store.manifest["split"]
    known = labels.isin(classes).to_numpy()
    if not known.any():
        raise UserError(
            f"site {name!r} has no films of the reference set's classes ({', '.join(classes)}); "
            "check its labels, or build the reference set with its classes"
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


def site_summaries(sites: Sequence[HospitalSite], sources: FilmSources, plan: Plan) -> dict[str, SiteSummary]:
    """What a run records about its sites."""
    found = {}
    for site in sites:
        manifest = sources.stores[site.name].manifest
        training = manifest.loc[manifest["split"] == "train", "label"].value_counts()
        found[site.name] = SiteSummary(
            title=site.title,
            takes_part=site.takes_part,
            films=len(manifest),
            patients=int(manifest["patient"].nunique()),
            films_of_other_classes=int((~manifest["label"].isin(plan.classes)).sum()),
            training_films={name: int(training.get(name, 0)) for name in plan.classes} if site.takes_part else {},
            settings=site.settings,
            privacy=site.privacy,
        )
    return found


def training_counts(sites: Mapping[str, SiteSummary], classes: Sequence[str]) -> pd.DataFrame:
    """Training films of each class, one row per participating site."""
    rows = {name: about.training_films for name, about in sites.items() if about.takes_part}
    return pd.DataFrame(rows).T.reindex(columns=list(classes)).fillna(0).astype(np.int64)
