"""`fedpdc benchmark speed`, `cost`, `ingest-speed`, `review-speed` and `federation-speed`."""

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from fedpdc_med.cli.options import AsJson, Model, Workers, needs_flare
from fedpdc_med.cli.terminal import console, errors, print_table
from fedpdc_med.common.processes import cores
from fedpdc_med.common.progress import minutes
from fedpdc_med.imaging.classes import CLASSES

SPEED_FILMS, SPEED_SIDE = 500, 512


def beforehand(seconds: float) -> None:
    errors.print(f"This takes about {minutes(seconds)} on two cores.", highlight=False)


def speed(
    workers: Workers = None,
    as_json: AsJson = False,
    repeats: Annotated[int, typer.Option(min=1, help="Interleaved repetitions of the three loops.")] = 3,
) -> None:
    """Compare a whole FedPDC round with bare PyTorch loops and the usual DataLoader loop, and measure memory.

    Example: fedpdc benchmark speed
    """
    from fedpdc_med.performance.training import measure

    beforehand(20 + 17 * repeats)
    found = measure(workers or cores(), repeats)
    if as_json:
        print(json.dumps(found))
        return
    limit, usual = found["limit_images_per_second"], found["usual_images_per_second"]
    loops = (
        ("federation: a whole FedPDC round, with scoring and averaging", found["federation_images_per_second"]),
        ("limit: bare PyTorch loops on batches in memory, no augmentation", limit),
        ("usual: DataLoader with PIL transforms, as in MOON's code", usual),
    )
    print_table(
        f"The paper's CNN, 10 sites, batch 64, {found['workers']} workers",
        ["loop", "images/s", "of the limit", "of the usual"],
        [[name, f"{rate:,.0f}", f"{rate / limit:.2f}", f"{rate / usual:.1f}"] for name, rate in loops],
    )
    print_table(
        "The same images at more sites, 10 sampled per round",
        ["sites", "images per round", "seconds per round", "peak memory, MB"],
        [
            [f"{row['sites']:,}", f"{row['images']:,}", f"{row['seconds']:.2f}", f"{row['peak_megabytes']:,.0f}"]
            for row in found["memory"]
        ],
    )


def cost(
    workers: Workers = None,
    keep: Annotated[Path | None, typer.Option(help="Also write the numbers to this JSON file.")] = None,
    as_json: AsJson = False,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each method, alternating with FedAvg's.")] = 3,
) -> None:
    """Measure the cost of a round of each method relative to FedAvg: time, and bytes sent.

    Examples:

      fedpdc benchmark cost

      fedpdc benchmark cost --keep cost.json

      fedpdc benchmark table --cost cost.json
    """
    from fedpdc_med.methods import label
    from fedpdc_med.performance.method_cost import measure

    beforehand(120 * repeats)
    rows = measure(workers or cores(), repeats)
    kept = [row.model_dump() for row in rows]
    if as_json:
        print(json.dumps(kept))
    else:
        print_table(
            "A round compared with FedAvg's: the paper's CNN, 10 sites, 2 epochs",
            ["method", "time, FedAvg = 1", "MB sent"],
            [[label(row.method), f"{row.seconds_of_fedavg:.2f}", f"{row.bytes_per_round / 1e6:.1f}"] for row in rows],
        )
    if keep is not None:
        keep.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def ingest_speed(
    folder: Annotated[
        Path | None, typer.Argument(help=f"Folder of DICOM films. Default: {SPEED_FILMS} synthetic films.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions, alternating between the two.")] = 3,
    workers: Workers = None,
) -> None:
    """Compare ingest with a bare pydicom loop that only decodes and resizes, in films per second.

    Both use the same number of processes.

    Example: fedpdc benchmark ingest-speed --rounds 5
    """
    from fedpdc_med.performance.ingest import measure

    processes = workers or cores()
    with tempfile.TemporaryDirectory() as scratch:
        films = folder or _synthetic(Path(scratch, "films"), processes)
        found = measure(films, Path(scratch, "stores"), processes=processes, rounds=rounds)
    ways = (("bare pydicom decode and resize", found.bare), ("fedpdc ingest", found.ours))
    print_table(
        f"{found.films} DICOM films, {processes} processes, {rounds} repetitions; films per second",
        ["", "median", "slowest", "fastest"],
        [[name, *(f"{value:.0f}" for value in (median(rates), min(rates), max(rates)))] for name, rates in ways],
    )
    low, middle, high = found.ratios[0], median(found.ratios), found.ratios[-1]
    console.print(
        f"Ingest reaches {middle:.2f} of the bare loop (range {low:.2f} to {high:.2f}), including its checks, hashes, "
        "duplicate search, split and writing."
    )


def _synthetic(folder: Path, workers: int) -> Path:
    """Of the sizes tried (256, 512, 1024 pixels per side), the one where ingest compares worst with the bare loop."""
    from fedpdc_med.imaging.phantoms.films import write_films
    from fedpdc_med.imaging.phantoms.scanners import Scanner

    mix = {label: SPEED_FILMS // len(CLASSES) for label in CLASSES}
    write_films(folder, Scanner(rows=SPEED_SIDE, columns=SPEED_SIDE), mix, seed=0, workers=workers)
    return folder


def review_speed(as_json: AsJson = False) -> None:
    """Open every page of the app on a run with 100,000 predictions, 50 sites and 20 classes, and time it.

    Example: fedpdc benchmark review-speed
    """
    from fedpdc_med.performance.review import CLASSES, LIMIT_SECONDS, PREDICTIONS, SITES, measure

    found = measure()
    if as_json:
        print(json.dumps(found))
        return
    print_table(
        f"{PREDICTIONS:,} predictions, {SITES} sites, {CLASSES} classes: seconds to draw",
        ["page", "first load", "after the first load"],
        [[row["page"], f"{row['first_load']:.2f}", f"{row['after_first_load']:.2f}"] for row in found["pages"]],
    )
    slowest = max(row["after_first_load"] for row in found["pages"])
    verdict = "within" if slowest < LIMIT_SECONDS else "above"
    console.print(f"Slowest after the first load: {slowest:.2f} s, {verdict} the limit of {LIMIT_SECONDS:.0f} s.")


def federation_speed(
    rounds: Annotated[int, typer.Option(min=3, help="Rounds to time.")] = 6,
    model: Model = "densenet-small",
    workers: Workers = None,
) -> None:
    """Measure the overhead of FLARE: seconds per round beyond training, compared with local processes, for three sites.

    Example: fedpdc benchmark federation-speed
    """
    needs_flare()
    from fedpdc_med.performance.federation import measure

    print_table(
        f"Seconds per round, median of {rounds - 1} rounds (without the first round of a job), three sites, {model}",
        ["engine", "round", "training at the slowest site", "beyond training"],
        [
            [one.engine, f"{one.round:.2f}", f"{one.training:.2f}", f"{one.beyond:.2f}"]
            for one in measure(rounds, model, workers or cores())
        ],
    )
