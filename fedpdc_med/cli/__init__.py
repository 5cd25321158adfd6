"""The command line, `fedpdc`. Exit codes: 0 success, 1 the work failed, 2 the user's input was wrong."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedpdc_med import RESEARCH_USE_ONLY, __version__
from fedpdc_med.cli import benchmark, federation, ingest, reference, review, simulate
from fedpdc_med.cli.options import Data, Workers
from fedpdc_med.cli.terminal import errors
from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.interrupts import INTERRUPTED, STOPPED, ends_at_once
from fedpdc_med.common.paths import home
from fedpdc_med.common.processes import cores, start_server

# Click's exception, or that of the copy of Click that newer versions of Typer include.
UsageMistake: type[Exception] = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")
ERROR, FAILED = Text("error:", "bold red"), Text("failed:", "bold red")
AGAIN = "check the disk and its permissions, then run the command again"
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Federated training of chest X-ray classifiers across skewed sites, corrected with a public reference set "
    f"(FedPDC). {RESEARCH_USE_ONLY}",
)
app.command()(simulate.simulate)
app.command()(ingest.ingest)
app.command()(simulate.partition)
app.command()(simulate.compare)
app.command()(review.review)
app.command()(review.report)
app.add_typer(reference.app, name="reference")
app.add_typer(benchmark.app, name="benchmark")
app.add_typer(federation.app, name="federation")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if show:
        print(f"fedpdc_med {__version__}")
        raise typer.Exit


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="The run directory, or its name in $FEDPDC_HOME/runs.")],
    sites: Annotated[
        Path | None,
        typer.Option(help="Folder of site files, if the simulation used its own: a run does not record where code is."),
    ] = None,
    data: Data = None,
    workers: Workers = None,
) -> None:
    """Resume an interrupted run from its last completed round; the result is bit-identical to an uninterrupted run.

    Example: fedpdc resume fedpdc-data/runs/digits-fedpdc-quick-seed0
    """
    start_server()
    from fedpdc_med.benchmarks.run import resume as resume_benchmark
    from fedpdc_med.runs.directory import read_run
    from fedpdc_med.runs.schema import BenchmarkRun, FederationRun
    from fedpdc_med.simulation.simulate import resume as resume_simulation

    opened = read_run(run if run.exists() or run.is_absolute() else home() / "runs" / run)
    config, workers = opened.config, workers or cores()
    if isinstance(config, FederationRun):
        raise UserError(f"{run} is a run across hospitals; continue it with: fedpdc federation run")
    if isinstance(config, BenchmarkRun):
        with ends_at_once():
            resume_benchmark(opened, config, data, workers)
        benchmark.print_result(opened)
    else:
        with ends_at_once():
            resume_simulation(opened, config, sites, workers)
        simulate.print_result({opened.method: opened}, opened.method)


def main() -> None:
    """Run a command; a user's mistake prints one line, never a stack trace."""
    os.environ["PYTHONSAFEPATH"] = "1"  # no process started from here imports Python code from the current folder
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        errors.print(ERROR, str(error), soft_wrap=True)
        sys.exit(2)
    except WorkFailed as error:
        errors.print(FAILED, str(error), soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:  # the reader of the pipe, such as `head`, has closed it
        os._exit(1)
    except OSError as error:
        if not error.strerror:  # not an error of the operating system, so a bug in the program
            raise
        where = f": {error.filename}" if error.filename else ""
        errors.print(FAILED, f"{error.strerror}{where}; {AGAIN}", soft_wrap=True)
        sys.exit(1)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except UsageMistake as error:
        error.show()  # type: ignore[attr-defined]
        sys.exit(2)
    if code == INTERRUPTED:
        errors.print(STOPPED, soft_wrap=True)
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # without waiting for threads that the interrupt may have left hanging
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
