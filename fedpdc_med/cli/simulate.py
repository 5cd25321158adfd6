"""`fedpdc simulate`, `fedpdc partition` and `fedpdc compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedpdc_med import RESEARCH_USE_ONLY
from fedpdc_med.cli.options import (
    RECOMMENDED,
    Clip,
    Method,
    MethodSettings,
    Model,
    Noise,
    Norm,
    Rounds,
    Tau,
    Workers,
    checked_norm,
    checked_privacy,
    checked_tau,
    listed,
    method_settings,
    refuse_if_different,
)
from fedpdc_med.cli.terminal import console, print_section, print_table
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.interrupts import ends_at_once
from fedpdc_med.common.paths import home, program, shipped, site_store
from fedpdc_med.common.processes import cores, start_server

if TYPE_CHECKING:
    from fedpdc_med.runs.directory import Run
    from fedpdc_med.runs.plan import Plan, Privacy
    from fedpdc_med.runs.schema import SimulationRun


def simulate(
    sites: Annotated[Path | None, typer.Option(help="Folder of site files. Default: the bundled sites.")] = None,
    method: Method = RECOMMENDED,
    compare: Annotated[
        str, typer.Option(help="Other methods to run on the same films and seed, comma-separated.")
    ] = "",
    settings: MethodSettings = None,
    rounds: Rounds = 20,
    tau: Tau = 1.0,
    model: Model = "densenet-small",
    norm: Norm = "batch",
    seed: Annotated[int, typer.Option(help="Random seed; each seed draws its own synthetic films.")] = 0,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the public reference set. Default: a synthetic one for synthetic sites, "
            "$FEDPDC_HOME/reference for sites with real films."
        ),
    ] = None,
    clip: Clip = None,
    noise: Noise = None,
    workers: Workers = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory; each compared method gets its own next to it.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue existing runs.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing runs.")] = False,
) -> None:
    """Simulate a federation on this machine and report recall per class.

    Examples:

      fedpdc simulate

      fedpdc simulate --compare solo,fedavg

      fedpdc simulate --method fedpdc --set correction=proximal --set strength=0.1
    """
    start_server()
    from fedpdc_med.hospitals.build import plan_for
    from fedpdc_med.hospitals.site import load_sites
    from fedpdc_med.methods import make_method
    from fedpdc_med.runs.directory import read_run
    from fedpdc_med.simulation import simulate as simulation
    from fedpdc_med.simulation.phantoms import open_films

    workers, privacy = workers or cores(), checked_privacy(clip, noise)
    tau, layers = checked_tau(tau), checked_norm(norm)
    made = {method: make_method(method, **method_settings(settings, method))}
    made |= {name: make_method(name) for name in listed(compare) if name != method}
    folders = {name: run_folder(out, name, method, made[name], seed, privacy, sites) for name in made}
    for folder in folders.values():
        if (folder / "config.toml").exists() and not (resume or overwrite):
            raise UserError(
                f"{folder} already contains a run: use --resume to continue it, --overwrite to replace it, "
                "or choose another --out"
            )
    hospitals = load_sites(sites or shipped("sites"))
    sources = open_films(hospitals, reference, seed, workers)
    runs: dict[str, Run] = {}
    for name, folder in folders.items():
        plan = plan_for(made[name], sources.reference, rounds=rounds, model=model, norm=layers, tau=tau, seed=seed)
        ahead = 0 if runs else len(folders)  # the first of them says what all will take
        with ends_at_once():
            if resume and (folder / "config.toml").exists():
                runs[name] = read_run(folder)
                config = same_run(runs[name], plan, privacy)
                if simulation.fingerprints(sources) != config.data.fingerprints:
                    raise UserError(f"{folder} contains a run with different sites or films; choose another --out")
                simulation.resume(runs[name], config, sites, workers, ahead)
            else:
                runs[name] = simulation.start(
                    plan,
                    hospitals,
                    sources,
                    folder,
                    overwrite=overwrite,
                    workers=workers,
                    privacy=privacy,
                    sites_folder=sites,
                    reference=reference,
                    runs=ahead,
                )
    print_result(runs, method)


def partition(
    site: Annotated[str, typer.Argument(help="The site whose film store is partitioned.")],
    sites: Annotated[int, typer.Option(min=2, help="Number of simulated sites.")] = 5,
    rule: Annotated[
        str, typer.Option(help="dirichlet, iid, quantity or labels-K, as in the benchmarks.")
    ] = "dirichlet",
    beta: Annotated[float, typer.Option(help="Skew of the Dirichlet rule; smaller is more skewed.")] = 0.3,
    seed: Annotated[int, typer.Option(help="Random seed of the partition.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the new site files, to use with simulate --sites.")] = Path(
        "hospitals"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the film stores and site files of an earlier partition.")
    ] = False,
) -> None:
    """Partition one film store into several simulated sites with skewed classes; no patient is in two sites.

    Example: fedpdc partition darkcovidnet --sites 3 --beta 0.3 --out hospitals
    """
    from fedpdc_med.imaging.store import read_store
    from fedpdc_med.simulation.partition_store import partition_store

    made = partition_store(read_store(site_store(site)), sites, rule, beta, out, seed, overwrite)
    classes = sorted({label for films in made.values() for label in films["label"]})
    rows = []
    for name, films in made.items():
        counts = [str(int((films["label"] == label).sum())) for label in classes]
        rows.append([name, *counts, str(len(films)), str(films["patient"].nunique())])
    print_table(f"{site}, partitioned into {sites} sites", ["site", *classes, "films", "patients"], rows)
    console.print(f"Next: {program()} simulate --sites {out}")


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories of fedpdc simulate: several methods and seeds.")],
    split: Annotated[str, typer.Option(help="Films to compare on: holdout, external or local.")] = "holdout",
    baseline: Annotated[str, typer.Option(help="Baseline method for the differences.")] = "fedavg",
    markdown: Annotated[Path | None, typer.Option(help="Also write the tables to this Markdown file.")] = None,
) -> None:
    """Compare finished simulations: mean ± SD over seeds, with significance tests against a baseline.

    Example: fedpdc compare fedpdc-data/runs/simulate-*
    """
    from fedpdc_med.common.description import as_markdown
    from fedpdc_med.evaluation.across_runs import labelled_by_setting, numbers_of
    from fedpdc_med.review.sections.across_runs import side_by_side
    from fedpdc_med.runs.directory import read_run

    section = side_by_side(
        labelled_by_setting([numbers_of(read_run(folder), split) for folder in runs]), split, baseline
    )
    print_section(section)
    if markdown:
        parts = [
            f"{one.title}:\n\n{as_markdown(list(one.frame.columns), one.frame.to_numpy().astype(str).tolist())}\n"
            for one in section.tables
        ]
        markdown.write_text("\n".join([*parts, f"{RESEARCH_USE_ONLY}\n"]), encoding="utf-8")
    console.print(RESEARCH_USE_ONLY)


def print_result(runs: "dict[str, Run]", main: str) -> None:
    """The closing tables of a simulation, and what to do next."""
    from fedpdc_med.review.sections.across_runs import closing

    for section in closing(runs, main):
        print_section(section)
    console.print(f"Run directories: {', '.join(str(run.folder) for run in runs.values())}", soft_wrap=True)
    console.print(f"Next, in your browser: {program()} review {runs[main].folder}", soft_wrap=True)
    if "solo" not in runs and runs[main].config.kind == "simulation":
        console.print("To compare with local-only training and FedAvg: add --compare solo,fedavg")
    console.print(RESEARCH_USE_ONLY)


def run_folder(
    out: Path | None,
    name: str,
    main: str,
    method: Any,
    seed: int,
    privacy: "Privacy | None" = None,
    sites: Path | None = None,
) -> Path:
    from fedpdc_med.methods import config_of, label

    if out is not None:
        return out if name == main else out.with_name(f"{out.name}-{name}")
    hidden = [f"clip={privacy.clip:g}", f"noise={privacy.noise:g}"] if privacy else []
    whose = [sites.resolve().name] if sites else []  # so that other sites do not use the folders of the bundled ones
    words = ["simulate", *whose, *label(config_of(method)).split(), *hidden, f"seed{seed}"]
    return home() / "runs" / "-".join(words)


def same_run(run: "Run", plan: "Plan", privacy: "Privacy | None") -> "SimulationRun":
    """--resume must not silently continue a run other than the one described."""
    from fedpdc_med.runs.schema import SimulationRun

    config = run.config
    if not isinstance(config, SimulationRun):
        raise UserError(f"{run.folder} contains a {config.kind} run, not a simulation; choose another --out")
    refuse_if_different(
        run.folder,
        {**wanted_of(config.plan), "privacy": config.privacy},
        {**wanted_of(plan), "privacy": privacy},
    )
    return config


def wanted_of(plan: "Plan") -> dict[str, Any]:
    """The parts of a plan that a command's options set."""
    network = {"model": plan.network.name, "norm": plan.network.norm}
    numbers = {"rounds": plan.rounds, "tau": plan.tau, "seed": plan.seed}
    return {"method": plan.method.name, **numbers, **network, **plan.method.settings}
