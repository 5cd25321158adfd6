"""`fedpdc review`, `fedpdc report` and `fedpdc benchmark review-speed`."""
# Heavy imports stand inside the commands, so that --help does not wait for them.

import json
import os
import secrets
import sys
import sysconfig
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedpdc_med import RESEARCH_USE_ONLY
from fedpdc_med.common import console as terminal
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import home

console = terminal.console()

# The same as .streamlit/config.toml, which only counts in the source tree: this machine only, no telemetry, no page of
# another site as a go-between.
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
    runs: Annotated[Path | None, typer.Argument(help="Folder of runs, or one run. Default: $FEDPDC_HOME/runs.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1024, max=65535, help="Default: 8501, or the next one that is free.")
    ] = None,
    browser: Annotated[
        bool,
        typer.Option(help="Also open the address; other accounts of this machine can see it while a browser starts."),
    ] = False,
) -> None:
    """Look at runs in a browser: can this model be trusted, and on which classes?

    Only this machine can reach the app, and on it only who knows the address that is printed.

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
    command = [sys.executable, "-P", "-m", "streamlit", "run", str(app_file()), *arguments]
    console.print(RESEARCH_USE_ONLY)
    console.print("Open the address below. It is a key: on this machine, whoever has it can use the app while it runs.")
    sys.stdout.flush()
    given = {
        "FEDPDC_HOME": str(home().resolve()),
        "FEDPDC_RUNS": str(folder.resolve()),
        "FEDPDC_RUN": chosen,
        # In the environment, because other accounts can read the arguments of a process.
        "STREAMLIT_SERVER_BASE_URL_PATH": secrets.token_urlsafe(16),
    }
    if data := os.environ.get("FEDPDC_DATA"):
        given["FEDPDC_DATA"] = str(Path(data).resolve())
    # The current folder may be a foreign one: nothing is imported from it (-P), and Streamlit reads no settings in it.
    os.chdir(app_file().parent)
    # This process becomes the app, so that Ctrl-C and a kill reach it.
    os.execve(sys.executable, command, {**os.environ, **given})


def checked_runs(folder: Path) -> tuple[Path, str]:
    """The folder of runs, and the run to show first if one is named."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; make a run with: fedpdc simulate, or name another folder")
    if (folder / "config.toml").is_file():
        return folder.resolve().parent, folder.resolve().name
    return folder, ""


def app_file() -> Path:
    """app.py: at the top of a source tree, or where the wheel put it."""
    in_source_tree = Path(__file__).resolve().parents[2] / "app.py"
    if in_source_tree.is_file():
        return in_source_tree
    return Path(sysconfig.get_path("data")) / "share" / "fedpdc_med" / "app.py"


def report(
    run: Annotated[Path, typer.Argument(help="The run directory.")],
    out: Annotated[Path | None, typer.Option(help="The file to write. Default: report.html in the run.")] = None,
) -> None:
    """Write one self-contained HTML page: model facts, tables, pictures and decisions; it prints well on A4.

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


def review_speed(
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
) -> None:
    """Open every page of the app on a run with 100,000 predictions, 50 sites and 20 classes, and time it.

    Example: fedpdc benchmark review-speed
    """
    from fedpdc_med.performance.review import CLASSES, LIMIT_SECONDS, PREDICTIONS, SITES, measure

    found = measure()
    if as_json:
        print(json.dumps(found))
        return
    title = f"{PREDICTIONS:,} predictions, {SITES} sites, {CLASSES} classes: seconds to draw"
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in ("page", "first load", "after the first load"):
        shown.add_column(column, justify="left" if column == "page" else "right")
    for row in found["pages"]:
        shown.add_row(row["page"], f"{row['first_load']:.2f}", f"{row['after_first_load']:.2f}")
    console.print(shown)
    slowest = max(row["after_first_load"] for row in found["pages"])
    verdict = "within" if slowest < LIMIT_SECONDS else "above"
    console.print(f"slowest after the first load: {slowest:.2f} s, {verdict} the {LIMIT_SECONDS:.0f} s it may take")
