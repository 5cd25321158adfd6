"""`fedpdc federation ...`: the same triage across hospitals, on NVIDIA FLARE."""
# Heavy imports stand inside the commands, so that --help does not wait for PyTorch or FLARE.

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fedpdc_med.cli.benchmark import METHOD_HELP, RECOMMENDED, Workers, cores
from fedpdc_med.cli.simulate import checked_norm, checked_privacy, checked_share, parse
from fedpdc_med.cli.terminal import print_result, table
from fedpdc_med.common import console as terminal
from fedpdc_med.common.errors import UserError, WorkFailed

if TYPE_CHECKING:
    from fedpdc_med.runs.directory import Run

console = terminal.console()
app = typer.Typer(no_args_is_help=True, help="The same triage across hospitals, on NVIDIA FLARE.")

MethodSettings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the method. May be repeated.")
]
Method = Annotated[str, typer.Option(help=METHOD_HELP)]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds of training.")]
Tau = Annotated[float, typer.Option(help="Share of the sites sampled in a round.")]
Model = Annotated[str, typer.Option(help="densenet-small, densenet121, resnet18, resnet50 or cnn.")]
Norm = Annotated[str, typer.Option(help="batch or group normalisation.")]
Seed = Annotated[int, typer.Option(help="Fixes every draw.")]
RoundsPerJob = Annotated[int, typer.Option(min=1, help="Rounds of one FLARE job; a returned site joins the next job.")]
Deadline = Annotated[float, typer.Option(min=1, help="Seconds a round waits for its sites.")]
MinResponses = Annotated[int | None, typer.Option(min=1, help="Close a round with so many answers. Default: all.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run that was made before.")]


@app.callback()
def needs_flare() -> None:
    if importlib.util.find_spec("nvflare") is None:
        raise UserError(
            "NVIDIA FLARE is not installed; in the checkout of fedpdc_med, install it with: "
            'pip install -e ".[federation]" -c constraints.txt'
        )


def checked_run(name: str, option: str) -> str:
    """A run's name travels in jobs and becomes a folder at the coordinator."""
    from fedpdc_med.common.paths import checked_name

    try:
        return checked_name(name)
    except UserError:
        raise UserError(
            f"{option}: a run's folder has lower-case letters, digits, - and _ only (at most 64), for example first-run"
        ) from None


@contextlib.contextmanager
def advising_name() -> Iterator[None]:
    """What a simulation's advice calls --out is --name here, and a run is continued without --resume."""
    try:
        yield
    except UserError as error:
        said = str(error).replace("another --out", "another --name").replace(" in place of --resume", "")
        raise UserError(said) from None


@contextlib.contextmanager
def following(label: str, rounds: int) -> Iterator[Callable[["Run"], None]]:
    """A progress bar fed from a run directory that another process writes."""
    from fedpdc_med.common.progress import progress
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
        Path | None, typer.Option(help="Folder of hospital modules. Default: three of those that come along.")
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
    clip: Annotated[
        float | None, typer.Option(help="Differential privacy at every site: clip updates to this length.")
    ] = None,
    noise: Annotated[float | None, typer.Option(help="And add noise of this spread, in clips.")] = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Run directory.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """A federation on this machine, really: coordinator and hospitals as processes over mutual TLS, phantom films.

    Example: fedpdc federation try --rounds 3
    """
    from fedpdc_med.common.paths import home
    from fedpdc_med.engines.flare.jobs import Pace
    from fedpdc_med.engines.flare.parties import Parties
    from fedpdc_med.engines.flare.trial import Trial, scratch, trial_sites
    from fedpdc_med.methods import make_method
    from fedpdc_med.runs.directory import read_run
    from fedpdc_med.simulation.phantoms import open_films
    from fedpdc_med.simulation.simulate import Settings

    made = make_method(method, **parse(settings or [], method))
    fixed = Settings(rounds=rounds, tau=checked_share(tau), model=model, norm=checked_norm(norm), seed=seed)
    hospitals = trial_sites(sites)
    if privacy := checked_privacy(clip, noise):
        hospitals = [site.model_copy(update={"privacy": privacy}) for site in hospitals]
    folder = out or home() / "runs" / f"federation-{method}-seed{seed}"
    checked_run(folder.name, f"--out {folder}")
    sources = open_films(hospitals, None, seed, workers or cores())
    pace = Pace(rounds_per_job, deadline, min_responses, min_sites=len(hospitals), wait=300)
    with scratch() as place, Parties() as parties, following(method, rounds) as on_round:
        trial = Trial(place, hospitals, sources)
        run = trial.begin(folder, fixed, made, overwrite)
        trial.start(parties)
        trial.run(run, pace, on_round)
    print_result({method: read_run(folder)}, method)


@app.command()
def provision(
    project: Annotated[Path, typer.Argument(help="project.toml: the coordinator, the hospitals, the administrators.")],
    out: Annotated[Path, typer.Option(help="Folder that gets the kits.")] = Path("kits"),
) -> None:
    """Make a start-up kit for the coordinator, each hospital and each administrator; kits that exist are kept.

    Example: fedpdc federation provision project.toml --out kits
    """
    from fedpdc_med.engines.flare.project import read_project
    from fedpdc_med.engines.flare.provision import AUTHORITY
    from fedpdc_med.engines.flare.provision import provision as make_kits

    made = make_kits(read_project(project), out)
    for kit in made:
        console.print(f"{kit.role:13}  {out / kit.name}")
    console.print(f"{len(made)} new kits. Hand each to its party by a safe way; READ_ME_FIRST.md in it says the rest.")
    console.print(f"Keep {out / AUTHORITY} to yourself: whoever has it can make kits.")


@app.command()
def start(kit: Annotated[Path, typer.Argument(help="The kit of the coordinator or of a hospital.")]) -> None:
    """Run a kit's process in the foreground, until Ctrl-C.

    Example: FEDPDC_HOME=/srv/fedpdc/data fedpdc federation start /srv/fedpdc/harbor-general
    """
    from fedpdc_med.engines.flare.parties import run_kit

    run_kit(kit)


@app.command()
def check(kit: Annotated[Path, typer.Argument(help="A start-up kit.")]) -> None:
    """Look whether a kit has all it needs: certificate, key, films, policy, a coordinator that answers.

    Example: fedpdc federation check /srv/fedpdc/harbor-general
    """
    from fedpdc_med.engines.flare.preflight import check_kit

    found = check_kit(kit)
    for one in found:
        console.print(Text("ok", "green") if one.holds else Text("NOT OK", "bold red"), f" {one.what}: {one.found}")
    if not all(one.holds for one in found):
        raise WorkFailed("the kit is not ready to start")


@app.command()
def run(
    kit: Annotated[Path, typer.Argument(help="An administrator's kit, role lead.")],
    project: Annotated[Path, typer.Option(help="The project file, for the names of the hospitals.")] = Path(
        "project.toml"
    ),
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
    min_sites: Annotated[int, typer.Option(min=1, help="Sites that must be connected before a job starts.")] = 2,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for them.")] = 3600.0,
    overwrite: Overwrite = False,
) -> None:
    """Start a federation's run, or continue it from its last checkpoint. On the coordinator's machine.

    Example: fedpdc federation run kits/lead@example.org --rounds 20 --name first
    """
    from fedpdc_med.cli.simulate import check_same
    from fedpdc_med.common.paths import home
    from fedpdc_med.engines.flare.coordinator_run import check_classes, check_reference, plan_of, start_run
    from fedpdc_med.engines.flare.jobs import Pace, run_jobs
    from fedpdc_med.engines.flare.project import read_project
    from fedpdc_med.engines.flare.trial import draw_skew
    from fedpdc_med.imaging.reference import read_reference
    from fedpdc_med.methods import make_method
    from fedpdc_med.runs.directory import read_run
    from fedpdc_med.simulation.simulate import Settings

    folder = home() / "runs" / checked_run(name, f"--name {name}")
    agreed, reference = read_project(project), read_reference(home() / "reference")
    check_classes(reference, agreed.classes)
    made = make_method(method, **parse(settings or [], method))
    fixed = Settings(rounds=rounds, tau=checked_share(tau), model=model, norm=checked_norm(norm), seed=seed)
    with advising_name():
        if (folder / "config.toml").exists() and not overwrite:
            opened = read_run(folder)
            if "federation" not in opened.config:
                raise UserError(f"{folder} holds a run of this machine alone, no federation's; choose another --name")
            check_same(opened, fixed, made)
            check_reference(opened.config, reference)
        else:
            opened = start_run(folder, fixed, made, agreed.sites, reference, overwrite)
    pace = Pace(rounds_per_job, deadline, min_responses, min_sites, wait)
    if opened.finished:
        console.print(
            f"Nothing was trained: {name} has all its {rounds} rounds. To train more, start a run with another --name "
            "and more --rounds."
        )
    else:
        with following(method, rounds) as on_round:
            run_jobs(kit, plan_of(opened.config, reference), opened, list(agreed.sites), rounds, pace, on_round)
        draw_skew(folder)
    print_result({method: read_run(folder)}, method)


@app.command()
def status(
    kit: Annotated[Path, typer.Argument(help="An administrator's kit.")],
    name: Annotated[str | None, typer.Option(help="The run. Default: the one that moved last.")] = None,
) -> None:
    """Who is connected, which round a run is in, and the last score and weight of each site.

    Example: fedpdc federation status kits/lead@example.org
    """
    from fedpdc_med.common.paths import home
    from fedpdc_med.engines.flare.status import latest_run, status_of, who_is_there
    from fedpdc_med.runs.directory import read_run

    runs = home() / "runs"
    found = read_run(runs / checked_run(name, f"--name {name}")) if name else latest_run(runs)
    now = status_of(found, who_is_there(kit))
    title = "Who is connected" if found is None else f"{found.folder.name}: round {now.round} of {now.rounds}"
    shown = table(f"{title}{', finished' if now.finished else ''}")
    for column in ("site", "connected", "last round", "score", "weight", "why"):
        shown.add_column(column, justify="right" if column in ("score", "weight") else "left")
    for site in now.sites:
        numbers = ["" if value is None else f"{value:.2f}" for value in (site.score, site.weight)]
        shown.add_row(site.site, "yes" if site.connected else "no", site.status, *numbers, site.reason)
    console.print(shown)
    if found is None:
        console.print(
            f"There is no federation's run in {runs}. Rounds, scores and weights are kept on the coordinator's "
            "machine: to see them, give this command there, with its FEDPDC_HOME."
        )


def federation_speed(
    rounds: Annotated[int, typer.Option(min=3, help="Rounds to time.")] = 6,
    model: Model = "densenet-small",
    workers: Workers = None,
) -> None:
    """Seconds a round beyond training: three hospitals over FLARE beside three processes of this machine.

    Example: fedpdc benchmark federation-speed
    """
    from fedpdc_med.performance.federation import measure

    needs_flare()
    shown = table(f"Seconds a round, median of {rounds - 1} rounds (the first of a job left out), three sites, {model}")
    for column in ("engine", "a round", "training of the slowest site", "beyond training"):
        shown.add_column(column, justify="left" if column == "engine" else "right")
    for one in measure(rounds, model, workers or cores()):
        shown.add_row(one.engine, f"{one.round:.2f}", f"{one.training:.2f}", f"{one.beyond:.2f}")
    console.print(shown)
