"""Examines one film, from its file to a verdict, in a worker process; whatever is in a file, it returns an Outcome."""

import io
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pydicom
import torch
from monai.data.meta_obj import set_track_meta
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from pydicom.errors import InvalidDicomError

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.imaging.dicom import header as dicom
from fedpdc_med.imaging.dicom.bounds import check_inflated
from fedpdc_med.imaging.dicom.deidentify import (
    PUBLISHED_KEY,
    age_band,
    deidentified,
    dicom_name,
    pseudonym,
    write_dicom,
)
from fedpdc_med.imaging.dicom.pixels import LEAST_GREYS, Shown, unscaled
from fedpdc_med.imaging.duplicates import perceptual_hash
from fedpdc_med.imaging.ingest.resize import picture, to_working_size
from fedpdc_med.imaging.ingest.sources import IngestOptions
from fedpdc_med.imaging.records import MAY_HOLD_TEXT, FilmRecord, Outcome, Reason, Refused, Verdict
from fedpdc_med.imaging.store import pixel_hash

SMALL = 300_000
LEAST_RANGE = 16


def start(options: IngestOptions) -> Callable[[FilmRecord], Outcome]:
    """Called once in every worker; parallel work is done by processes, so each has one thread."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    set_track_meta(False)
    return partial(examine, options=options)


def examine(record: FilmRecord, options: IngestOptions) -> Outcome:
    """The verdict on one film; nothing in a file makes it raise an exception."""
    try:
        if record.problem:
            raise Refused(*record.problem)
        return _dicom_film(record, options) if record.source == "dicom" else _picture_film(record, options)
    except Refused as refusal:
        return Outcome.of(refusal)


def _dicom_film(record: FilmRecord, options: IngestOptions) -> Outcome:
    ds = _read(record.path)
    try:
        dicom.check_image(ds)
        facts = dicom.facts(ds)
        dicom.check_content(ds, facts.view, options.views, options.body_parts)
    except Refused:
        raise
    except Exception as error:
        raise Refused(Reason.DAMAGED, type(error).__name__) from error
    patient = options.labels.patient_of(record.name, facts.uid) or facts.patient
    if not patient:
        raise Refused(Reason.NO_PATIENT)
    label = options.labels.of(record.name, facts.uid)
    try:
        shown, applied = unscaled(ds)
    except Refused:
        raise
    except Exception as error:
        raise Refused(Reason.UNDECODABLE, type(error).__name__) from error
    known = replace(
        record,
        name=facts.uid or record.name,
        label=label,
        patient=patient,
        view=facts.view,
        sex=facts.sex,
        age=facts.age,
    )
    outcome = _accepted(known, shown, applied, options)
    if dicom.code(ds, "BurnedInAnnotation") == "NO":
        outcome = replace(outcome, detail="")
    if options.write_dicom:
        _write_deidentified(ds, outcome.row, options.key, options.write_dicom)
    return outcome


def _read(path: Path) -> Dataset:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise Refused(Reason.NOT_DICOM, "empty file")
            # pydicom asks for the position at every element; for a small file that is slower than a copy in memory.
            data = io.BytesIO(file.read()) if size < SMALL else file
            check_inflated(data)
            return pydicom.dcmread(data)
    except OSError as error:
        raise Refused(Reason.UNREADABLE, type(error).__name__) from error
    except InvalidDicomError as error:
        raise Refused(Reason.NOT_DICOM) from error
    except Refused:
        raise
    except Exception as error:
        raise Refused(Reason.DAMAGED, type(error).__name__) from error


def _picture_film(record: FilmRecord, options: IngestOptions) -> Outcome:
    if record.view not in options.views:
        raise Refused(Reason.LATERAL if record.view == "lateral" else Reason.UNKNOWN_VIEW)
    if not record.patient:
        raise Refused(Reason.NO_PATIENT)
    if record.pixels is not None:
        grey = record.pixels if record.pixels.ndim == 2 else record.pixels.mean(axis=-1)
        return _accepted(record, Shown(grey.astype(np.float32), 1 / 255), "8-bit array", options)
    try:
        shown, applied = picture(record.path)
    except Refused:
        raise
    except FileNotFoundError as error:
        raise Refused(Reason.UNREADABLE, "listed in the dataset, but missing") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the machine; not a wrong file
            raise Refused(Reason.UNREADABLE, type(error).__name__) from error
        raise Refused(Reason.NOT_PICTURE, type(error).__name__) from error
    return _accepted(record, shown, applied, options)


def _accepted(record: FilmRecord, shown: Shown, applied: str, options: IngestOptions) -> Outcome:
    film = to_working_size(shown, options.size, options.fit, options.equalise)
    if film.min() == film.max():
        raise Refused(Reason.BLANK)
    _check_greys(film)
    # Copies must be recognised as the same film whatever --fit and --equalise do to them.
    as_is = options.fit == "pad" and not options.equalise
    canonical = film if as_is else to_working_size(shown, options.size)
    height, width = shown.values.shape
    key = PUBLISHED_KEY if record.published else options.key
    row = {
        "film": pseudonym(key, "film", record.name),
        "label": record.label,
        "patient": pseudonym(key, "patient", record.patient),
        "view": record.view,
        "sex": record.sex,
        "age_band": age_band(record.age),
        "source": options.provenance or record.source,
        "pixel_hash": pixel_hash(film),
        "perceptual_hash": perceptual_hash(canonical),
        "processing": applied,
        "height": str(height),
        "width": str(width),
    }
    return Outcome(Verdict.ACCEPTED, detail=MAY_HOLD_TEXT, row=row, pixels=film)


def _check_greys(film: NDArray[np.uint8]) -> None:
    """A film with such greys was read with the wrong range, or shows nothing that a model could learn from."""
    low, high = np.percentile(film, (1, 99))
    if high - low < LEAST_RANGE:
        raise Refused(Reason.FLAT, "almost a single grey level", Verdict.QUARANTINED)
    if ((film > 0) & (film < 255)).mean() < LEAST_GREYS:
        raise Refused(Reason.FLAT, "black and white only", Verdict.QUARANTINED)


def _write_deidentified(ds: Dataset, row: dict[str, str], key: bytes, folder: Path) -> None:
    try:
        about = {name: row[name] for name in ("film", "patient", "sex", "view")}
        clean = deidentified(ds, key, **about, band=row["age_band"])
        write_dicom(clean, folder / dicom_name(row))
    except OSError as error:
        raise WorkFailed(f"the de-identified DICOM files cannot be written: {error.strerror}") from error
    except Exception as error:
        raise Refused(Reason.NOT_DEIDENTIFIED, type(error).__name__, Verdict.QUARANTINED) from error
