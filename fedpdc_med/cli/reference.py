"""`fedpdc reference ...`: the public reference set, made and verified."""
# Heavy imports stand inside the commands, so that --help does not wait for PyTorch.

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from fedpdc_med.cli.benchmark import Workers, cores
from fedpdc_med.cli.terminal import console, table
from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.paths import home
from fedpdc_med.imaging.ingest.settings import Fit

app = typer.Typer(no_args_is_help=True, help="Make or verify the public reference set.")


@app.command("build")
def build(
    source: Annotated[
        Path | None, typer.Argument(help="Folder of films. Default: phantom films by the recipe that comes along.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Label table of a DICOM folder (columns film, label).")] = None,
    collection: Annotated[
        str | None, typer.Option(help="Layout of a public collection. Default: told from the folder.")
    ] = None,
    per_class: Annotated[
        int | None, typer.Option(min=4, help="Films of every class. Default: as many as the rarest has.")
    ] = None,
    size: Annotated[int, typer.Option(min=32, help="Pixels a side; the same as the sites'.")] = 128,
    fit: Annotated[Fit, typer.Option(help="How to make the film square; the same as the sites'.")] = "pad",
    equalise: Annotated[bool, typer.Option("--equalise", help="If the sites' films are, these must be too.")] = False,
    provenance: Annotated[str, typer.Option(help="Where the films come from.")] = "",
    licence: Annotated[str, typer.Option(help="Under which terms they may be used.")] = "",
    version: Annotated[str, typer.Option(help="Version of this set.")] = "1",
    seed: Annotated[int, typer.Option(help="Draws films and splits.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Default: $FEDPDC_HOME/reference.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the set in --out.")] = False,
    workers: Workers = None,
) -> None:
    """Make the reference set: balanced, split by patient into correction, weighting and holdout.

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
            licence=licence or "not said",
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
    console.print(f"Reference set: {folder}. Verify it with: fedpdc reference check{f' {out}' if out else ''}")


@app.command()
def check(
    folder: Annotated[Path | None, typer.Argument(help="Folder of the set. Default: $FEDPDC_HOME/reference.")] = None,
) -> None:
    """Verify checksums, class balance, disjoint splits and overlap with the sites' film stores.

    Example: fedpdc reference check
    """
    from fedpdc_med.imaging.reference import check_reference, read_reference
    from fedpdc_med.imaging.store import read_store

    reference = read_reference(folder or home() / "reference")
    stores = {
        found.parent.name: read_store(found.parent).manifest for found in sorted(home().glob("sites/*/store.json"))
    }
    print_reference(reference)
    checks = check_reference(reference, stores)
    for one in checks:
        console.print(Text("ok", "green") if one.holds else Text("NOT OK", "bold red"), f" {one.what}: {one.found}")
    if not all(one.holds for one in checks):
        raise WorkFailed(
            "the reference set did not pass; build it again from other films, or ingest the named sites again "
            "with --exclude and its folder"
        )


def print_reference(reference: Any) -> None:
    from fedpdc_med.imaging.reference import SPLITS, widths

    facts = reference.facts
    shown = table(f"Reference set, version {facts['version']}: {facts['films']} films of {facts['patients']} patients")
    for column in ("split", *facts["classes"], "films", "accuracy 0.80"):
        shown.add_column(column, justify="left" if column == "split" else "right")
    for split, (count, half) in widths(reference).items():
        cells = [str(facts["splits"][split].get(label, 0)) for label in facts["classes"]]
        shown.add_row(split, *cells, str(count), f"± {half:.2f}")
    console.print(shown)
    count, half = widths(reference)["weighting"]
    console.print(f"Provenance: {facts['provenance']}. Licence: {facts['licence']}.")
    console.print("The last column: how well an accuracy of 0.80 measured on that split is known (95 % interval).")
    console.print(
        f"Two sites whose scores differ by less than about {2 * half:.2f} cannot be told apart by {count} "
        f"{SPLITS[1]} films; their weights then differ by chance."
    )
