"""Scanners that leave their own mark on a synthetic film, and the DICOM file each writes.

A scanner does not depend on the label, so its signature identifies the hospital but never the class.
"""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import (
    UID,
    ComputedRadiographyImageStorage,
    DigitalXRayImageStorageForPresentation,
    ExplicitVRLittleEndian,
    JPEG2000Lossless,
)
from scipy.ndimage import gaussian_filter

from fedpdc_med.imaging.phantoms.anatomy import Picture, Rng, axis, step

Side = Annotated[int, Field(ge=32, le=4096)]
Pixels = NDArray[np.unsignedinteger[Any]]
SOP_CLASSES = {"DX": DigitalXRayImageStorageForPresentation, "CR": ComputedRadiographyImageStorage}


@checked_dataclass(frozen=True)
class Scanner:
    """How one hospital's machine turns a chest into stored pixels; a wrong value is refused by its field's name."""

    model: str = "phantom"
    modality: Literal["CR", "DX"] = "DX"
    rows: Side = 256
    columns: Side = 256
    bits: Literal[8, 10, 12, 16] = 12
    photometric: Literal["MONOCHROME1", "MONOCHROME2"] = "MONOCHROME2"
    exposure: Annotated[float, Field(ge=-0.3, le=0.3)] = 0.0  # added to the picture, whose range is [0, 1]
    contrast: Annotated[float, Field(ge=0.5, le=2)] = 1.0
    noise: Annotated[float, Field(ge=0, le=0.2)] = 0.015  # spread of the grain in the brightest parts
    blur: Annotated[float, Field(ge=0, le=3)] = 0.5  # in pixels of a film of 256
    grid: Annotated[float, Field(ge=0, le=0.1)] = 0.0  # height of the anti-scatter grid's lines
    collimation: Annotated[float, Field(ge=0, le=0.2)] = 0.0  # widest border, as a fraction of the side
    shutter: Literal["black", "white"] = "black"
    marker: Literal["", "L", "R"] = "L"
    tilt: Annotated[float, Field(ge=0, le=15)] = 2.0  # spread of the patient's lean in degrees
    shift: Annotated[float, Field(ge=0, le=0.1)] = 0.015  # spread of the position, as a fraction of the side
    zoom: Annotated[float, Field(ge=0.8, le=1.4)] = 1.08
    ap_share: Annotated[float, Field(ge=0, le=1)] = 0.0  # films taken lying, by a mobile unit
    window: bool = True
    rescale: tuple[float, float] = (1.0, 0.0)  # slope and intercept; DX allows nothing else
    compressed: bool = False


@dataclass(frozen=True)
class Person:
    """An invented patient, so that de-identification has something to remove."""

    name: str
    identifier: str
    birth: date
    sex: str
    age: int


def scan(image: Picture, scanner: Scanner, rng: Rng) -> Pixels:
    """Stored pixel values of one film; `image` is bright where the body is dense."""
    shown = _positioned(image, scanner, rng)
    if scanner.blur:
        shown = gaussian_filter(shown, scanner.blur * len(shown) / 256)
    shown = (shown - 0.5) * scanner.contrast + (0.5 + scanner.exposure)
    if scanner.grid:
        lines = np.sin(np.arange(scanner.columns, dtype=np.float32) * np.float32(2 * np.pi / 3.3 + rng.normal(0, 0.02)))
        shown = shown + scanner.grid * lines
    grain = rng.standard_normal(shown.shape, dtype=np.float32)
    shown = shown + scanner.noise * (0.5 + 0.5 * np.clip(shown, 0, 1)) * grain
    shown = _collimated(shown, scanner, rng)
    if scanner.marker:
        shown = np.maximum(shown, _side_marker(scanner, rng))
    return _stored(np.clip(shown, 0, 1), scanner)


def _positioned(image: Picture, scanner: Scanner, rng: Rng) -> Picture:
    """No two patients stand in the same place: rotate, shift and scale about the centre, then crop to the plate."""
    angle = np.deg2rad(rng.normal(0, scanner.tilt))
    per_pixel = len(image) / max(scanner.rows, scanner.columns) / (scanner.zoom * rng.normal(1, 0.035))
    cos, sin = np.cos(angle) * per_pixel, np.sin(angle) * per_pixel
    dx, dy = rng.normal(0, scanner.shift, 2) * len(image)
    cx, cy = scanner.columns / 2, scanner.rows / 2
    # The body continues beyond the image: repeat its edge, or a shifted film would have black strips.
    margin = len(image) // 8
    image = np.pad(image, margin, mode="edge")
    middle = len(image) / 2
    matrix = (cos, -sin, middle + dx - cos * cx + sin * cy, sin, cos, middle + dy - sin * cx - cos * cy)
    turned = Image.fromarray(image).transform(
        (scanner.columns, scanner.rows), Image.Transform.AFFINE, matrix, Image.Resampling.BICUBIC
    )
    return np.asarray(turned)


def _collimated(shown: Picture, scanner: Scanner, rng: Rng) -> Picture:
    if not scanner.collimation:
        return shown
    top, bottom, left, right = rng.uniform(0, scanner.collimation, 4).tolist()
    y, x = axis(scanner.rows)[:, None], axis(scanner.columns)[None, :]
    field = step(y - top, 0.004) * step(1 - bottom - y, 0.004) * step(x - left, 0.004) * step(1 - right - x, 0.004)
    return shown * field + (1 - field) * float(scanner.shutter == "white")


def _side_marker(scanner: Scanner, rng: Rng) -> Picture:
    """A lead letter in the upper corner of its side; the patient's left is on the viewer's right."""
    canvas = Image.new("L", (scanner.columns, scanner.rows))
    size = max(8, round(rng.uniform(0.045, 0.06) * scanner.rows))
    x = rng.uniform(0.03, 0.07) if scanner.marker == "R" else rng.uniform(0.88, 0.92)
    place = (x * scanner.columns, rng.uniform(0.03, 0.08) * scanner.rows)
    ImageDraw.Draw(canvas).text(place, scanner.marker, fill=245, font=ImageFont.load_default(size))
    return np.asarray(canvas).astype(np.float32) / 255


def _range(scanner: Scanner) -> tuple[float, float]:
    """Stored values of black and white: a film that carries a window leaves room on both sides of it."""
    top = 2**scanner.bits - 1
    return (0.12 * top, 0.8 * top) if scanner.window else (0.0, float(top))


def _stored(shown: Picture, scanner: Scanner) -> Pixels:
    low, high = _range(scanner)
    values = np.rint(low + shown.astype(np.float64) * (high - low))
    if scanner.photometric == "MONOCHROME1":
        values = (2**scanner.bits - 1) - values
    return values.astype(np.uint8) if scanner.bits == 8 else values.astype(np.uint16)


def to_dicom(
    pixels: Pixels, scanner: Scanner, person: Person, *, view: str, taken: date, hospital: str, entropy: str
) -> Dataset:
    """A complete CR or DX object; `entropy` fixes its UIDs, so the same film is the same file."""
    ds = Dataset()
    ds.SpecificCharacterSet = "ISO_IR 192"
    ds.ImageType = ["ORIGINAL", "PRIMARY", ""]
    ds.SOPClassUID = SOP_CLASSES[scanner.modality]
    ds.SOPInstanceUID = _uid(entropy, "instance")
    ds.StudyInstanceUID = _uid(entropy, "study")
    ds.SeriesInstanceUID = _uid(entropy, "series")
    ds.StudyDate = ds.SeriesDate = ds.ContentDate = ds.AcquisitionDate = taken.strftime("%Y%m%d")
    ds.StudyTime = ds.SeriesTime = ds.ContentTime = ds.AcquisitionTime = "101500"
    ds.AccessionNumber = ds.SOPInstanceUID[-8:]
    ds.Modality = scanner.modality
    ds.Manufacturer = "fedpdc_med phantom generator"
    ds.ManufacturerModelName = scanner.model
    ds.InstitutionName = hospital
    ds.ReferringPhysicianName = "Nobody^Nemo"
    ds.StudyDescription = "Chest"
    ds.SeriesDescription = f"Chest {view}"
    ds.PatientName = person.name
    ds.PatientID = person.identifier
    ds.PatientBirthDate = person.birth.strftime("%Y%m%d")
    ds.PatientSex = person.sex
    ds.PatientAge = f"{person.age:03d}Y"
    ds.BodyPartExamined = "CHEST"
    ds.ViewPosition = view
    ds.PatientOrientation = ["L", "F"]
    ds.ImageLaterality = "U"
    ds.StudyID = ds.SeriesNumber = ds.InstanceNumber = "1"
    ds.KVP = "90" if view == "AP" else "120"
    ds.PresentationIntentType = "FOR PRESENTATION"
    ds.BurnedInAnnotation = "NO"
    ds.LossyImageCompression = "00"
    ds.QualityControlImage = "YES"
    ds.ImageComments = "Phantom film made by code; shows no person."
    ds.PixelSpacing = ds.ImagerPixelSpacing = [round(400 / max(pixels.shape), 4)] * 2
    _set_pixels(ds, pixels, scanner)
    return ds


def _uid(entropy: str, kind: str) -> UID:
    """A UUID below 2.25 needs no registered root (PS3.5 B.2)."""
    return UID(f"2.25.{uuid5(NAMESPACE_URL, f'fedpdc_med/phantom/{entropy}/{kind}').int}")


def _set_pixels(ds: Dataset, pixels: Pixels, scanner: Scanner) -> None:
    slope, intercept = scanner.rescale
    ds.RescaleSlope, ds.RescaleIntercept, ds.RescaleType = f"{slope:g}", f"{intercept:g}", "US"
    if scanner.modality == "DX":
        ds.PresentationLUTShape = "INVERSE" if scanner.photometric == "MONOCHROME1" else "IDENTITY"
        ds.PixelIntensityRelationship, ds.PixelIntensityRelationshipSign = "LOG", -1
        ds.DetectorType, ds.PositionerType = "DIRECT", "COLUMN"
        ds.AnatomicRegionSequence, ds.AcquisitionContextSequence = [], []
    if scanner.window:
        low, high = (float(v) for v in _stored(np.array([0.0, 1.0], np.float32), scanner))
        ds.WindowCenter = f"{slope * (low + high) / 2 + intercept:.6g}"
        ds.WindowWidth = f"{slope * abs(high - low):.6g}"
    ds.SamplesPerPixel = 1
    ds.PhotometricInterpretation = scanner.photometric
    ds.Rows, ds.Columns = pixels.shape
    ds.BitsAllocated = 8 if scanner.bits == 8 else 16
    ds.BitsStored, ds.HighBit, ds.PixelRepresentation = scanner.bits, scanner.bits - 1, 0
    ds.PixelData = pixels.tobytes()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds["PixelData"].VR = "OB" if scanner.bits == 8 else "OW"
    if scanner.compressed:
        ds.compress(JPEG2000Lossless, generate_instance_uid=False)
