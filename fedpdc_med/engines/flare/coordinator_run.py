"""The coordinator's side of a federation: its reference set and run directory, but no films of any site."""

import contextlib
import json
import secrets
from collections.abc import Iterable
from pathlib import Path

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import only_writer, replace_text
from fedpdc_med.common.paths import home
from fedpdc_med.federation.data import CoordinatorData
from fedpdc_med.hospitals.build import coordinator_data
from fedpdc_med.hospitals.site import HospitalSite
from fedpdc_med.imaging.reference import Reference, read_reference
from fedpdc_med.methods import Method, method_of
from fedpdc_med.runs.directory import Run, create_run, git_commit, made_with, read_run, write_config
from fedpdc_med.runs.plan import Plan
from fedpdc_med.runs.schema import FederationRun, ReferenceFacts, Round, RunConfig, SiteSummary, StoreFingerprints

USUAL = HospitalSite.model_fields["settings"].default  # how the coordinator trains, if the method requires it


def checked(method: Method) -> Method:
    """Only methods in which sites share a model are useful between hospitals."""
    if method.parts().trains != "sites":
        raise UserError(f"method {method.name!r} shares no model between sites; run it with: fedpdc simulate")
    return method


def new_name() -> str:
    """A new random name for the plan of a run, so that what a site keeps is never used for another run."""
    return secrets.token_hex(8)


def start_run(folder: Path, plan: Plan, sites: dict[str, str], reference: Reference, overwrite: bool) -> Run:
    """A run directory like a simulation's; what only the sites know is added when they answer."""
    checked(method_of(plan.method))
    coordinator_data(reference, plan, sites, USUAL).check(plan)
    config = FederationRun(
        made_with=made_with(),
        git_commit=git_commit(),
        plan=plan,
        sites={name: SiteSummary(title=title) for name, title in sites.items()},
        reference=ReferenceFacts(**reference.facts),
        data=StoreFingerprints(fingerprints={"reference": reference.store.fingerprint}),
    )
    if not (overwrite and (folder / "config.toml").exists()):
        return create_run(folder, config)
    with only_writer(folder):
        (folder / "timing.jsonl").unlink(missing_ok=True)
        return create_run(folder, config, overwrite)


def federation_run(config: RunConfig) -> FederationRun:
    if not isinstance(config, FederationRun):
        raise UserError(f"this is a {config.kind} run, not a federation run")
    return config


def check_own(config: RunConfig, plan: Plan) -> None:
    """A job of a run that has since been replaced must not write to the new run."""
    if config.plan.run != plan.run:
        raise UserError(
            "the run was replaced (--overwrite) after this job was made; the old run is not trained further"
        )


def check_reference(config: FederationRun, reference: Reference) -> None:
    """Scores and weights of one run come from one reference set."""
    if config.data.fingerprints["reference"] != reference.store.fingerprint:
        raise UserError(
            f"the reference set is not the one this run started with (version {config.reference.version}, "
            f"{config.reference.films} films); restore that set in $FEDPDC_HOME/reference, or start a new run "
            "with another --name or with --overwrite"
        )


def check_classes(reference: Reference, agreed: tuple[str, ...]) -> None:
    """A hospital's filter knows only the classes in its kit: with any other class all training would be wasted."""
    unknown = [label for label in reference.classes if label not in agreed]
    if unknown:
        raise UserError(
            f"the reference set has films of {', '.join(unknown)}, which are not among the classes in project.toml; "
            "build the reference set without them, or agree on the classes and make new kits"
        )


def data_for(config: RunConfig, plan: Plan, sites: Iterable[str]) -> CoordinatorData:
    """The coordinator's part of a job; here sites are only names: their films and training settings stay with them."""
    reference = read_reference(home() / "reference")
    check_reference(federation_run(config), reference)
    return coordinator_data(reference, plan, sorted(sites), USUAL)


def record_counts(run: Run, counts: dict[str, dict[str, int]]) -> None:
    """How many films of each class each site trained on, as reported by the site."""
    config = read_run(run.folder).config
    said = {
        name: config.sites.get(name, SiteSummary()).model_copy(
            update={"training_films": by_class, "films": sum(by_class.values())}
        )
        for name, by_class in counts.items()
    }
    told = config.model_copy(update={"sites": {**config.sites, **said}})
    if told != config:
        write_config(run, told)


def record_time(run: Run, record: Round, training: dict[str, float]) -> None:
    """The duration of a round, and of the training at its slowest site, as measured by that site."""
    heard = [training[name] for name, site in record.sites.items() if site.status == "ok"]
    line = {"round": record.round, "seconds": record.seconds, "training": max(heard)}
    with (run.folder / "timing.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def say_stopped(run: Run, reason: str) -> None:
    """Why the last job stopped, for the command that started it; if this cannot be written, the log has the reason."""
    with contextlib.suppress(OSError):
        replace_text(run.folder / "stopped.json", json.dumps({"reason": reason}))
