"""`fedpdc reference ...`: build and check the public reference set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedpdc_med.cli.options import Collection, Squared, Workers
from fedpdc_med.cli.terminal import console, print_checks, print_table
from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.paths import home
from fedpdc_med.common.processes import cores

if TYPE_CHECKING:
    from fedpdc_med.imaging.reference import Reference

app = typer.Typer(no_args_is_help=True, help="Build or check the public reference set.")


@app.command("build")
def build(
    source: Annotated[
        Path | None, typer.Argument(help="Folder of films. Default: synthetic films from the bundled recipe.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Label table of a folder of films (columns film, label).")] = None,
    collection: Collection = None,
    per_class: Annotated[
        int | None, typer.Option(min=4, help="Films per class. Default: as many as the rarest class has.")
    ] = None,
    size: Annotated[int, typer.Option(min=32, help="Side length in pixels. Must match the sites' setting.")] = 128,
    fit: Squared = "pad",
    equalise: Annotated[
        bool, typer.Option("--equalise", help="Equalise contrast. Must match the sites' setting.")
    ] = False,
    provenance: Annotated[str, typer.Option(help="Where the films come from.")] = "",
    licence: Annotated[str, typer.Option(help="Licence or terms under which they may be used.")] = "",
    version: Annotated[str, typer.Option(help="Version of this set.")] = "1",
    seed: Annotated[int, typer.Option(help="Random seed of the selection and the splits.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Default: $FEDPDC_HOME/reference.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the set in --out.")] = False,
    workers: Workers = None,
) -> None:
    """Build a class-balanced reference set, split by patient into correction, weighting and holdout.

    Example: fedpdc reference build covid-chestxray-dataset --licence "see metadata.csv" --provenance "ieee8023"
    """
    from fedpdc_med.imaging.ingest.labels import read_labels
    from fedpdc_med.imaging.reference import build_reference, check_place, read_reference

    folder = out or home() / "reference"
    if source is None:
        if labels or collection or per_class is not None or licence or provenance or fit != "pad" or equalise:
            raise UserError(
                "--labels, --collection, --per-class, --fit, --equalise, --licence and --provenance need a SOURCE "
                "of films"
            )
        import shutil

        from fedpdc_med.simulation.phantoms import phantom_reference

        check_place(home() / "phantoms", folder, overwrite)
        made = phantom_reference(seed, workers or cores())
        shutil.copytree(made.store.folder, folder, dirs_exist_ok=True)
    else:
        build_reference(
            source,
            folder,
            provenance=provenance or source.name,
            licence=licence or "not stated",
            version=version,
            per_class=per_class,
            replace=overwrite,
            seed=seed,
            labels=read_labels(labels) if labels else None,
            labels_file=labels,
            collection=collection,
            size=size,
            fit=fit,
            equalise=equalise,
            processes=workers or cores(),
        )
    print_reference(read_reference(folder))
    console.print(f"Reference set: {folder}. To check it: fedpdc reference check{f' {out}' if out else ''}")


@app.command()
def check(
    folder: Annotated[Path | None, typer.Argument(help="Folder of the set. Default: $FEDPDC_HOME/reference.")] = None,
) -> None:
    """Check checksums, class balance, disjoint splits and overlap with the sites' film stores.

    Example: fedpdc reference check
    """
    from fedpdc_med.imaging.reference import check_reference, read_reference
    from fedpdc_med.imaging.store import read_store

    reference = read_reference(folder or home() / "reference")
    stores = {
        found.parent.name: read_store(found.parent).manifest for found in sorted(home().glob("sites/*/store.json"))
    }
    print_reference(reference)
    if not print_checks(check_reference(reference, stores)):
        raise WorkFailed(
            "the reference set failed a check; build it again from other films, or ingest the named sites again "
            "with --exclude and the folder of the reference set"
        )


def print_reference(reference: "Reference") -> None:
    from fedpdc_med.imaging.reference import SPLITS

    facts = reference.facts
    rows = []
    for split, (count, half) in widths(reference).items():
        cells = [str(facts["splits"][split].get(label, 0)) for label in facts["classes"]]
        rows.append([split, *cells, str(count), f"± {half:.2f}"])
    title = f"Reference set, version {facts['version']}: {facts['films']} films of {facts['patients']} patients"
    print_table(title, ["split", *facts["classes"], "films", "accuracy 0.80"], rows)
    count, half = widths(reference)["weighting"]
    console.print(f"Provenance: {facts['provenance']}. Licence: {facts['licence']}.")
    console.print("Last column: half-width of the 95% CI of an accuracy of 0.80 measured on that split.")
    console.print(
        f"With {count} {SPLITS[1]} films, site scores that differ by less than about {2 * half:.2f} are statistically "
        "indistinguishable, so the resulting weights differ by chance."
    )


def widths(reference: "Reference") -> dict[str, tuple[int, float]]:
    """For each split, its number of films and the half-width of the 95% CI of an accuracy of 80% measured on it."""
    from fedpdc_med.evaluation.intervals import wilson
    from fedpdc_med.imaging.reference import SPLITS

    found = {}
    for split in SPLITS:
        count = len(reference.rows(split))
        low, high = wilson(round(0.8 * count), count)
        found[split] = (count, float(high - low) / 2)
    return found
