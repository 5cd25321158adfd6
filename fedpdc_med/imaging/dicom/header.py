"""What a DICOM header says about a film, and reasons in it to refuse the film."""

import re
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache, lru_cache
from math import isfinite
from typing import Any

from pydicom.dataset import Dataset
from pydicom.tag import BaseTag, Tag
from pydicom.uid import DigitalXRayImageStorageForProcessing

from fedpdc_med.imaging.classes import FRONTAL
from fedpdc_med.imaging.records import Reason, Refused, Verdict

MODALITIES = ("CR", "DX")
MOST_PIXELS = 100_000_000
_VIEW_WORDS = {
    "PA": r"PA|P-A|POSTERO-?ANTERIOR|POSTEROANTERIOR",
    "AP": r"AP|A-P|ANTERO-?POSTERIOR|ANTEROPOSTERIOR",
    "lateral": r"LAT|LATERAL|LL|RL|LLAT|RLAT|LATERO\w*|SEITL|SEITLICH|PROFIL|PERFIL|ZIJDELINGS",
    "frontal": r"FRONTAL",
}
_NOT_STANDARD = r"OBLIQUE|OBL|DECUB\w*|LLD|RLD|LORDOTIC|AXIAL"


@dataclass(frozen=True)
class Facts:
    """What the store may keep of a film's header, before identifiers are hashed and ages are banded."""

    uid: str
    patient: str
    view: str
    sex: str
    age: float | None


def facts(ds: Dataset) -> Facts:
    sex = code(ds, "PatientSex")
    return Facts(
        text(ds, "SOPInstanceUID"), text(ds, "PatientID"), view_of(ds), sex if sex in ("F", "M") else "", age_of(ds)
    )


def check_image(ds: Dataset) -> None:
    """Refuse anything but a single monochrome X-ray frame for presentation."""
    if "PixelData" not in ds:
        raise Refused(Reason.NO_PIXELS)
    if (modality := code(ds, "Modality")) not in MODALITIES:
        raise Refused(Reason.MODALITY, modality if re.fullmatch("[A-Z]{2,4}", modality) else "")
    if code(ds, "PhotometricInterpretation") not in ("MONOCHROME1", "MONOCHROME2") or ds.SamplesPerPixel != 1:
        raise Refused(Reason.COLOUR)
    if int(text(ds, "NumberOfFrames") or 1) != 1:
        raise Refused(Reason.FRAMES)
    raw = text(ds, "SOPClassUID") == DigitalXRayImageStorageForProcessing
    if raw or code(ds, "PresentationIntentType") == "FOR PROCESSING":
        raise Refused(Reason.FOR_PROCESSING)
    if ds.Rows * ds.Columns > MOST_PIXELS:
        raise Refused(Reason.SHAPE, f"{ds.Columns} x {ds.Rows} pixels")


def check_content(ds: Dataset, view: str, views: tuple[str, ...], body_parts: tuple[str, ...]) -> None:
    """Refuse anything but a frontal chest film, unless it was asked for."""
    part = body_part_of(ds)
    if part not in {name.upper() for name in body_parts}:
        raise Refused(Reason.UNKNOWN_BODY_PART if part == "UNKNOWN" else Reason.BODY_PART)
    if view not in views:
        raise Refused(Reason.LATERAL if view == "lateral" else Reason.UNKNOWN_VIEW)
    if code(ds, "BurnedInAnnotation") == "YES":
        raise Refused(Reason.BURNED_IN, "text in the image may name the patient", Verdict.QUARANTINED)


def body_part_of(ds: Dataset) -> str:
    """The body part examined; where the tag is empty, CHEST if a description says so, else UNKNOWN."""
    if part := code(ds, "BodyPartExamined"):
        return part
    described = " ".join(code(ds, keyword) for keyword in ("StudyDescription", "SeriesDescription", "ProtocolName"))
    return "CHEST" if re.search(r"\b(CHEST|THORAX|LUNGS?|CXR)\b", described) else "UNKNOWN"


def view_of(ds: Dataset) -> str:
    """PA, AP, frontal, lateral or unknown, from the first element that says so; unknown if the orientation disagrees.

    View Position is often empty or missing: some converters write PA into Patient Position, DX systems write a view
    code, and others only a description. Patient Orientation separates frontal from lateral, but not PA from AP.
    """
    way = "".join(sorted(part[:1] for part in texts(ds, "PatientOrientation")))
    lies = "frontal" if way in ("FL", "FR", "HL", "HR") else "lateral" if way in ("AF", "FP", "AH", "HP") else "unknown"
    said = _view_said(ds)
    if said in FRONTAL and lies == "lateral":
        return "unknown"
    return said or lies


def _view_said(ds: Dataset) -> str:
    if position := code(ds, "ViewPosition"):
        return view_in(position) or "unknown"
    coded = ds.get("ViewCodeSequence")
    meaning = text(coded[0], "CodeMeaning") if coded else ""
    for said in (meaning, text(ds, "PatientPosition"), text(ds, "SeriesDescription"), text(ds, "ProtocolName")):
        if view := view_in(said):
            return view
    return ""


@lru_cache(maxsize=1000)
def view_in(said: str) -> str | None:
    """The view that a text names; None if it names two, or an oblique or decubitus view."""
    said = said.upper().replace("_", " ")
    if re.search(rf"\b({_NOT_STANDARD})\b", said):
        return None
    named = [view for view, words in _VIEW_WORDS.items() if re.search(rf"\b({words})\b", said)]
    return named[0] if len(named) == 1 else None


def age_of(ds: Dataset) -> float | None:
    """Age in years from Patient's Age, or from the birth and study dates."""
    if found := re.fullmatch(r"(\d{1,3})([DWMY]?)", code(ds, "PatientAge")):
        return int(found[1]) / {"D": 365.25, "W": 52.18, "M": 12}.get(found[2], 1)
    born, taken = _date(ds, "PatientBirthDate"), _date(ds, "StudyDate")
    return (taken - born).days / 365.25 if born and taken and taken >= born else None


def _date(ds: Dataset, keyword: str) -> date | None:
    try:
        return datetime.strptime(text(ds, keyword)[:8], "%Y%m%d").date()
    except ValueError:
        return None


def texts(ds: Dataset, keyword: str) -> list[str]:
    """The values of an element as text.

    They are read from the bytes of the file, because pydicom's own conversion takes ten times as long and ingest reads
    about twenty elements per film.
    """
    element = ds.get_item(_tag(keyword))
    value: Any = element.value if element is not None else None
    if isinstance(value, bytes):
        value = value.decode("latin-1").split("\\")
    elif value is None or isinstance(value, str) or not hasattr(value, "__iter__"):
        value = [] if value is None else [value]
    return [str(part).strip(" \0") for part in value]


def text(ds: Dataset, keyword: str) -> str:
    """The first value of an element, "" if there is none."""
    return next(iter(texts(ds, keyword)), "")


def code(ds: Dataset, keyword: str) -> str:
    return text(ds, keyword).upper()


def number(ds: Dataset, keyword: str) -> float | None:
    """The first value of a decimal string, or None if there is no usable one."""
    try:
        value = float(text(ds, keyword))
    except ValueError:
        return None
    return value if isfinite(value) else None


@cache
def _tag(keyword: str) -> BaseTag:
    return Tag(keyword)
