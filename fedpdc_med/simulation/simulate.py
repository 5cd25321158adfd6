"""`fedpdc simulate`: the federation over hospital sites, one run directory a method."""

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import only_writer
from fedpdc_med.common.paths import shipped
from fedpdc_med.federation.data import Federation
from fedpdc_med.federation.run import run_rounds
from fedpdc_med.hospitals.build import FilmSources, build, label_counts
from fedpdc_med.hospitals.site import HospitalSite, load_sites
from fedpdc_med.methods import Method, make_method
from fedpdc_med.runs.directory import Run, begin_run, git_commit, versions, without_none
from fedpdc_med.runs.label_distribution import label_distribution
from fedpdc_med.runs.plan import Privacy
from fedpdc_med.simulation.phantoms import open_films


class Settings(BaseModel):
    """What fixes a simulation, apart from the method and the films."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: int = Field(default=20, ge=1)
    tau: float = Field(default=1.0, gt=0, le=1)
    model: str = "densenet-small"
    norm: Literal["batch", "group"] = "batch"
    seed: int = 0
    privacy: Privacy | None = None  # of every site, in place of what its module says


def start(
    settings: Settings,
    method: Method,
    sites_folder: Path | None,
    sites: list[HospitalSite],
    sources: FilmSources,
    reference: Path | None,
    out: Path,
    overwrite: bool,
    workers: int,
) -> Run:
    federation = make(settings, method, sites, sources)
    federation.check()
    config = config_of(settings, method, sites, sources, federation, sites_folder, reference, out)
    with begin_run(out, config, overwrite) as run:
        counts = label_counts(federation)
        picture = run.folder / "label_distribution.png"
        label_distribution(counts.to_numpy(), list(counts.index), federation.classes, picture)
        run_rounds(federation, run, workers, method.name)
    return run


def resume(run: Run, sites_folder: Path | None, workers: int) -> None:
    """Continue a simulation; its hospitals and films must be the ones it was started with."""
    with only_writer(run.folder):
        _resume(run, sites_folder, workers)


def _resume(run: Run, sites_folder: Path | None, workers: int) -> None:
    config = run.config
    settings = Settings(**config["simulation"])
    where = config["data"]
    if sites_folder is None and where.get("sites_folder"):  # modules are code, and a run may come from anybody
        named = Path(str(where["sites_folder"])).name
        raise UserError(
            f"{run.folder} was made with hospital modules of its own, in a folder called {named!r}; if they are yours, "
            f"say where they are: fedpdc resume {run.folder} --sites FOLDER"
        )
    sites = load_sites(sites_folder or shipped("sites"))
    sources = open_films(sites, beside(run.folder, where.get("reference_folder")), settings.seed, workers)
    if fingerprints(sources) != where["fingerprints"]:
        raise UserError(
            f"the films differ from the ones {run.folder} was started with; start a new run with --overwrite"
        )
    for site in sites:
        before, now = config["sites"][site.name], without_none(ways_of(site, settings))
        for key in ways_of(site, settings):
            if before.get(key) != now.get(key):
                raise UserError(
                    f"{key} of site {site.name!r} differ from what {run.folder} was started with "
                    f"({before.get(key)}); set them back, or start a new run with --overwrite"
                )
    run_rounds(make(settings, make_method(**config["method"]), sites, sources), run, workers, config["method"]["name"])


def ways_of(site: HospitalSite, settings: Settings) -> dict[str, Any]:
    """What a site's module says that changes its training."""
    privacy = settings.privacy or site.privacy
    return {
        "takes_part": site.takes_part,
        "settings": site.settings.model_dump(),
        "privacy": privacy.model_dump() if privacy else None,
    }


def make(settings: Settings, method: Method, sites: list[HospitalSite], sources: FilmSources) -> Federation:
    if settings.privacy:
        sites = [site.model_copy(update={"privacy": settings.privacy}) for site in sites]
    return build(
        sites,
        sources,
        method,
        model=settings.model,
        norm=settings.norm,
        rounds=settings.rounds,
        tau=settings.tau,
        seed=settings.seed,
    )


def config_of(
    settings: Settings,
    method: Method,
    sites: list[HospitalSite],
    sources: FilmSources,
    federation: Federation,
    sites_folder: Path | None,
    reference: Path | None,
    out: Path,
) -> dict[str, Any]:
    counts = label_counts(federation)
    described = {}
    for site in sites:
        store = sources.stores[site.name]
        training = counts.loc[site.name].to_dict() if site.takes_part else {}
        described[site.name] = {
            "title": site.title,
            "films": len(store.manifest),
            "films_of_other_classes": int((~store.manifest["label"].isin(federation.classes)).sum()),
            "patients": int(store.manifest["patient"].nunique()),
            "training_films": training,
            **ways_of(site, settings),
        }
    return {
        "kind": "simulation",
        "classes": list(federation.classes),
        "simulation": settings.model_dump(),
        "method": {"name": method.name, **method.model_dump()},
        "sites": described,
        "reference": sources.reference.facts,
        "data": {
            "fingerprints": fingerprints(sources),
            "sites_folder": seen_from(out, sites_folder),
            "reference_folder": seen_from(out, reference),
        },
        "versions": versions(),
        "git_commit": git_commit(),
    }


def fingerprints(sources: FilmSources) -> dict[str, str]:
    stores = {**sources.stores, "reference": sources.reference.store}
    return {name: store.info["manifest_sha256"][:16] for name, store in stores.items()}


def seen_from(out: Path, folder: Path | None) -> str | None:
    """A folder relative to the run, so that no path of the machine is recorded."""
    return os.path.relpath(folder, out) if folder else None


def beside(run: Path, folder: str | None) -> Path | None:
    return Path(os.path.normpath(run / folder)) if folder else None
