"""`fedpdc ingest`."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedpdc_med.cli.options import Collection, Squared, Workers, listed
from fedpdc_med.cli.terminal import console, print_table
from fedpdc_med.common.description import count
from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.classes import CHEST, CLASSES, FRONTAL, VIEWS

if TYPE_CHECKING:
    import pandas as pd

    from fedpdc_med.imaging.ingest.pipeline import IngestResult


def ingest(
    source: Annotated[Path, typer.Argument(help="Folder of DICOM, PNG or JPEG films, or a public dataset.")],
    site: Annotated[str, typer.Option(help="Name of the site, for example harbor-general.")],
    labels: Annotated[
        Path | None,
        typer.Option(
            help="CSV with the columns film (path below SOURCE, or SOP instance UID), label, and optionally patient "
            "and view."
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help=f"One class for all films: {', '.join(CLASSES)}.")] = None,
    collection: Collection = None,
    size: Annotated[int, typer.Option(min=32, max=1024, help="Side length of the stored films, in pixels.")] = 128,
    fit: Squared = "pad",
    equalise: Annotated[
        bool,
        typer.Option("--equalise", help="Equalise the contrast of every film. Must match the public reference set."),
    ] = False,
    views: Annotated[str, typer.Option(help=f"Views to accept, of {', '.join(VIEWS)}.")] = ",".join(FRONTAL),
    body_parts: Annotated[
        str, typer.Option(help="Body parts to accept; add unknown to accept films that do not state theirs.")
    ] = ",".join(CHEST),
    exclude: Annotated[
        Path | None,
        typer.Option(help="Film store, usually the public reference set, whose films and patients are excluded."),
    ] = None,
    write_dicom: Annotated[
        Path | None, typer.Option(help="Also write the accepted films as de-identified DICOM files here.")
    ] = None,
    max_rejects: Annotated[
        float, typer.Option(min=0, max=1, help="Exit with 1 if a larger proportion of the files is rejected.")
    ] = 0.5,
    timeout: Annotated[float, typer.Option(min=1, help="Maximum time to decode one film, in seconds.")] = 60,
    seed: Annotated[int, typer.Option(help="Random seed of the split into training and test patients.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the site's existing film store.")] = False,
    list_rejected: Annotated[
        bool, typer.Option("--list-rejected", help="List every file that was not accepted, on the terminal only.")
    ] = False,
    workers: Workers = None,
) -> None:
    """Import a folder of DICOM, PNG or JPEG films, or a public dataset, into a site's film store.

    Every file is accepted, rejected or quarantined with a reason (ingest_report.csv). Names, IDs and dates are removed;
    films and patients get pseudonyms that only the site's key can link back to them. If the command is stopped, run it
    again to continue.

    Example: fedpdc ingest /data/chest-2024 --site harbor-general --labels labels.csv
    """
    from fedpdc_med.imaging.ingest.labels import one_label, read_labels
    from fedpdc_med.imaging.ingest.pipeline import check_rejects
    from fedpdc_med.imaging.ingest.pipeline import ingest as run_ingest
    from fedpdc_med.imaging.ingest.sources import records_of

    if labels and label:
        raise UserError("use --labels or --label, not both")
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
        views=listed(views),
        body_parts=listed(body_parts),
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
        console.print(f"{rows} of the label table match no file below SOURCE", style="yellow")
        if unnamed := next((name for name in names.values() if not known.names(name)), ""):
            example = f"For example, a row names {unused[0]!r}; a file without a row is {unnamed!r}"
            console.print(example, highlight=False)
    if list_rejected:
        _print_rejected(result, names)
    elif result.films < len(result.report):
        console.print("To see which files, run the command again with --list-rejected.", highlight=False)
    check_rejects(result, max_rejects)


def _warnings(manifest: "pd.DataFrame", told_patients: bool) -> list[str]:
    """Warnings about the split into training and test patients."""
    films = manifest["patient"].value_counts()
    found = []
    if films.iloc[0] > len(manifest) / 2 and len(manifest) > 1:
        found.append(
            f"One patient has {films.iloc[0]} of the {len(manifest)} films: do all films have the same patient ID?"
        )
    if not (manifest["split"] == "test").any():
        found.append("No films are left for testing: there are too few patients.")
    pictures = manifest["source"].isin(["folder-per-class", "pictures"]).all()
    if pictures and films.iloc[0] == 1 and len(manifest) > 1 and not told_patients:
        found.append(
            "Every film counts as a separate patient, so films of one patient may end up in both training and test. "
            "Put each patient's films into a folder in the class folder, or add a column patient to the label table."
        )
    return found


def _print_summary(result: "IngestResult", site: str, told_patients: bool) -> None:
    from fedpdc_med.imaging.records import MAY_HOLD_TEXT, Verdict
    from fedpdc_med.imaging.store import read_store

    verdicts = sorted(result.verdicts.items(), key=lambda item: (item[0][0], -item[1]))
    rows = [[str(verdict), reason, str(count)] for (verdict, reason), count in verdicts]
    print_table(f"{site}: {len(result.report)} files", ["verdict", "reason", "files"], rows)
    if result.films:
        counts: dict[str, Any] = read_store(result.store).info["counts"]
        classes = ", ".join(f"{count} {label}" for label, count in Counter(counts["classes"]).items() if count)
        splits = ", ".join(f"{count} {split}" for split, count in counts["splits"].items())
        films, patients = count(counts["films"], "film"), count(counts["patients"], "patient")
        console.print(f"{films} of {patients}: {classes}; {splits}")
        for warning in _warnings(read_store(result.store).manifest, told_patients):
            console.print(warning, style="yellow")
        console.print(f"Film store, with ingest_report.csv: {result.store}", highlight=False, soft_wrap=True)
    if silent := sum(v == Verdict.ACCEPTED and detail == MAY_HOLD_TEXT for _, v, _, detail in result.report):
        console.print(f"{silent} accepted films do not state whether text is burned in; inspect a sample")
    if not result.read_again:
        from fedpdc_med.imaging.ingest.pipeline import temporary

        again = sum(temporary(reason, detail) for _, _, reason, detail in result.report)
        note = f". {count(again, 'file')} could not be read then; if they can be now, use --overwrite" if again else ""
        console.print(f"Already ingested; showing the existing report{note}", highlight=False)
    if result.replaced:
        console.print(
            f"{result.replaced} worker processes died or took longer than --timeout and were replaced; "
            "films that failed twice are in the table above",
            style="yellow",
        )


def _print_collection(films: Counter[tuple[str, bool]]) -> None:
    """A dataset is detected from folders and names, so the user must see which files were treated as published."""
    for (source, published), number in sorted(films.items()):
        key = "published names: same pseudonyms at every site" if published else "pseudonyms by this site's own key"
        console.print(f"{count(number, 'file')} read as {source}; {key}", highlight=False)


def _print_rejected(result: "IngestResult", names: dict[int, str]) -> None:
    """File names are shown on the hospital's own screen only; no report contains them."""
    from fedpdc_med.imaging.records import Verdict

    for place, verdict, reason, detail in result.report:
        if verdict != Verdict.ACCEPTED:
            about = f"{reason}, {detail}" if detail else reason
            # A name that is not UTF-8 cannot be printed as it is.
            name = names.get(place, "?").encode("utf-8", "backslashreplace").decode()
            console.print(f"{place}  {name}  {about}", highlight=False, soft_wrap=True)
