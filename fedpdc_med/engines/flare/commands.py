"""`fedpdc federation ...`: the same triage across hospitals, on NVIDIA FLARE."""
# Heavy imports stand inside the commands, so that --help does not wait for PyTorch or FLARE.

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedpdc_med.errors import UserError
from fedpdc_med.experiments.commands import METHOD_HELP, Workers, cores
from fedpdc_med.simulation.commands import checked_norm, checked_share, parse, print_result

if TYPE_CHECKING:
    from fedpdc_med.runs import Run

console = Console()
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
RoundsAJob = Annotated[int, typer.Option(min=1, help="Rounds of one FLARE job; a returned site joins the next job.")]
Deadline = Annotated[float, typer.Option(min=1, help="Seconds a round waits for its sites.")]
Enough = Annotated[int | None, typer.Option(min=1, help="Close a round with so many answers. Default: all.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run that was made before.")]


@app.callback()
def needs_flare() -> None:
    if importlib.util.find_spec("nvflare") is None:
        raise UserError('NVIDIA FLARE is not installed; install it with: pip install "fedpdc_med[federation]"')


@contextlib.contextmanager
def following(label: str, rounds: int) -> Iterator[Callable[["Run"], None]]:
    """A progress bar fed from a run directory that another process writes."""
    from fedpdc_med.progress import progress

    seen = 0
    with progress(label, rounds) as step:

        def heard(run: "Run") -> None:
            nonlocal seen
            for record in run.rounds()[seen:]:
                seen += 1
                left_out = [name for name, site in record["sites"].items() if site["status"] in ("failed", "rejected")]
                trouble = f", left out: {', '.join(left_out)}" if left_out else ""
                step(1, f"accuracy {record['accuracy']:.3f}, {record['seconds']:.1f} s a round{trouble}")

        yield heard


@app.command("try")
def try_out(
    sites: Annotated[
        Path | None, typer.Option(help="Folder of hospital modules. Default: three of those that come along.")
    ] = None,
    method: Method = "fedpdc",
    settings: MethodSettings = None,
    rounds: Rounds = 5,
    tau: Tau = 1.0,
    model: Model = "densenet-small",
    norm: Norm = "batch",
    seed: Seed = 0,
    rounds_a_job: RoundsAJob = 5,
    deadline: Deadline = 600.0,
    enough: Enough = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Run directory.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """A federation on this machine, really: coordinator and hospitals as processes over mutual TLS, phantom films.

    Example: fedpdc federation try --method fedpdc --set correction=reference --rounds 3
    """
    from fedpdc_med.algorithms import make_method
    from fedpdc_med.engines.flare.job import Pace
    from fedpdc_med.engines.flare.parties import Parties
    from fedpdc_med.engines.flare.trial import Trial, scratch, trial_sites
    from fedpdc_med.home import home
    from fedpdc_med.simulation.films import collect
    from fedpdc_med.simulation.simulate import Settings

    made = make_method(method, **parse(settings or [], method))
    fixed = Settings(rounds=rounds, tau=checked_share(tau), model=model, norm=checked_norm(norm), seed=seed)
    hospitals = trial_sites(sites)
    folder = out or home() / "runs" / f"federation-{method}-seed{seed}"
    collected = collect(hospitals, None, seed, workers or cores())
    pace = Pace(rounds_a_job, deadline, enough, least=len(hospitals), patience=300)
    with scratch() as place, Parties() as parties, following(method, rounds) as heard:
        trial = Trial(place, hospitals, collected)
        run = trial.begin(folder, fixed, made, overwrite)
        trial.start(parties)
        trial.run(run, pace, heard)
    print_result({method: run}, method)
