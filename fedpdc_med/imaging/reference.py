"""The public reference set: a film store with three disjoint splits, and the facts that its users need."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedpdc_med.common.description import Check
from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.files import atomic_write, read_json
from fedpdc_med.common.paths import owner_only
from fedpdc_med.imaging.classes import CLASSES as CLASS_ORDER
from fedpdc_med.imaging.duplicates import groups, near_pairs, overlap
from fedpdc_med.imaging.ingest.pipeline import ingest
from fedpdc_med.imaging.splits import REFERENCE, split_by_group
from fedpdc_med.imaging.store import FilmStore, pixel_hash, read_store, write_store

SPLITS = tuple(REFERENCE)
# The files of a set; reference.json comes last, because it shows that the others are complete.
FILES = ("films.npy", "manifest.csv", "store.json", "ingest_report.csv", "reference.json")


@dataclass(frozen=True)
class Reference:
    store: FilmStore
    facts: dict[str, Any]

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.facts["classes"])

    def rows(self, split: str) -> np.ndarray:
        return np.flatnonzero(self.store.manifest["split"] == split)


def read_reference(folder: Path) -> Reference:
    if not (folder / "reference.json").is_file():
        raise UserError(f"{folder.name} contains no reference set; make one with: fedpdc reference build")
    return Reference(read_store(folder), read_json(folder / "reference.json"))


@owner_only()
def build_reference(
    source: Path,
    folder: Path,
    *,
    provenance: str,
    licence: str,
    version: str,
    per_class: int | None,
    replace: bool = False,
    seed: int = 0,
    kind: str | None = None,  # the source recorded for its films, if not the one detected in SOURCE
    **how: Any,
) -> Reference:
    """Ingest `source`, split it by patient, keep as many films of every class as the rarest has (or `per_class`)."""
    check_place(source, folder, replace)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.with_name(f".{folder.name}.draft")  # left by an interrupted build, to be continued
    result = ingest(source, "reference", store=draft / "all", seed=seed, provenance=kind, replace=True, **how)
    try:
        if not result.films:
            raise WorkFailed("no film in SOURCE was accepted; run `fedpdc ingest` on it to see the reasons")
        made = read_store(draft / "all")
        chosen = balanced_rows(made.manifest, per_class, seed, result.groups)
        manifest = made.manifest.assign(split=chosen).loc[chosen != ""].reset_index(drop=True)
        kept = np.flatnonzero(chosen != "")
        write_store(
            draft / "built",
            (made.films[i] for i in kept),
            manifest,
            site="reference",
            size=made.info["size"],
            processing=made.info["processing"],
        )
        shutil.copy(draft / "all" / "ingest_report.csv", draft / "built")
        facts = facts_of(manifest, provenance, licence, version)
        atomic_write(draft / "built" / "reference.json", lambda f: f.write(json.dumps(facts, indent=2).encode()))
        folder.mkdir(exist_ok=True)
        for name in FILES:  # other files in the folder are not ours to delete
            (draft / "built" / name).replace(folder / name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return read_reference(folder)


def check_place(source: Path, folder: Path, replace: bool) -> None:
    """Building a set may replace a set and nothing else."""
    ours, theirs = folder.resolve(), source.resolve()
    if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
        raise UserError("--out and SOURCE overlap; choose an --out folder outside SOURCE")
    if folder.exists() and not folder.is_dir():
        raise UserError("--out is a file; name a new folder")
    if (folder / "reference.json").is_file():
        if not replace:
            raise UserError(f"{folder.name} already contains a reference set; use --overwrite, or choose another --out")
    elif folder.is_dir() and any(folder.iterdir()):
        raise UserError(
            f"{folder.name} contains files that are not a reference set; choose a new or empty folder as --out"
        )


def balanced_rows(
    manifest: pd.DataFrame, per_class: int | None, seed: int, known_groups: tuple[int, ...] = ()
) -> np.ndarray:
    """The split of every film, "" for unused ones: each split has the same number of films of every class."""
    grouped = (
        np.asarray(known_groups)
        if known_groups
        else groups(list(manifest["patient"]), list(manifest["perceptual_hash"]))
    )
    labels = manifest["label"].to_numpy(str)
    split = split_by_group(list(labels), grouped, REFERENCE, seed)
    rng = np.random.default_rng(seed)
    chosen = np.full(len(manifest), "", dtype=object)
    for name, share in REFERENCE.items():
        rows = {label: np.flatnonzero((labels == label) & (split == name)) for label in sorted(set(labels))}
        count = min(len(found) for found in rows.values())
        if per_class is not None:
            wanted = round(per_class * share)
            if wanted > count:
                rarest = min(rows, key=lambda label: len(rows[label]))
                raise UserError(
                    f"--per-class {per_class} needs {wanted} films of every class in the {name} split; "
                    f"{rarest} has {count}. Lower --per-class or add films of {rarest}"
                )
            count = wanted
        if count == 0:
            raise UserError(f"the {name} split would have no films of one class; add films to SOURCE")
        for found in rows.values():
            chosen[rng.permutation(found)[:count]] = name
    return chosen


def facts_of(manifest: pd.DataFrame, provenance: str, licence: str, version: str) -> dict[str, Any]:
    table = pd.crosstab(manifest["split"], manifest["label"])
    return {
        "version": version,
        "provenance": provenance,
        "licence": licence,
        "classes": [label for label in CLASS_ORDER if label in set(manifest["label"])],
        "films": len(manifest),
        "patients": int(manifest["patient"].nunique()),
        "splits": {split: {label: int(n) for label, n in row.items()} for split, row in table.to_dict("index").items()},
    }


def check_reference(reference: Reference, sites: dict[str, pd.DataFrame]) -> list[Check]:
    """Checksums, balance, disjoint splits, and overlap with the sites' films."""
    manifest, films = reference.store.manifest, reference.store.films
    changed = sum(pixel_hash(film) != wanted for film, wanted in zip(films, manifest["pixel_hash"], strict=True))
    counts = pd.crosstab(manifest["split"], manifest["label"]).reindex(list(SPLITS), fill_value=0)
    uneven = [str(split) for split, row in counts.iterrows() if row.nunique() > 1 or row.min() == 0]
    splits_of = manifest.groupby("patient")["split"].nunique()
    pairs = near_pairs(list(manifest["perceptual_hash"]))
    split = manifest["split"].to_numpy()
    across = int((split[pairs.first] != split[pairs.second]).sum())
    checks = [
        Check("checksums", changed == 0, f"{len(films)} films, {changed} changed since they were built"),
        Check(
            "class balance",
            not uneven,
            "every split has equally many films of each class" if not uneven else f"not in: {', '.join(uneven)}",
        ),
        Check(
            "patients in one split only",
            bool((splits_of == 1).all()),
            f"{len(splits_of)} patients, {int((splits_of > 1).sum())} in more than one split",
        ),
        Check("no film twice across splits", across == 0, f"{across} pairs of near-duplicates"),
    ]
    for site, theirs in sites.items():
        shared = overlap(theirs, manifest)
        checks.append(Check(f"no overlap with {site}", not shared, f"{int(shared.films.sum())} of {len(theirs)} films"))
    return checks
