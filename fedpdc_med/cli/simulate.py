"""`fedpdc simulate`, `fedpdc partition` and `fedpdc compare`."""
# Heavy imports stand inside the commands, so that --help does not wait for PyTorch.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedpdc_med import RESEARCH_USE_ONLY
from fedpdc_med.cli.benchmark import METHOD_HELP, RECOMMENDED, Workers, cores
from fedpdc_med.cli.terminal import console, print_result, table
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.interrupts import ends_at_once
from fedpdc_med.common.paths import home

if TYPE_CHECKING:
    import pandas as pd

    from fedpdc_med.runs.directory import Run
    from fedpdc_med.runs.plan import Privacy


def simulate(
    sites: Annotated[
        Path | None, typer.Option(help="Folder of hospital modules. Default: the hospitals that come along.")
    ] = None,
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = RECOMMENDED,
    compare: Annotated[str, typer.Option(help="Other methods on the same films and seed, separated by commas.")] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the method, for instance strength=1, weighting=sharpened. May be repeated.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of training.")] = 20,
    tau: Annotated[float, typer.Option(help="Share of the sites sampled in a round.")] = 1.0,
    model: Annotated[
        str, typer.Option(help="densenet-small, densenet121, resnet18, resnet50 or cnn.")
    ] = "densenet-small",
    norm: Annotated[str, typer.Option(help="batch or group normalisation.")] = "batch",
    seed: Annotated[int, typer.Option(help="Fixes every draw; phantom films are drawn anew for each seed.")] = 0,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the reference set. Default: the phantoms' own, or "
            "$FEDPDC_HOME/reference for hospitals with real films."
        ),
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Differential privacy at every site: clip updates to this length.")
    ] = None,
    noise: Annotated[float | None, typer.Option(help="And add noise of this spread, in clips.")] = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Run directory; compared methods get one beside it.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue runs that were started before.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace runs that were made before.")] = False,
) -> None:
    """Train one model over the hospital sites and show its recall class by class.

    Examples:

      fedpdc simulate

      fedpdc simulate --compare solo,fedavg

      fedpdc simulate --method fedpdc --set correction=proximal --set strength=0.1
    """
    from fedpdc_med.common.paths import shipped
    from fedpdc_med.hospitals.site import load_sites
    from fedpdc_med.methods import make_method
    from fedpdc_med.runs.directory import read_run
    from fedpdc_med.simulation import simulate as simulation
    from fedpdc_med.simulation.phantoms import open_films

    workers = workers or cores()
    privacy = checked_privacy(clip, noise)
    fixed = simulation.Settings(
        rounds=rounds, tau=checked_share(tau), model=model, norm=checked_norm(norm), seed=seed, privacy=privacy
    )
    others = [name.strip() for name in compare.split(",") if name.strip() and name.strip() != method]
    made = {method: make_method(method, **parse(settings or [], method))} | {name: make_method(name) for name in others}
    folders = {name: run_folder(out, name, method, made[name], seed, privacy, sites) for name in made}
    for folder in folders.values():
        if (folder / "config.toml").exists() and not (resume or overwrite):
            raise UserError(
                f"{folder} already holds a run; say --resume to continue it, --overwrite to replace it, "
                "or choose another --out"
            )
    hospitals = load_sites(sites or shipped("sites"))
    sources = open_films(hospitals, reference, seed, workers)
    runs = {}
    for name, folder in folders.items():
        with ends_at_once():
            if resume and (folder / "config.toml").exists():
                runs[name] = read_run(folder)
                check_same(runs[name], fixed, made[name])
                if simulation.fingerprints(sources) != runs[name].config["data"]["fingerprints"]:
                    raise UserError(f"{folder} holds a run of other hospitals or films; choose another --out")
                simulation.resume(runs[name], sites, workers)
            else:
                runs[name] = simulation.start(
                    fixed, made[name], sites, hospitals, sources, reference, folder, overwrite, workers
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
    from fedpdc_med.common.paths import site_store
    from fedpdc_med.imaging.store import read_store
    from fedpdc_med.simulation.partition_store import partition_store

    made = partition_store(read_store(site_store(site)), sites, rule, beta, out, seed, overwrite)
    classes = sorted({label for films in made.values() for label in films["label"]})
    shown = table(f"{site}, partitioned into {sites} sites")
    for column in ("site", *classes, "films", "patients"):
        shown.add_column(column, justify="left" if column == "site" else "right", no_wrap=column == "site")
    for name, films in made.items():
        counts = [str(int((films["label"] == label).sum())) for label in classes]
        shown.add_row(name, *counts, str(len(films)), str(films["patient"].nunique()))
    console.print(shown)
    console.print(f"Next: fedpdc simulate --sites {out}")


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Runs of fedpdc simulate, of several methods and seeds.")],
    split: Annotated[str, typer.Option(help="Films to compare on: holdout, external or local.")] = "holdout",
    baseline: Annotated[str, typer.Option(help="The method that differences are taken to.")] = "fedavg",
    markdown: Annotated[Path | None, typer.Option(help="Also write the tables to this Markdown file.")] = None,
) -> None:
    """Show finished simulations side by side: mean and spread over seeds, and what differs beyond chance.

    Example: fedpdc compare fedpdc-data/runs/simulate-*
    """
    from fedpdc_med.evaluation.across_runs import differences, found_in, site_table, summary, told_apart
    from fedpdc_med.runs.directory import read_run

    found = told_apart([found_in(read_run(folder), split) for folder in runs])
    tables = {
        f"Recall on the {split} films over seeds (mean ± standard deviation)": summary(found),
        f"Difference to {baseline}, seed by seed (p of a paired t-test, by Holm)": differences(found, baseline),
        "Recall of each site's rarest class, whose mean is `rarest` above": site_table(found),
    }
    tables = {title: frame for title, frame in tables.items() if len(frame)}  # the baseline may be all there is
    for title, frame in tables.items():
        shown = table(title)
        upright = frame.set_index("method").T.reset_index(names="") if "method" in frame and len(frame) < 6 else frame
        for column in upright.columns:
            shown.add_column(str(column), no_wrap=column == upright.columns[0])
        for row in upright.itertuples(index=False):
            shown.add_row(*map(str, row))
        console.print(shown)
    if markdown:
        parts = [f"{title}:\n\n{as_markdown(frame)}\n" for title, frame in tables.items()]
        markdown.write_text("\n".join([*parts, f"{RESEARCH_USE_ONLY}\n"]))
    console.print(RESEARCH_USE_ONLY)


def as_markdown(frame: "pd.DataFrame") -> str:
    lines = ["| " + " | ".join(map(str, frame.columns)) + " |", "|" + " --- |" * len(frame.columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in frame.itertuples(index=False))])


def parse(pairs: list[str], method: str) -> dict[str, str]:
    from fedpdc_med.methods import method_class

    fields = method_class(method).model_fields
    found = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not value or key not in fields:
            known = ", ".join(fields) or "none"
            raise UserError(f"--set {pair!r}: write KEY=VALUE with a setting of {method!r} (it has: {known})")
        found[key] = value
    return found


def checked_share(tau: float) -> float:
    if not 0 < tau <= 1:
        raise UserError(f"--tau {tau}: the share of sites sampled in a round must be above 0 and at most 1")
    return tau


def checked_privacy(clip: float | None, noise: float | None) -> "Privacy | None":
    from fedpdc_med.runs.plan import Privacy

    if clip is None and noise is None:
        return None
    if clip is None or noise is None or clip <= 0 or noise <= 0:
        raise UserError("--clip and --noise go together, and both are above 0; for instance --clip 1 --noise 0.01")
    return Privacy(clip=clip, noise=noise)


def checked_norm(norm: str) -> Any:
    if norm not in ("group", "batch"):
        raise UserError(f"--norm {norm}: choose group or batch")
    return norm


def run_folder(
    out: Path | None,
    name: str,
    main: str,
    method: Any,
    seed: int,
    privacy: "Privacy | None" = None,
    sites: Path | None = None,
) -> Path:
    from fedpdc_med.benchmarks.results import described

    if out is not None:
        return out if name == main else out.with_name(f"{out.name}-{name}")
    hidden = [f"clip={privacy.clip:g}", f"noise={privacy.noise:g}"] if privacy else []
    whose = [sites.resolve().name] if sites else []  # so that other hospitals do not meet the runs of the phantoms
    words = ["simulate", *whose, *described({"name": name, **method.model_dump()}).split(), *hidden, f"seed{seed}"]
    return home() / "runs" / "-".join(words)


def check_same(run: "Run", settings: Any, method: Any) -> None:
    from fedpdc_med.methods import make_method

    config = run.config
    if config["kind"] != "simulation":
        raise UserError(f"{run.folder} holds no simulation but a {config['kind']} run; choose another --out")
    wanted = {"method": method.name, **settings.model_dump(), **method.model_dump()}
    there = {**config.get("simulation", {}), **make_method(**config["method"]).model_dump()}
    there["method"] = config["method"]["name"]
    for key, value in wanted.items():
        if there.get(key) != value:
            raise UserError(
                f"{run.folder} holds a run with {key} = {there.get(key)!r}, not {value!r}; choose another "
                "--out, or say --overwrite in place of --resume"
            )
