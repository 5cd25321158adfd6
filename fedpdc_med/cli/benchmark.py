"""`fedpdc benchmark ...`: the paper's experiments from the command line."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedpdc_med.cli import performance
from fedpdc_med.cli.options import AsJson, Data, Method, Workers, parse_set, refuse_if_different
from fedpdc_med.cli.terminal import console, errors, print_section, print_table
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.interrupts import ends_at_once
from fedpdc_med.common.paths import home
from fedpdc_med.common.processes import cores, start_server

if TYPE_CHECKING:
    import pandas as pd

    from fedpdc_med.benchmarks.results import KeptResult
    from fedpdc_med.methods import Method as MethodWithSettings
    from fedpdc_med.runs.directory import Run
    from fedpdc_med.runs.schema import BenchmarkRun, Experiment

app = typer.Typer(no_args_is_help=True, help="Run the paper's benchmarks, and measure speed and cost.")

Runs = Annotated[
    list[Path] | None,
    typer.Argument(help="Run directories, kept results (.json), or folders of either. Default: all finished runs."),
]


@app.command("list")
def list_experiments() -> None:
    """List the experiments and the accuracies that the paper reports.

    Example: fedpdc benchmark list
    """
    from fedpdc_med.benchmarks import catalogue

    methods = ("fedavg", "fedprox", "moon", "solo", "fedpdc")
    rows = [
        [name, *(str(catalogue.published(name).get(method, "")) for method in methods)] for name in catalogue.names()
    ]
    print_table("Experiments, and the accuracy that the paper reports for each, %", ["name", *methods], rows)
    console.print("digits needs no download; the ResNets need a GPU; b is the Dirichlet skew, smaller is more skewed.")
    console.print("To start one: fedpdc benchmark run digits --method fedpdc")


@app.command("run")
def run_experiment(
    experiment: Annotated[str, typer.Argument(help="A name from `fedpdc benchmark list`, or your own .toml file.")],
    method: Method = "fedpdc",
    preset: Annotated[str, typer.Option(help="quick (2 epochs, 20 rounds) or paper (the paper's numbers).")] = "quick",
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of training. Default: the preset's.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the public set, partition, weights and batches.")] = 0,
    workers: Workers = None,
    data: Data = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download CIFAR into the data folder if absent.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory. Default: one named after the run.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any setting of the method or the experiment, for example correction=soft-accuracy, strength=1, "
            "weighting=sharpened, mu=0.1, beta=0.5, tau=0.3, public_per_class=10. May be repeated.",
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
    start_server()
    from fedpdc_med.benchmarks import catalogue, results
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
            run = read_run(folder)
            benchmark.resume(run, same_run(run, resolved, made), data, workers or cores())
        else:
            run = benchmark.start(resolved, made, data, download, folder, overwrite, workers or cores())
    print_result(run)
    console.print(f"Run directory: {folder}", soft_wrap=True)


@app.command()
def table(
    runs: Runs = None,
    keep: Annotated[
        Path | None, typer.Option(help="Also write one small JSON file per run, and the figures, into this folder.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the tables to this Markdown file.")] = None,
    chosen: Annotated[
        bool, typer.Option("--chosen", help="Show only the setting that `fedpdc benchmark choose` marks as best.")
    ] = False,
    cost: Annotated[
        Path | None, typer.Option(help="A file from `fedpdc benchmark cost --keep`: adds the time per round.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare finished runs with the paper: mean ± SD over seeds, rounds to reach FedAvg, cost.

    Examples:

      fedpdc benchmark table

      fedpdc benchmark table docs/results --cost docs/cost.json

      fedpdc benchmark table --keep docs/results
    """
    from fedpdc_med.benchmarks import figures, results, tables

    folders, found = finished(runs)
    shown = tables.chosen(found) if chosen else found
    rows = tables.table(shown, tables.read_cost(cost) if cost else ())
    print_rows(rows, as_json)
    if markdown is not None:
        markdown.write_text(tables.markdown(rows), encoding="utf-8")
    if keep is not None:
        results.keep(found, keep)
        pictures = figures.draw(shown, keep)
        pictures += figures.label_distributions([run for folder in folders for run in results.runs_at(folder)], keep)
        console.print(f"Saved {len(found)} results and {pictures} figures in {keep}")


@app.command()
def choose(runs: Runs = None, as_json: AsJson = False) -> None:
    """Rank a method's settings by tuning accuracy; test accuracies stay hidden.

    Examples:

      fedpdc benchmark run digits --method fedprox --set mu=0.1

      fedpdc benchmark run digits --method fedprox --set mu=1

      fedpdc benchmark choose
    """
    from fedpdc_med.benchmarks import tables

    _, found = finished(runs)
    scores = tables.with_a_choice(tables.by_score(found))
    if as_json:
        print_json(scores.assign(seeds=scores["seeds"].map(sorted)))
    elif scores.empty:
        console.print("Nothing to rank: no method was run with two settings, such as --set mu=0.1 and --set mu=1.")
    else:
        for section in tables.described_scores(scores):
            print_section(section)
        console.print(tables.SCORE)


app.command()(performance.speed)
app.command()(performance.cost)
app.command("ingest-speed")(performance.ingest_speed)
app.command("review-speed")(performance.review_speed)
app.command("federation-speed")(performance.federation_speed)


def print_result(run: "Run") -> None:
    from fedpdc_med.benchmarks import results, tables

    print_rows(tables.table([results.result_of(run)]))


def print_rows(rows: "pd.DataFrame", as_json: bool = False) -> None:
    from fedpdc_med.benchmarks import tables

    if as_json:
        print_json(rows)
        return
    for section in tables.described(rows):
        print_section(section)
    console.print(tables.LEGEND)


def print_json(rows: "pd.DataFrame") -> None:
    print(json.dumps(json.loads(rows.to_json(orient="records"))))


def finished(runs: list[Path] | None) -> tuple[list[Path], list["KeptResult"]]:
    """The folders searched, and the results found in them."""
    from fedpdc_med.benchmarks import results

    folders = runs or [home() / "runs"]
    found = results.collect((folder for folder in folders if runs or folder.is_dir()), tell=errors.print)
    if not found:
        where = ", ".join(map(str, folders))
        raise UserError(f"there is no finished benchmark run in {where}; make one with: fedpdc benchmark run digits")
    return folders, found


def parse_settings(pairs: list[str], method: str) -> tuple[dict[str, str], dict[str, Any]]:
    """KEY=VALUE pairs as (the method's settings, the experiment's)."""
    from fedpdc_med.benchmarks.catalogue import NOT_SETTINGS
    from fedpdc_med.methods import method_class
    from fedpdc_med.runs.schema import Experiment

    for pair in pairs:
        key, _, value = pair.partition("=")
        if key in ("seed", "preset"):
            raise UserError(f"--set {pair}: use the option --{key} {value} instead")
    of_experiment = {key: field for key, field in Experiment.model_fields.items() if key not in NOT_SETTINGS}
    chosen, overrides = parse_set(
        pairs, (f"the method {method!r}", method_class(method).model_fields), ("the experiment", of_experiment)
    )
    return chosen, dict(overrides)


def same_run(run: "Run", experiment: "Experiment", method: "MethodWithSettings") -> "BenchmarkRun":
    """--resume must not silently continue a run other than the one described."""
    from fedpdc_med.runs.schema import BenchmarkRun

    config = run.config
    if not isinstance(config, BenchmarkRun):
        raise UserError(f"{run.folder} contains a {config.kind} run, not a benchmark; choose another --out")
    wanted = {**experiment.model_dump(exclude={"changed"}), **method.model_dump(), "method": method.name}
    recorded = config.plan.method
    there = {**config.experiment.model_dump(), **recorded.settings, "method": recorded.name}
    refuse_if_different(run.folder, there, wanted)
    return config
