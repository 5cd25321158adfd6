"""The coordinator's end of a federation: its reference set, its run directory, no film of any site."""

import contextlib
import copy
import json
import secrets
from pathlib import Path
from typing import Any

from fedpdc_med import __version__
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import only_writer, replace_text
from fedpdc_med.common.paths import home
from fedpdc_med.federation.data import Federation, SiteFilms
from fedpdc_med.hospitals.build import PREPARATION, evaluation_set, films_of, processing_of
from fedpdc_med.hospitals.site import HospitalSite
from fedpdc_med.imaging.reference import Reference, read_reference
from fedpdc_med.methods import Method, config_of, make_method, method_of
from fedpdc_med.runs.directory import (
    Run,
    create_run,
    git_commit,
    read_run,
    versions,
    write_config,
)
from fedpdc_med.runs.plan import Network, Plan
from fedpdc_med.runs.schema import Round
from fedpdc_med.simulation.simulate import Settings

USUAL = HospitalSite.model_fields["settings"].default  # how the coordinator trains, if its method does


def checked(method: Method) -> Method:
    """Only methods in which sites share a model make sense between hospitals."""
    if method.parts().trains != "sites":
        raise UserError(f"method {method.name!r} shares no model between sites; run it with: fedpdc simulate")
    return method


def start_run(
    folder: Path, settings: Settings, method: Method, sites: dict[str, str], reference: Reference, overwrite: bool
) -> Run:
    """A run directory like a simulation's; what only the sites know is filled in when they answer."""
    checked(method)
    facts = reference.facts
    config = {
        "kind": "simulation",  # the same contract for reports and the review app
        "classes": list(reference.classes),
        "simulation": settings.model_dump(),
        "method": {"name": method.name, **method.model_dump()},
        "sites": {name: described(title) for name, title in sites.items()},
        "reference": facts,
        "data": {"fingerprints": {"reference": fingerprint(reference)}},
        "federation": {"engine": "nvflare", "run": secrets.token_hex(8)},
        "versions": versions(),
        "git_commit": git_commit(),
    }
    plan = plan_of(config, reference)
    federation_of(plan, settings, reference, list(sites)).check()
    if not (overwrite and (folder / "config.toml").exists()):
        return create_run(folder, config)
    with only_writer(folder):
        (folder / "timing.jsonl").unlink(missing_ok=True)
        return create_run(folder, config, overwrite)


def check_own(config: dict[str, Any], plan: Plan) -> None:
    """A job of a run that was since replaced must not write into its successor."""
    if config.get("federation", {}).get("run") != plan.run:
        raise UserError(
            "the run was replaced (--overwrite) since this job was made; the old one is not trained further"
        )


def check_reference(config: dict[str, Any], reference: Reference) -> None:
    """Scores and weights of one run come from one reference set."""
    if config["data"]["fingerprints"]["reference"] != fingerprint(reference):
        raise UserError(
            f"the reference set is not the one this run was started with (version {config['reference']['version']}, "
            f"{config['reference']['films']} films); put that one back into $FEDPDC_HOME/reference, or start a new run "
            "with another --name or with --overwrite"
        )


def check_classes(reference: Reference, agreed: tuple[str, ...]) -> None:
    """A hospital's filter knows the classes in its kit only: with another one, every site would train for nothing."""
    unknown = [label for label in reference.classes if label not in agreed]
    if unknown:
        raise UserError(
            f"the reference set has films of {', '.join(unknown)}, which project.toml does not name under classes; "
            "build the reference without them, or agree on the classes and make new kits"
        )


def fingerprint(reference: Reference) -> str:
    return str(reference.store.info["manifest_sha256"][:16])


def described(title: str) -> dict[str, Any]:
    return {"title": title, "takes_part": True, "films": 0, "training_films": {}}


def plan_of(config: dict[str, Any], reference: Reference) -> Plan:
    settings = Settings(**config["simulation"])
    return Plan(
        run=config["federation"]["run"],
        package=__version__,
        method=config_of(make_method(**config["method"])),
        network=Network(
            name=settings.model,
            channels=1,
            size=reference.store.info["size"],
            classes=len(config["classes"]),
            norm=settings.norm,
        ),
        classes=tuple(config["classes"]),
        preparation=PREPARATION,
        film_processing=processing_of(reference.store),
        rounds=settings.rounds,
        tau=settings.tau,
        seed=settings.seed,
    )


def coordinator_federation(config: dict[str, Any], plan: Plan, sites: list[str]) -> Federation:
    reference = read_reference(home() / "reference")
    check_reference(config, reference)
    return federation_of(plan, Settings(**config["simulation"]), reference, sites)


def federation_of(plan: Plan, settings: Settings, reference: Reference, sites: list[str]) -> Federation:
    """Sites are names here: their films, and how they train, are their own."""

    def split(name: str) -> Any:
        return evaluation_set(reference.store, reference.rows(name), name, "reference", reference.classes)

    reported = {name: split(name) for name in ("holdout", "weighting")}
    return Federation(
        method=method_of(plan.method),
        network=plan.network,
        classes=plan.classes,
        preparation=PREPARATION,
        pools=[],
        sites={name: SiteFilms(0, None, 1, USUAL, PREPARATION) for name in sorted(sites)},
        weighting=reported["weighting"].films,
        correction=films_of(reference.store, reference.rows("correction"), reference.classes),
        reported=reported,
        judge="holdout",
        rounds=settings.rounds,
        tau=settings.tau,
        seed=settings.seed,
    )


def record_counts(run: Run, counts: dict[str, dict[str, int]]) -> None:
    """How many films of each class a site trained on, as it said itself."""
    config = copy.deepcopy(read_run(run.folder).config)
    for site, by_class in counts.items():
        about = config["sites"].setdefault(site, described(""))
        about |= {"training_films": by_class, "films": sum(by_class.values())}
    if config != read_run(run.folder).config:
        write_config(run, config)


def record_time(run: Run, record: Round, training: dict[str, float]) -> None:
    """What a round took, and of it the training of its slowest site, as that site measured it."""
    heard = [training[name] for name, site in record.sites.items() if site.status == "ok"]
    line = {"round": record.round, "seconds": record.seconds, "training": max(heard)}
    with (run.folder / "timing.jsonl").open("a") as lines:
        lines.write(json.dumps(line) + "\n")


def say_stopped(run: Run, reason: str) -> None:
    """Why the last job stopped, for the command that started it; where even that cannot be written, the log has it."""
    with contextlib.suppress(OSError):
        replace_text(run.folder / "stopped.json", json.dumps({"reason": reason}))
