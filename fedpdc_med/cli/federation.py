"""`fedpdc federation ...`: training across real hospitals, on NVIDIA FLARE."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    checked_run_name,
    checked_tau,
    method_settings,
    needs_flare,
    refuse_if_different,
)
from fedpdc_med.cli.simulate import print_result, wanted_of
from fedpdc_med.cli.terminal import console, print_checks, print_table
from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.paths import home
from fedpdc_med.common.processes import cores
from fedpdc_med.common.progress import progress

if TYPE_CHECKING:
    from fedpdc_med.runs.directory import Run

app = typer.Typer(no_args_is_help=True, help="Train across real hospitals with NVIDIA FLARE.")
app.callback()(needs_flare)

FLARE_STARTS, FLARE_ROUND = 25.0, 1.0  # seconds: until the first round begins, and per round on top of its training
Seed = Annotated[int, typer.Option(help="Random seed.")]
RoundsPerJob = Annotated[
    int, typer.Option(min=1, help="Rounds per FLARE job; a site that reconnects joins at the next job.")
]
Deadline = Annotated[float, typer.Option(min=1, help="Seconds to wait for the sites in each round.")]
MinResponses = Annotated[
    int | None, typer.Option(min=1, help="Close a round once this many sites have responded. Default: all.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")]


@contextlib.contextmanager
def following(label: str, rounds: int) -> Iterator[Callable[["Run"], None]]:
    """A progress bar that follows a run directory written by another process."""
    from fedpdc_med.runs.directory import read_run

    seen = 0
    with progress(label, rounds) as step:

        def on_round(run: "Run") -> None:
            nonlocal seen
            for record in read_run(run.folder).rounds[seen:]:
                seen += 1
                step(1, record.in_short())

        yield on_round


@app.command("try")
def try_out(
    sites: Annotated[
        Path | None, typer.Option(help="Folder of site files. Default: three of the bundled sites.")
    ] = None,
    method: Method = RECOMMENDED,
    settings: MethodSettings = None,
    rounds: Rounds = 5,
    tau: Tau = 1.0,
    model: Model = "densenet-small",
    norm: Norm = "batch",
    seed: Seed = 0,
    rounds_per_job: RoundsPerJob = 5,
    deadline: Deadline = 600.0,
    min_responses: MinResponses = None,
    clip: Clip = None,
    noise: Noise = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Run directory.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Try a complete federation on this machine: coordinator and sites as separate processes over mutual TLS.

    Films are synthetic, unless the site files in --sites name film stores.

    Example: fedpdc federation try --rounds 3
    """
    from fedpdc_med.engines.estimate import say_beforehand
    from fedpdc_med.engines.flare.coordinator_run import new_name
    from fedpdc_med.engines.flare.jobs import Pace
    from fedpdc_med.engines.flare.parties import Parties
    from fedpdc_med.engines.flare.trial import Trial, scratch, trial_sites
    from fedpdc_med.hospitals.build import local_federation, plan_for
    from fedpdc_med.methods import make_method
    from fedpdc_med.runs.directory import read_run
    from fedpdc_med.simulation.phantoms import open_films

    made = make_method(method, **method_settings(settings, method))
    tau, layers = checked_tau(tau), checked_norm(norm)
    hospitals = trial_sites(sites)
    if privacy := checked_privacy(clip, noise):
        hospitals = [site.model_copy(update={"privacy": privacy}) for site in hospitals]
    folder = out or home() / "runs" / f"federation-{method}-seed{seed}"
    checked_run_name(folder.name, f"--out {folder}")
    sources = open_films(hospitals, None, seed, workers or cores())
    plan = plan_for(
        made, sources.reference, rounds=rounds, model=model, norm=layers, tau=tau, seed=seed, run=new_name()
    )
    pace = Pace(rounds_per_job, deadline, min_responses, min_sites=len(hospitals), wait=300)
    one_machine = local_federation(hospitals, sources, plan)
    one_machine.check()
    say_beforehand(one_machine, folder, rounds, min(cores(), len(hospitals)), more=FLARE_STARTS + FLARE_ROUND * rounds)
    with scratch() as place, Parties() as parties, following(method, rounds) as on_round:
        trial = Trial(place, hospitals, sources)
        run = trial.begin(folder, plan, overwrite)
        trial.start(parties)
        trial.run(run, pace, on_round)
    print_result({method: read_run(folder)}, method)


@app.command()
def provision(
    project: Annotated[
        Path, typer.Argument(help="project.toml: names the coordinator, the hospitals and the administrators.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the kits.")] = Path("kits"),
) -> None:
    """Make a startup kit for the coordinator, each hospital and each administrator; existing kits are kept.

    Example: fedpdc federation provision project.toml --out kits
    """
    from fedpdc_med.engines.flare.project import read_project
    from fedpdc_med.engines.flare.provision import AUTHORITY
    from fedpdc_med.engines.flare.provision import provision as make_kits

    made = make_kits(read_project(project), out)
    for kit in made:
        console.print(f"{kit.role:13}  {out / kit.name}")
    console.print(
        f"{len(made)} new kits. Send each kit to its owner over a secure channel; READ_ME_FIRST.md inside explains "
        "the setup."
    )
    console.print(f"Keep {out / AUTHORITY} to yourself: anyone who has it can make kits.")


@app.command()
def start(kit: Annotated[Path, typer.Argument(help="The startup kit of the coordinator or of a hospital.")]) -> None:
    """Run the coordinator or a hospital in the foreground, until Ctrl-C.

    Example: FEDPDC_HOME=/srv/fedpdc/data fedpdc federation start /srv/fedpdc/harbor-general
    """
    from fedpdc_med.engines.flare.parties import run_kit

    run_kit(kit)


@app.command()
def check(kit: Annotated[Path, typer.Argument(help="A startup kit.")]) -> None:
    """Check that a startup kit is ready: certificate, key, films, policies, connection to the coordinator.

    Example: fedpdc federation check /srv/fedpdc/harbor-general
    """
    from fedpdc_med.engines.flare.preflight import check_kit

    if not print_checks(check_kit(kit)):
        raise WorkFailed("the kit is not ready to start")


@app.command()
def run(
    kit: Annotated[Path, typer.Argument(help="The startup kit of an administrator with the role lead.")],
    project: Annotated[Path, typer.Option(help="The project file, which names the hospitals.")] = Path("project.toml"),
    name: Annotated[str, typer.Option(help="Name of the run, a folder in $FEDPDC_HOME/runs.")] = "federation",
    method: Method = RECOMMENDED,
    settings: MethodSettings = None,
    rounds: Rounds = 20,
    tau: Tau = 1.0,
    model: Model = "densenet-small",
    norm: Norm = "batch",
    seed: Seed = 0,
    rounds_per_job: RoundsPerJob = 5,
    deadline: Deadline = 1800.0,
    min_responses: MinResponses = None,
    min_sites: Annotated[
        int, typer.Option(min=1, help="Number of sites that must be connected before a job starts.")
    ] = 2,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait until --min-sites are connected.")] = 3600.0,
    overwrite: Overwrite = False,
) -> None:
    """Start a run, or continue it from its last checkpoint. Run this on the coordinator's machine.

    Example: fedpdc federation run kits/lead@example.org --rounds 20 --name first
    """
    from fedpdc_med.engines.flare.coordinator_run import check_classes, check_reference, new_name, start_run
    from fedpdc_med.engines.flare.jobs import Pace, run_jobs
    from fedpdc_med.engines.flare.project import read_project
    from fedpdc_med.engines.flare.trial import draw_skew
    from fedpdc_med.hospitals.build import plan_for
    from fedpdc_med.imaging.reference import read_reference
    from fedpdc_med.methods import make_method
    from fedpdc_med.runs.directory import read_run
    from fedpdc_med.runs.schema import FederationRun

    folder = home() / "runs" / checked_run_name(name, f"--name {name}")
    agreed, reference = read_project(project), read_reference(home() / "reference")
    check_classes(reference, agreed.classes)
    made = make_method(method, **method_settings(settings, method))
    tau, layers = checked_tau(tau), checked_norm(norm)
    plan = plan_for(made, reference, rounds=rounds, model=model, norm=layers, tau=tau, seed=seed, run=new_name())
    if (folder / "config.toml").exists() and not overwrite:
        opened = read_run(folder)
        if not isinstance(opened.config, FederationRun):
            raise UserError(f"{folder} contains a run made on one machine, not a federation run; choose another --name")
        remedy = "choose another --name, or use --overwrite"
        refuse_if_different(folder, wanted_of(opened.plan), wanted_of(plan), remedy)
        check_reference(opened.config, reference)
    else:
        opened = start_run(folder, plan, agreed.sites, reference, overwrite)
    pace = Pace(rounds_per_job, deadline, min_responses, min_sites, wait)
    if opened.finished:
        console.print(
            f"Nothing to train: {name} has already completed all {rounds} rounds. To train longer, start a new run "
            "with another --name and more --rounds."
        )
    else:
        with following(method, rounds) as on_round:
            run_jobs(kit, plan.model_copy(update={"run": opened.plan.run}), opened, list(agreed.sites), pace, on_round)
        draw_skew(folder)
    print_result({method: read_run(folder)}, method)


@app.command()
def status(
    kit: Annotated[Path, typer.Argument(help="The startup kit of an administrator.")],
    name: Annotated[str | None, typer.Option(help="Name of the run. Default: the most recently updated run.")] = None,
) -> None:
    """Show who is connected, the current round, and the last score and weight of each site.

    Example: fedpdc federation status kits/lead@example.org
    """
    from fedpdc_med.engines.flare.status import latest_run, status_of, who_is_there
    from fedpdc_med.runs.directory import read_run

    runs = home() / "runs"
    found = read_run(runs / checked_run_name(name, f"--name {name}")) if name else latest_run(runs)
    now = status_of(found, who_is_there(kit))
    title = "Connected sites" if found is None else f"{found.folder.name}: round {now.round} of {now.rounds}"
    rows = []
    for site in now.sites:
        numbers = ["" if value is None else f"{value:.2f}" for value in (site.score, site.weight)]
        rows.append([site.site, "yes" if site.connected else "no", site.status, *numbers, site.reason])
    columns = ["site", "connected", "last round", "score", "weight", "reason"]
    print_table(f"{title}{', finished' if now.finished else ''}", columns, rows)
    if found is None:
        console.print(
            f"There is no federation run in {runs}. Rounds, scores and weights are stored on the coordinator's "
            "machine; to see them, run this command there with its FEDPDC_HOME."
        )
