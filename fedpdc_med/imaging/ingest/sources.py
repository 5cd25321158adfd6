"""What there is to ingest: the films of a source in a fixed order, and whether it is still the same source."""

import hmac
import json
import os
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.classes import CHEST, FRONTAL, Fit
from fedpdc_med.imaging.ingest.collections import PICTURES, films_of, recognise
from fedpdc_med.imaging.ingest.labels import Labels
from fedpdc_med.imaging.ingest.walk import files_below
from fedpdc_med.imaging.records import FilmRecord, Refused
from fedpdc_med.imaging.store import read_store

BATCH_FILMS, BATCH_FILE_BYTES, BATCH_PIXEL_BYTES = 8, 16_000_000, 60_000


@dataclass(frozen=True)
class IngestOptions:
    """What an ingest applies to every film."""

    labels: Labels
    key: bytes = field(repr=False)
    size: int = 128
    fit: Fit = "pad"
    equalise: bool = False
    views: tuple[str, ...] = FRONTAL
    body_parts: tuple[str, ...] = CHEST
    write_dicom: Path | None = None
    provenance: str | None = None
    """What the manifest calls the source, where that is not the collection's name or `dicom`."""


def records_of(
    source: Path, collection: str | None, labels: Labels | None, labels_file: Path | None
) -> dict[int, FilmRecord]:
    """Every film of the source by its place, counted from 1, in the sorted list of files."""
    if not source.exists():
        raise UserError("SOURCE does not exist")
    published = None if labels and not collection else recognise(source, collection)
    if published:
        if labels:
            raise UserError("this collection brings its own labels; leave out --labels and --label")
        return dict(enumerate(films_of(source, published, asked_for=collection is not None), start=1))
    if not labels:
        raise UserError("a folder of DICOM files needs --labels FILE or --label CLASS")
    table = os.path.realpath(labels_file) if labels_file else None  # Path.resolve raises where a link names itself
    files = enumerate(files_below(source), start=1)
    return {place: _record(name, path, labels) for place, (name, path) in files if os.path.realpath(path) != table}


def _record(name: str, path: Path, labels: Labels) -> FilmRecord:
    """A DICOM file; or a picture that the label table names, since others are thumbnails and the like."""
    if path.suffix.lower() not in PICTURES or not labels.names(name):
        return FilmRecord(name, path)
    label, problem = "", None
    try:
        label = labels.of(name)
    except Refused as refused:
        problem = (refused.reason, refused.detail)
    patient = labels.patient_of(name) or name
    view = labels.view_of(name)
    return FilmRecord(name, path, source="pictures", label=label, patient=patient, view=view, problem=problem)


def fingerprint_of(records: dict[int, FilmRecord], options: IngestOptions, without: Path | None, seed: int) -> str:
    """Tells whether an interrupted or finished ingest was the same one; keyed, because it covers file names."""
    said = asdict(options) | {
        "key": "",
        "write_dicom": str(options.write_dicom),
        "seed": seed,
        "without": read_store(without).info["manifest_sha256"] if without else "",
    }
    digest = hmac.new(options.key, json.dumps(said, sort_keys=True).encode(), sha256)
    for place, record in records.items():
        try:
            state = record.path.stat()
        except OSError:
            continue
        table = (record.label, record.patient, record.view, record.sex, record.age, record.published, record.problem)
        line = f"{place}\0{record.name}\0{table}\0{state.st_size}\0{state.st_mtime_ns}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def batches_of(tasks: list[FilmRecord]) -> list[list[int]]:
    """Small films travel together, because a message costs as much as reading a small film."""
    batches: list[list[int]] = []
    room = 0.0
    for index, record in enumerate(tasks):
        cost = _cost(record)
        if not batches or cost > room:
            batches.append([])
            room = 1.0
        batches[-1].append(index)
        room -= cost
    return batches


def _cost(record: FilmRecord) -> float:
    if record.pixels is not None:
        return max(record.pixels.nbytes / BATCH_PIXEL_BYTES, 1 / BATCH_FILMS)
    try:
        size = record.path.stat().st_size
    except OSError:
        size = 0
    return max(size / BATCH_FILE_BYTES, 1 / BATCH_FILMS)
