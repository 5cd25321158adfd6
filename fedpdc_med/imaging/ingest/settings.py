"""What an ingest applies to every film."""

from dataclasses import dataclass, field
from pathlib import Path

from fedpdc_med.imaging.classes import CHEST, FRONTAL, Fit
from fedpdc_med.imaging.ingest.labels import Labels


@dataclass(frozen=True)
class Settings:
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
