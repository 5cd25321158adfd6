"""The film store: a folder with pixels and a manifest, which reveal neither patients' identities nor file paths."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import atomic_write, read_json
from fedpdc_med.imaging.classes import CLASSES

FORMAT = 1
COLUMNS = (
    "film",
    "label",
    "patient",
    "view",
    "sex",
    "age_band",
    "source",
    "pixel_hash",
    "perceptual_hash",
    "split",
    "processing",
    "height",
    "width",
)
SHAPE = ("height", "width")  # of the film before it was resized
REPORT_COLUMNS = ("file", "verdict", "reason", "detail")
_PACKAGES = ("fedpdc_med", "pydicom", "pylibjpeg-libjpeg", "pylibjpeg-openjpeg", "monai", "torch")


@dataclass(frozen=True)
class FilmStore:
    """A site's films: `films` is a read-only memory map of the file, row i of `manifest` describes films[i]."""

    folder: Path
    films: NDArray[np.uint8]
    manifest: pd.DataFrame
    info: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        """The hash of the whole manifest, which contains the hash of every film."""
        return str(self.info["manifest_sha256"])[:16]

    def __repr__(self) -> str:
        classes = ", ".join(f"{label} {count}" for label, count in self.info["counts"]["classes"].items() if count)
        patients = self.info["counts"]["patients"]
        return f"FilmStore({self.info['site']}: {len(self.films)} films, {patients} patients; {classes})"


def pixel_hash(film: NDArray[np.uint8]) -> str:
    return sha256(np.ascontiguousarray(film).tobytes()).hexdigest()[:32]


def read_store(folder: Path) -> FilmStore:
    """Open a film store; an incomplete or changed one is an error, because its rows would not match its films."""
    if not (folder / "store.json").is_file():
        raise UserError(
            f"{folder.name} has no finished film store; make it with: fedpdc ingest SOURCE --site {folder.name}"
        )
    info = read_json(folder / "store.json")
    if info["format"] != FORMAT:
        raise UserError(
            f"the film store of {folder.name} has format {info['format']}, this version reads {FORMAT}; ingest it again"
        )
    text = (folder / "manifest.csv").read_bytes()
    if sha256(text).hexdigest() != info["manifest_sha256"]:
        raise UserError(f"manifest.csv of {folder.name} was changed after ingest; ingest the films again")
    manifest = pd.read_csv(io.BytesIO(text), dtype=str, keep_default_na=False)
    try:
        films = np.lib.format.open_memmap(folder / "films.npy", mode="r")
    except (ValueError, EOFError):
        remedy = "copy it again or re-ingest the site"
        raise UserError(f"films.npy of {folder.name} is corrupt or incomplete; {remedy}") from None
    if films.dtype != np.uint8 or films.shape != (len(manifest), 1, info["size"], info["size"]):
        raise UserError(f"films.npy of {folder.name} does not match its manifest; ingest the films again")
    return FilmStore(folder, films, manifest, info)


def write_store(
    folder: Path,
    films: Iterable[NDArray[np.uint8]],
    manifest: pd.DataFrame,
    *,
    site: str,
    size: int,
    processing: Mapping[str, Any],
    ingest: str = "",
) -> None:
    """Write or replace a store; store.json is deleted first and written last, so no incomplete store is readable."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "store.json").unlink(missing_ok=True)
    manifest = manifest[list(COLUMNS)]
    text = manifest.to_csv(index=False, lineterminator="\n").encode()
    atomic_write(folder / "films.npy", lambda file: _write_films(file, films, len(manifest), size))
    atomic_write(folder / "manifest.csv", lambda file: file.write(text))
    info = {
        "format": FORMAT,
        "site": site,
        "size": size,
        "classes": list(CLASSES),
        "counts": counts(manifest),
        "processing": dict(processing),
        "versions": dict(_versions()),
        "ingest": ingest,
        "manifest_sha256": sha256(text).hexdigest(),
    }
    atomic_write(folder / "store.json", lambda file: file.write(json.dumps(info, indent=2).encode() + b"\n"))


def original_shapes(manifest: pd.DataFrame) -> NDArray[np.int64]:
    """Height and width (N, 2) of the original films, 0 if the store does not know them."""
    known = manifest[list(SHAPE)].apply(pd.to_numeric, errors="coerce")
    return known.fillna(0).to_numpy(np.int64)


def write_report(folder: Path, rows: Iterable[tuple[int, str, str, str]]) -> None:
    """Every file of the source by its place in the sorted list: file names can hold patients' names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(REPORT_COLUMNS)
    writer.writerows(rows)
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / "ingest_report.csv", lambda file: file.write(text.getvalue().encode()))


def counts(manifest: pd.DataFrame) -> dict[str, Any]:
    found = manifest["label"].value_counts()
    return {
        "films": len(manifest),
        "patients": int(manifest["patient"].nunique()),
        "classes": {label: int(found.get(label, 0)) for label in CLASSES},
        "splits": {str(split): int(n) for split, n in sorted(manifest["split"].value_counts().items())},
    }


def _write_films(file: IO[bytes], films: Iterable[NDArray[np.uint8]], count: int, size: int) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(np.uint8)),
        "fortran_order": False,
        "shape": (count, 1, size, size),
    }
    np.lib.format.write_array_header_1_0(file, header)
    written = sum(file.write(np.ascontiguousarray(film).tobytes()) for film in films)
    if written != count * size * size:
        raise ValueError(f"{written} bytes of pixels for {count} films of {size} x {size}")


@cache
def _versions() -> dict[str, str]:
    return {package: version(package) for package in _PACKAGES}
