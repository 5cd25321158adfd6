"""The command line, `fedpdc`. Exit codes: 0 done, 1 the work failed, 2 the user's input was wrong."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedpdc_med import RESEARCH_USE_ONLY, __version__
from fedpdc_med.cli import benchmark, federation, reference
from fedpdc_med.cli import ingest as imaging
from fedpdc_med.cli import review as reviewing
from fedpdc_med.cli import simulate as simulation
from fedpdc_med.cli.terminal import print_result
from fedpdc_med.common import console as terminal
from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.interrupts import INTERRUPTED, STOPPED, ends_at_once
from fedpdc_med.common.paths import home

# Click's, or that of the click which newer versions of Typer carry inside.
UsageMistake: type[Exception] = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")
ERROR, FAILED = Text("error:", "bold red"), Text("failed:", "bold red")
AGAIN = "check the disc and its permissions, then give the same command again"
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=f"Hospitals train one chest X-ray classifier together, corrected by a public reference set (FedPDC). "
    f"{RESEARCH_USE_ONLY}",
)
app.command()(simulation.simulate)
app.command()(imaging.ingest)
app.command()(simulation.partition)
app.command()(simulation.compare)
app.command()(reviewing.review)
app.command()(reviewing.report)
benchmark.app.command("ingest-speed")(imaging.ingest_speed)
benchmark.app.command("review-speed")(reviewing.review_speed)
benchmark.app.command("federation-speed")(federation.federation_speed)
app.add_typer(reference.app, name="reference")
app.add_typer(benchmark.app, name="benchmark")
app.add_typer(federation.app, name="federation")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        print(f"fedpdc_med {__version__}")
        raise typer.Exit


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="The run directory, or its name in the runs folder.")],
    sites: Annotated[
        Path | None,
        typer.Option(help="Of a simulation with hospital modules of its own: their folder. A run never says it."),
    ] = None,
    data: benchmark.Data = None,
    workers: benchmark.Workers = None,
) -> None:
    """Continue an interrupted run from its last round, to the same bits as a run that was never stopped.

    Example: fedpdc resume fedpdc-data/runs/digits-fedpdc-quick-seed0
    """
    from fedpdc_med.benchmarks import results, tables
    from fedpdc_med.benchmarks.run import resume as resume_benchmark
    from fedpdc_med.runs.directory import read_run
    from fedpdc_med.simulation.simulate import resume as resume_simulation

    opened = read_run(run if run.exists() or run.is_absolute() else home() / "runs" / run)
    if "federation" in opened.config:
        raise UserError(f"{run} is a run across hospitals; continue it with: fedpdc federation run")
    workers = workers or benchmark.cores()
    if opened.config["kind"] == "simulation":
        with ends_at_once():
            resume_simulation(opened, sites, workers)
        print_result({opened.config["method"]["name"]: opened}, opened.config["method"]["name"])
    else:
        with ends_at_once():
            resume_benchmark(opened, data, workers)
        benchmark.show.results(tables.table([results.result_of(opened)]))


def main() -> None:
    """Run a command; a user's mistake is one line, never a stack trace."""
    error_console = terminal.console(stderr=True, soft_wrap=True)
    os.environ["PYTHONSAFEPATH"] = "1"  # no process that this one starts looks for Python in the current folder
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        error_console.print(ERROR, str(error))
        sys.exit(2)
    except WorkFailed as error:
        error_console.print(FAILED, str(error))
        sys.exit(1)
    except BrokenPipeError:  # whoever reads, such as `head`, has enough
        os._exit(1)
    except OSError as error:
        if not error.strerror:  # not the machine's, so a mistake of the program
            raise
        where = f": {error.filename}" if error.filename else ""
        error_console.print(FAILED, f"{error.strerror}{where}; {AGAIN}")
        sys.exit(1)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except UsageMistake as error:
        error.show()  # type: ignore[attr-defined]
        sys.exit(2)
    if code == INTERRUPTED:
        error_console.print(STOPPED)
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # without waiting for threads that the interrupt may have caught in the middle
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
