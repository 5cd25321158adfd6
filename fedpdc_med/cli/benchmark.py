"""`fedpdc benchmark ...`: the paper's experiments from the command line.

Heavy imports stand inside the commands, so that --help does not wait for PyTorch.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedpdc_med.benchmarks import show
from fedpdc_med.common import console as terminal
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.interrupts import ends_at_once
from fedpdc_med.common.paths import home

if TYPE_CHECKING:
    from fedpdc_med.benchmarks.catalogue import Experiment
    from fedpdc_med.methods import Method

app = typer.Typer(no_args_is_help=True, help="The paper's benchmarks: FedPDC against FedAvg, FedProx, MOON and SOLO.")
console, error_console = terminal.console(), terminal.console(stderr=True)

Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder that holds the images, in their official layout.", envvar="FEDPDC_DATA", show_envvar=True
    ),
]
RECOMMENDED = "fedpdc-ce"  # docs/recommended.md says why
METHOD_HELP = (
    "fedpdc-ce (recommended); the paper's: fedpdc, fedavg, fedprox, moon or solo; other uses of the public set: "
    "abavg, data-sharing, server-finetune, learned-weights; without federation: reference-only, pooled."
)
Runs = Annotated[
    list[Path] | None,
    typer.Argument(help="Run directories, kept results (.json), or folders of either. Default: all finished runs."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Processes to train with; the result does not depend on it. Default: the cores there are."
    ),
]


@app.command("list")
def list_experiments() -> None:
    """Show the experiments, what they need and what the paper found.

    Example: fedpdc benchmark list
    """
    from fedpdc_med.benchmarks import catalogue

    methods = ("fedavg", "fedprox", "moon", "solo", "fedpdc")
    table = Table(title="Experiments, and the accuracy that the paper prints for each, per cent", title_justify="left")
    table.box, table.pad_edge = SIMPLE_HEAD, False
    table.add_column("name", no_wrap=True)
    for column in methods:
        table.add_column(column, justify="right")
    for name in catalogue.names():
        paper = catalogue.published(name)
        table.add_row(name, *[str(paper.get(method, "")) for method in methods])
    console.print(table)
    console.print("digits needs no download; the ResNets want a GPU; b is the Dirichlet skew, smaller is more.")
    console.print("Start one:  fedpdc benchmark run digits --method fedpdc")


@app.command("run")
def run_experiment(
    experiment: Annotated[str, typer.Argument(help="A name of `fedpdc benchmark list`, or your own .toml file.")],
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = "fedpdc",
    preset: Annotated[str, typer.Option(help="quick (2 epochs, 20 rounds) or paper (the paper's numbers).")] = "quick",
    rounds: Annotated[int | None, typer.Option(min=1, help="In place of the preset's.")] = None,
    seed: Annotated[int, typer.Option(help="Fixes every draw: public set, partition, weights, batches.")] = 0,
    workers: Workers = None,
    data: Data = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch CIFAR into the data folder if absent.")] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory. Default: one named after the run.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=(
                "Any setting of the method or the experiment, for instance correction=soft-accuracy, strength=1, "
                "weighting=sharpened, mu=0.1, beta=0.5, tau=0.3, public_per_class=10. May be repeated."
            ),
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out if there is one.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
) -> None:
    """Run one experiment with one method.

    Examples:

      fedpdc benchmark run digits --method fedpdc

      fedpdc benchmark run cifar10-cnn-b0.1 --method fedpdc --set correction=soft-accuracy --data ~/data
    """
    from fedpdc_med.benchmarks import catalogue, results, tables
    from fedpdc_med.benchmarks import run as benchmark
    from fedpdc_med.methods import make_method
    from fedpdc_med.runs.directory import read_run

    chosen, overrides = parse_settings(settings or [], method)
    if rounds is not None:
        overrides["rounds"] = rounds
    resolved = catalogue.make_experiment(experiment, preset, method, seed=seed, **overrides)
    made = make_method(method, **chosen)
    folder = out or home() / "runs" / results.run_name(resolved, made)
    with ends_at_once():
        if resume and (folder / "config.toml").exists():
            check_same(folder, resolved, made)
            run = read_run(folder)
            benchmark.resume(run, data, workers or cores())
        else:
            run = benchmark.start(resolved, made, data, download, folder, overwrite, workers or cores())
    show.results(tables.table([results.result_of(run)]))
    console.print(f"Run directory: {folder}")


@app.command()
def table(
    runs: Runs = None,
    keep: Annotated[
        Path | None, typer.Option(help="Also write one small JSON file a run, and the figures, into this folder.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the tables to this file, as Markdown.")] = None,
    chosen: Annotated[
        bool, typer.Option("--chosen", help="Of each method only the setting that `fedpdc benchmark choose` marks.")
    ] = False,
    cost: Annotated[
        Path | None, typer.Option(help="A file of `fedpdc benchmark cost --keep`: adds each method's time of a round.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Show finished runs beside the paper's numbers: mean and spread over seeds, rounds to reach FedAvg, cost.

    Examples:

      fedpdc benchmark table

      fedpdc benchmark table docs/results --cost docs/cost.json

      fedpdc benchmark table --keep docs/results
    """
    from fedpdc_med.benchmarks import figures, results, tables

    folders, found = finished(runs)
    shown = tables.chosen(found) if chosen else found
    rows = tables.table(shown, tables.read_cost(cost) if cost else None)
    show.results(rows, as_json)
    if markdown is not None:
        markdown.write_text(show.markdown(rows))
    if keep is not None:
        results.keep(found, keep)
        pictures = figures.draw(shown, keep)
        pictures += figures.label_distributions([run for folder in folders for run in results.runs_at(folder)], keep)
        show.console.print(f"Kept {len(found)} results and {pictures} pictures in {keep}")


@app.command()
def choose(
    runs: Runs = None, as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False
) -> None:
    """Compare the settings of a method by their score on the reference, without showing a test accuracy.

    Examples:

      fedpdc benchmark run digits --method fedprox --set mu=0.1

      fedpdc benchmark run digits --method fedprox --set mu=1

      fedpdc benchmark choose
    """
    from fedpdc_med.benchmarks import tables

    _, found = finished(runs)
    show.scores(tables.by_score(found), as_json)


@app.command()
def speed(
    workers: Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Interleaved repetitions of the three loops.")] = 3,
) -> None:
    """Compare a whole FedPDC round with bare PyTorch loops and the usual DataLoader loop, and measure memory.

    Example: fedpdc benchmark speed
    """
    from fedpdc_med.performance.training import measure

    found = measure(workers or cores(), repeats)
    if as_json:
        print(json.dumps(found))
        return
    limit, usual = found["limit_images_per_second"], found["usual_images_per_second"]
    ours = found["federation_images_per_second"]
    shown = Table(title=f"The paper's CNN, 10 sites, batch 64, {found['workers']} workers", title_justify="left")
    for column in ("loop", "images a second", "of the limit", "of the usual"):
        shown.add_column(column, justify="left" if column == "loop" else "right")
    for name, rate in (
        ("federation: a whole FedPDC round, scoring and averaging included", ours),
        ("limit: bare PyTorch loops on batches in memory, no augmentation", limit),
        ("usual: DataLoader with PIL transforms, as in MOON's code", usual),
    ):
        shown.add_row(name, f"{rate:,.0f}", f"{rate / limit:.2f}", f"{rate / usual:.1f}")
    console.print(shown)
    shown = Table(title="The same images in more sites, 10 sampled a round", title_justify="left")
    for column in ("sites", "images a round", "seconds a round", "peak memory, MB"):
        shown.add_column(column, justify="right")
    for row in found["memory"]:
        shown.add_row(
            f"{row['sites']:,}", f"{row['images']:,}", f"{row['seconds']:.2f}", f"{row['peak_megabytes']:,.0f}"
        )
    console.print(shown)


@app.command()
def cost(
    workers: Workers = None,
    keep: Annotated[Path | None, typer.Option(help="Also write the numbers to this JSON file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each method, in turns with FedAvg's.")] = 3,
) -> None:
    """Measure what a round of each method costs beside FedAvg's: time, and bytes sent.

    Examples:

      fedpdc benchmark cost

      fedpdc benchmark cost --keep cost.json

      fedpdc benchmark table --cost cost.json
    """
    from fedpdc_med.performance.method_cost import measure

    rows = measure(workers or cores(), repeats)
    if as_json:
        print(json.dumps(rows))
    else:
        show_cost(rows)
    if keep is not None:
        keep.write_text(json.dumps(rows, indent=1) + "\n")


def show_cost(rows: list[dict[str, Any]]) -> None:
    shown = Table(title="A round beside FedAvg's: the paper's CNN, 10 sites, 2 epochs", title_justify="left")
    shown.box, shown.pad_edge = SIMPLE_HEAD, False
    for column in ("method", "time, FedAvg = 1", "MB sent"):
        shown.add_column(column, justify="left" if column == "method" else "right")
    for row in rows:
        shown.add_row(row["method"], f"{row['seconds_of_fedavg']:.2f}", f"{row['bytes_per_round'] / 1e6:.1f}")
    console.print(shown)


def finished(runs: list[Path] | None) -> tuple[list[Path], list[dict[str, Any]]]:
    """The folders to look in, and the results there."""
    from fedpdc_med.benchmarks import results

    folders = runs or [home() / "runs"]
    found = results.collect((folder for folder in folders if runs or folder.is_dir()), tell=error_console.print)
    if not found:
        where = ", ".join(map(str, folders))
        raise UserError(f"there is no finished benchmark run in {where}; make one with: fedpdc benchmark run digits")
    return folders, found


def parse_settings(pairs: list[str], method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """KEY=VALUE pairs as (the method's settings, the experiment's)."""
    from fedpdc_med.benchmarks.catalogue import NOT_SETTINGS, Experiment
    from fedpdc_med.methods import method_class

    of_method: dict[str, Any] = {}
    of_experiment: dict[str, Any] = {}
    fields = method_class(method).model_fields
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key or not value:
            raise UserError(f"--set {pair!r}: write it as KEY=VALUE, for instance --set mu=0.1")
        if key in ("seed", "preset"):
            raise UserError(f"--set {pair}: it has an option of its own, --{key} {value}")
        if key not in fields and (key in NOT_SETTINGS or key not in Experiment.model_fields):
            known = ", ".join([*fields, *sorted(set(Experiment.model_fields) - set(NOT_SETTINGS))])
            raise UserError(f"--set {key}: neither method {method!r} nor the experiment has it; known: {known}")
        (of_method if key in fields else of_experiment)[key] = value
    return of_method, of_experiment


def check_same(folder: Path, experiment: "Experiment", method: "Method") -> None:
    """--resume must not quietly continue another run than the one described."""
    from fedpdc_med.benchmarks import run as benchmark
    from fedpdc_med.runs.directory import read_run

    config = read_run(folder).config
    if config["kind"] != "benchmark":
        raise UserError(f"{folder} holds no benchmark run but a {config['kind']}; choose another --out")
    recorded, made = benchmark.experiment_of(config), benchmark.method_of(config)
    wanted = {**experiment.model_dump(), **method.model_dump(), "method": method.name}
    there = {**recorded.model_dump(), **made.model_dump(), "method": made.name}
    for key in sorted(set(wanted) - {"changed"}):
        if there.get(key) != wanted[key]:
            raise UserError(
                f"{folder} holds a run with {key} = {there.get(key)!r}, not {wanted[key]!r}; "
                "choose another --out, or say --overwrite in place of --resume"
            )


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
