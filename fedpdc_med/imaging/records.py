"""A film during ingest: what the source says about it, and its verdict."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The detail in the report for an accepted film whose header does not state that the pixels contain no text.
MAY_HOLD_TEXT = "does not say whether text is burned in"


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"


class Reason(StrEnum):
    """Why a film is not in the store; each reason is explained in docs, so add new ones there too."""

    UNREADABLE = "file cannot be read"
    OUTSIDE = "file outside SOURCE"
    NOT_DICOM = "not DICOM"
    NOT_PICTURE = "not a picture"
    DAMAGED = "damaged header"
    NO_PIXELS = "no pixels"
    UNDECODABLE = "truncated or undecodable pixels"
    CRASHED = "decoder crashed"
    TIMED_OUT = "decoder took too long"
    MODALITY = "modality not CR or DX"
    COLOUR = "not monochrome"
    FRAMES = "multi-frame"
    LATERAL = "lateral view"
    UNKNOWN_VIEW = "unknown view"
    BODY_PART = "body part not chest"
    UNKNOWN_BODY_PART = "unknown body part"
    FOR_PROCESSING = "FOR PROCESSING"
    NO_PATIENT = "no patient id"
    NO_LABEL = "no label"
    UNKNOWN_LABEL = "unknown label"
    BLANK = "blank film"
    FLAT = "hardly any greys"
    SHAPE = "too small, too large or too narrow for a chest film"
    DUPLICATE = "duplicate film"
    IN_REFERENCE = "film or patient of the reference set"
    BURNED_IN = "burned-in annotation"
    TWO_LABELS = "same film with two labels"
    SAME_UID = "same SOP instance UID as another film, different pixels"
    NOT_DEIDENTIFIED = "could not be de-identified"


class Refused(Exception):
    """A film does not qualify; `detail` never quotes a value of the file, because it could identify a patient."""

    def __init__(self, reason: Reason, detail: str = "", verdict: Verdict = Verdict.REJECTED) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.verdict = reason, detail, verdict


@dataclass(frozen=True)
class FilmRecord:
    """What a source says about one film. For a DICOM file this is only the path; the rest is in the header."""

    name: str
    """The film's unique name at the source; the store keeps only a keyed hash of it."""
    path: Path
    pixels: NDArray[np.uint8] | None = None
    source: str = "dicom"
    published: bool = False
    """Names and patient ids are public anyway, so pseudonyms may be the same at every site (see deidentify)."""
    label: str = ""
    patient: str = ""
    view: str = "unknown"
    sex: str = ""
    age: float | None = None
    problem: tuple[Reason, str] | None = None
    """A collection's own table may already say that the film does not qualify."""


@dataclass(frozen=True)
class Outcome:
    """The verdict on one film, with its manifest row and pixels when it was accepted."""

    verdict: Verdict
    reason: Reason | None = None
    detail: str = ""
    row: dict[str, Any] = field(default_factory=dict)
    pixels: NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, refusal: Refused) -> "Outcome":
        return cls(refusal.verdict, refusal.reason, refusal.detail)
