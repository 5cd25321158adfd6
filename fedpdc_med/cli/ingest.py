"""`fedpdc ingest` and `fedpdc benchmark ingest-speed`."""

import os
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedpdc_med.common import console as terminal
from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.classes import CLASSES
from fedpdc_med.imaging.dicom.header import CHEST
from fedpdc_med.imaging.ingest.collections import COLLECTIONS
from fedpdc_med.imaging.ingest.labels import one_label, read_labels
from fedpdc_med.imaging.ingest.settings import Fit
from fedpdc_med.imaging.ingest.sources import records_of
from fedpdc_med.imaging.records import FRONTAL, MAY_HOLD_TEXT, VIEWS, Verdict

if TYPE_CHECKING:
    import pandas as pd

    from fedpdc_med.imaging.ingest.pipeline import IngestResult

console = terminal.console()
SPEED_FILMS, SPEED_SIDE = 500, 512
Processes = Annotated[int | None, typer.Option(min=1, help="Worker processes. Default: one a core.")]


def ingest(
    source: Annotated[Path, typer.Argument(help="Folder of DICOM, PNG or JPEG films, or a public collection.")],
    site: Annotated[str, typer.Option(help="Name of the site, for example harbor-general.")],
    labels: Annotated[
        Path | None,
        typer.Option(
            help="CSV with columns film (path below SOURCE, or SOP instance UID), label, and if need be patient, view."
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help=f"One class for all films: {', '.join(CLASSES)}.")] = None,
    collection: Annotated[
        str | None, typer.Option(help=f"Default: recognised by its folders. {', '.join(COLLECTIONS)}.")
    ] = None,
    size: Annotated[int, typer.Option(min=32, max=1024, help="Pixels a side of a stored film.")] = 128,
    fit: Annotated[
        Fit, typer.Option(help="pad keeps all of a film that is not square; crop keeps its central square.")
    ] = "pad",
    equalise: Annotated[bool, typer.Option("--equalise", help="Equalise the contrast of every film.")] = False,
    views: Annotated[str, typer.Option(help=f"Views to accept, of {', '.join(VIEWS)}.")] = ",".join(FRONTAL),
    body_parts: Annotated[
        str, typer.Option(help="Body parts to accept; add unknown for films that do not say.")
    ] = ",".join(CHEST),
    exclude: Annotated[
        Path | None, typer.Option(help="Film store, usually the reference set, whose films and patients are left out.")
    ] = None,
    write_dicom: Annotated[
        Path | None, typer.Option(help="Also write the accepted films as de-identified DICOM files here.")
    ] = None,
    max_rejects: Annotated[
        float, typer.Option(min=0, max=1, help="Exit with 1 if a larger share of the files is refused.")
    ] = 0.5,
    timeout: Annotated[float, typer.Option(min=1, help="Give up on a film that takes longer to decode.")] = 60,
    seed: Annotated[int, typer.Option(help="Draws the split into training and test patients.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the film store the site already has.")
    ] = False,
    list_rejected: Annotated[
        bool, typer.Option("--list-rejected", help="Name every file that was not accepted, on the terminal only.")
    ] = False,
    workers: Processes = None,
) -> None:
    """Turn a folder of DICOM files, or a public collection, into a site's film store.

    Every file is accepted, rejected or quarantined with a reason (ingest_report.csv). Names, ids and dates stay behind:
    films and patients get pseudonyms that only the site's key could link. Stopped at any time, the same command
    continues.

    Example: fedpdc ingest /data/chest-2024 --site harbor-general --labels labels.csv
    """
    from fedpdc_med.imaging.ingest.pipeline import check_rejects  # here, so that --help does not wait for scikit-learn
    from fedpdc_med.imaging.ingest.pipeline import ingest as run_ingest

    if labels and label:
        raise UserError("give --labels or --label, not both")
    known = read_labels(labels) if labels else one_label(label) if label else None
    result = run_ingest(
        source,
        site,
        labels=known,
        labels_file=labels,
        collection=collection,
        size=size,
        fit=fit,
        equalise=equalise,
        views=_list(views),
        body_parts=_list(body_parts),
        without=exclude,
        write_dicom=write_dicom,
        replace=overwrite,
        processes=workers,
        seconds=timeout,
        seed=seed,
    )
    _print_summary(result, site, told_patients=known is not None and known.names_patients)
    records = records_of(source, collection, known, labels)
    names = {place: record.name for place, record in records.items()}
    if not known:
        _print_collection(Counter((record.source, record.published) for record in records.values()))
    if known and (unused := known.unused(names.values())):
        rows = f"{len(unused)} of {len(known.rows)} rows"
        console.print(f"{rows} of the label table name no file below SOURCE", style="yellow")
        if unnamed := next((name for name in names.values() if not known.names(name)), ""):
            example = f"A row says {unused[0]!r}, a file without a row is {unnamed!r}"
            console.print(example, highlight=False)
    if list_rejected:
        _print_refused(result, names)
    elif result.films < len(result.report):
        console.print("Which files these are: the same command with --list-rejected", highlight=False)
    check_rejects(result, max_rejects)


def ingest_speed(
    folder: Annotated[
        Path | None, typer.Argument(help=f"Folder of DICOM films. Default: {SPEED_FILMS} phantom films.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Times each way, in turn.")] = 3,
    workers: Processes = None,
) -> None:
    """Films a second of ingest beside a bare pydicom loop that only decodes and resizes, with as many processes.

    Example: fedpdc benchmark ingest-speed --rounds 5
    """
    from fedpdc_med.performance.ingest import measure

    processes = workers or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        films = folder or _phantoms(Path(scratch, "films"), processes)
        speed = measure(films, Path(scratch, "stores"), processes=processes, rounds=rounds)
    table = Table(
        title=f"{speed.films} DICOM films, {processes} processes, {rounds} rounds in turn; films a second",
        title_justify="left",
    )
    for column in ("", "median", "slowest", "fastest"):
        table.add_column(column, justify="left" if not column else "right")
    for name, measured in (("bare pydicom decode and resize", speed.bare), ("fedpdc ingest", speed.ours)):
        table.add_row(name, f"{median(measured):.0f}", f"{min(measured):.0f}", f"{max(measured):.0f}")
    console.print(table)
    low, middle, high = speed.ratios[0], median(speed.ratios), speed.ratios[-1]
    console.print(
        f"ingest reaches {middle:.2f} of the bare loop (rounds: {low:.2f} to {high:.2f}), "
        "its checks, hashes, duplicates, split and writing included"
    )


def _phantoms(folder: Path, workers: int) -> Path:
    """Of the sizes tried (256, 512, 1024 pixels a side) the one at which ingest compares worst with the bare loop."""
    from fedpdc_med.imaging.phantoms.films import write_films
    from fedpdc_med.imaging.phantoms.scanners import Scanner

    mix = {label: SPEED_FILMS // len(CLASSES) for label in CLASSES}
    write_films(folder, Scanner(rows=SPEED_SIDE, columns=SPEED_SIDE), mix, seed=0, workers=workers)
    return folder


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _warnings(manifest: "pd.DataFrame", told_patients: bool) -> list[str]:
    """What makes the split into training and test patients worth little."""
    films = manifest["patient"].value_counts()
    found = []
    if films.iloc[0] > len(manifest) / 2 and len(manifest) > 1:
        found.append(
            f"One patient has {films.iloc[0]} of the {len(manifest)} films: do all films carry the same patient id?"
        )
    if not (manifest["split"] == "test").any():
        found.append("No film is left to test with: there are too few patients.")
    pictures = manifest["source"].isin(["folder-per-class", "pictures"]).all()
    if pictures and films.iloc[0] == 1 and len(manifest) > 1 and not told_patients:
        found.append(
            "Every picture counts as a patient of its own, so two films of one patient may end up in training and in "
            "test. Put a patient's films into a folder below the class's, or add a column patient to the label table."
        )
    return found


def _print_summary(result: "IngestResult", site: str, told_patients: bool) -> None:
    from fedpdc_med.imaging.store import read_store

    table = Table(title=f"{site}: {len(result.report)} files", title_justify="left")
    for name in ("verdict", "reason", "files"):
        table.add_column(name, justify="right" if name == "files" else "left")
    colours = {Verdict.ACCEPTED: "green", Verdict.REJECTED: "yellow", Verdict.QUARANTINED: "red"}
    for (verdict, reason), count in sorted(result.verdicts.items(), key=lambda item: (item[0][0], -item[1])):
        table.add_row(Text(verdict, colours[Verdict(verdict)]), reason, str(count))
    console.print(table)
    if result.films:
        counts: dict[str, Any] = read_store(result.store).info["counts"]
        classes = ", ".join(f"{count} {label}" for label, count in Counter(counts["classes"]).items() if count)
        splits = ", ".join(f"{count} {split}" for split, count in counts["splits"].items())
        console.print(f"{counts['films']} films of {counts['patients']} patients: {classes}; {splits}")
        for warning in _warnings(read_store(result.store).manifest, told_patients):
            console.print(warning, style="yellow")
        console.print(f"Film store, with ingest_report.csv: {result.store}", highlight=False, soft_wrap=True)
    if silent := sum(v == Verdict.ACCEPTED and detail == MAY_HOLD_TEXT for _, v, _, detail in result.report):
        console.print(f"{silent} accepted films do not say whether text is burned in: look at some of them")
    if not result.read_again:
        from fedpdc_med.imaging.ingest.pipeline import temporary

        again = sum(temporary(reason, detail) for _, _, reason, detail in result.report)
        mended = f"; {again} files could not be read then: if that is mended, use --overwrite" if again else ""
        console.print(f"Nothing was read again, this is the report of the finished ingest{mended}", highlight=False)
    if result.replaced:
        console.print(
            f"{result.replaced} worker processes died or took longer than --timeout and were replaced; "
            "films that failed twice are in the table above",
            style="yellow",
        )


def _print_collection(films: Counter[tuple[str, bool]]) -> None:
    """A collection is recognised by folders and names, so its user must see what was taken for published."""
    for (source, published), count in sorted(films.items()):
        key = "public names: the same pseudonyms at every site" if published else "pseudonyms by this site's own key"
        console.print(f"{count} files read as {source}; {key}", highlight=False)


def _print_refused(result: "IngestResult", names: dict[int, str]) -> None:
    """File names stay on the hospital's own screen: no report holds them."""
    for place, verdict, reason, detail in result.report:
        if verdict != Verdict.ACCEPTED:
            about = f"{reason}, {detail}" if detail else reason
            # A name that is not UTF-8 cannot be printed as it is.
            name = names.get(place, "?").encode("utf-8", "backslashreplace").decode()
            console.print(f"{place}  {name}  {about}", highlight=False, soft_wrap=True)
