"""`fedpdc review` and `fedpdc report`."""

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedpdc_med import RESEARCH_USE_ONLY
from fedpdc_med.cli.terminal import console
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import home, shipped

# The same as .streamlit/config.toml, which only applies in the source tree: served on this machine only, no telemetry,
# no requests from pages of other web sites.
SETTINGS: dict[str, str | list[str]] = {
    "server.address": "127.0.0.1",
    "server.allowedHosts": ["127.0.0.1", "localhost"],
    "server.enableCORS": "true",
    "server.enableXsrfProtection": "true",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "viewer",
    "client.showErrorDetails": "none",
    "theme.base": "light",
    "theme.primaryColor": "#0b5c8a",
    "theme.textColor": "#1b2733",
}


def review(
    runs: Annotated[
        Path | None, typer.Argument(help="Folder of runs, or one run directory. Default: $FEDPDC_HOME/runs.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=1024, max=65535, help="Default: 8501, or the next free port.")] = None,
    browser: Annotated[
        bool,
        typer.Option(
            help="Also open the address in a browser; other accounts on this machine can see it while it starts."
        ),
    ] = False,
) -> None:
    """Open the review app in your browser: can this model be trusted, and for which classes?

    The app is served on this machine only, at an address that cannot be guessed.

    Example: fedpdc review fedpdc-data/runs
    """
    folder, chosen = checked_runs(runs or home() / "runs")
    flags = {**SETTINGS, "server.headless": str(not browser).lower(), "server.showEmailPrompt": "false"}
    if port is not None:
        flags["server.port"] = str(port)
    arguments = [
        part
        for name, value in flags.items()
        for one in (value if isinstance(value, list) else [value])
        for part in (f"--{name}", one)
    ]
    command = [sys.executable, "-P", "-m", "streamlit", "run", str(shipped("app.py")), *arguments]
    console.print(RESEARCH_USE_ONLY)
    console.print("Open the address below. Keep it secret: anyone on this machine who has it can use the app.")
    sys.stdout.flush()
    given = {
        "FEDPDC_HOME": str(home().resolve()),
        "FEDPDC_RUNS": str(folder.resolve()),
        "FEDPDC_RUN": chosen,
        # Passed in the environment, because other accounts can read the arguments of a process.
        "STREAMLIT_SERVER_BASE_URL_PATH": secrets.token_urlsafe(16),
    }
    if data := os.environ.get("FEDPDC_DATA"):
        given["FEDPDC_DATA"] = str(Path(data).resolve())
    # The current folder may be anyone's: nothing is imported from it (-P), and Streamlit reads no settings in it.
    os.chdir(shipped("app.py").parent)
    # This process becomes the app, so that Ctrl-C and a kill reach it.
    os.execve(sys.executable, command, {**os.environ, **given})


def checked_runs(folder: Path) -> tuple[Path, str]:
    """The folder of runs, and the run to show first, if one was named."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; make a run with: fedpdc simulate, or name another folder")
    if (folder / "config.toml").is_file():
        return folder.resolve().parent, folder.resolve().name
    return folder, ""


def report(
    run: Annotated[Path, typer.Argument(help="The run directory.")],
    out: Annotated[Path | None, typer.Option(help="The file to write. Default: report.html in the run.")] = None,
) -> None:
    """Write a self-contained HTML report: model facts, tables, figures and sign-off decisions. Prints on A4.

    Example: fedpdc report fedpdc-data/runs/simulate-fedpdc-seed0 --out report.html
    """
    from fedpdc_med.review.html_report import make_report
    from fedpdc_med.runs.listing import open_run

    folder = run.resolve()
    if not folder.is_dir():
        raise UserError(f"{run}: there is no such folder; name a run directory")
    file = out or run / "report.html"
    text = make_report(open_run(folder.parent, folder.name))
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}; name another file with --out") from None
    console.print(f"Report written: {file}", soft_wrap=True)
