"""`fedpdc simulate`: a federation of sites on one machine, with one run directory per method."""

import os
from collections.abc import Sequence
from pathlib import Path

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import only_writer
from fedpdc_med.common.paths import shipped
from fedpdc_med.engines.local import run_rounds
from fedpdc_med.hospitals.build import FilmSources, local_federation, site_summaries, training_counts
from fedpdc_med.hospitals.site import HospitalSite, load_sites
from fedpdc_med.runs.directory import Run, begin_run, git_commit, made_with
from fedpdc_med.runs.label_distribution import label_distribution
from fedpdc_med.runs.plan import Plan, Privacy
from fedpdc_med.runs.schema import ReferenceFacts, SimulationRun, SiteSummary, StoreFingerprints
from fedpdc_med.simulation.phantoms import open_films


def start(
    plan: Plan,
    sites: Sequence[HospitalSite],
    sources: FilmSources,
    out: Path,
    *,
    overwrite: bool,
    workers: int,
    privacy: Privacy | None = None,  # for every site, instead of the settings in its site file
    sites_folder: Path | None = None,
    reference: Path | None = None,
    runs: int = 1,  # how many like this one the command has ahead; 0: it has said what they take
) -> Run:
    sites = hidden(sites, privacy)
    federation = local_federation(sites, sources, plan)
    federation.check()
    config = SimulationRun(
        made_with=made_with(),
        git_commit=git_commit(),
        plan=plan,
        sites=site_summaries(sites, sources, plan),
        privacy=privacy,
        reference=ReferenceFacts(**sources.reference.facts),
        data=StoreFingerprints(
            fingerprints=fingerprints(sources),
            sites_folder=seen_from(out, sites_folder),
            reference_folder=seen_from(out, reference),
        ),
    )
    with begin_run(out, config, overwrite) as run:
        counts = training_counts(config.sites, plan.classes)
        picture = run.folder / "label_distribution.png"
        label_distribution(counts.to_numpy(), list(counts.index), plan.classes, picture)
        run_rounds(federation, run, workers, plan.method.name, runs)
    return run


def resume(run: Run, config: SimulationRun, sites_folder: Path | None, workers: int, runs: int = 1) -> None:
    """Continue a simulation; its sites and films must be the ones it was started with."""
    if sites_folder is None and config.data.sites_folder:  # site files are code, and a run may come from anyone
        named = Path(config.data.sites_folder).name
        raise UserError(
            f"{run.folder} was made with its own site files, in a folder called {named!r}; if you trust them, name "
            f"their folder: fedpdc resume {run.folder} --sites FOLDER"
        )
    sites = load_sites(sites_folder or shipped("sites"))
    with only_writer(run.folder):
        sources = open_films(sites, beside(run.folder, config.data.reference_folder), config.plan.seed, workers)
        if fingerprints(sources) != config.data.fingerprints:
            raise UserError(
                f"the films differ from the ones {run.folder} was started with; start a new run with --overwrite"
            )
        sites = hidden(sites, config.privacy)
        for name, now in site_summaries(sites, sources, config.plan).items():
            check_same_ways(run, name, config.sites[name], now)
        run_rounds(local_federation(sites, sources, config.plan), run, workers, config.plan.method.name, runs)


def hidden(sites: Sequence[HospitalSite], privacy: Privacy | None) -> list[HospitalSite]:
    return [site.model_copy(update={"privacy": privacy}) if privacy else site for site in sites]


def check_same_ways(run: Run, site: str, before: SiteSummary, now: SiteSummary) -> None:
    """Check that the settings in a site file that affect training have not changed."""
    for key in ("takes_part", "settings", "privacy"):
        if getattr(before, key) != getattr(now, key):
            raise UserError(
                f"{key} of site {site!r} differs from the value that {run.folder} was started with "
                f"({getattr(before, key)}); change it back, or start a new run with --overwrite"
            )


def fingerprints(sources: FilmSources) -> dict[str, str]:
    stores = {**sources.stores, "reference": sources.reference.store}
    return {name: store.fingerprint for name, store in stores.items()}


def seen_from(out: Path, folder: Path | None) -> str | None:
    """A folder relative to the run, so that no path of the machine is recorded."""
    return os.path.relpath(folder, out) if folder else None


def beside(run: Path, folder: str | None) -> Path | None:
    return Path(os.path.normpath(run / folder)) if folder else None
