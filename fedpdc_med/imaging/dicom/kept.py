"""What a de-identified DICOM film keeps: only what is needed to read and display its pixels, written from scratch.

No element is copied from the file as it is. pydicom reads an element of the wrong kind, with too many values, or with
text instead of a number, and would write the same bytes again.
"""

import re

import numpy as np
from pydicom.dataset import Dataset
from pydicom.uid import (
    ComputedRadiographyImageStorage,
    DigitalXRayImageStorageForPresentation,
    SecondaryCaptureImageStorage,
)

from fedpdc_med.imaging.dicom.header import code, text, texts

_SOP_CLASSES = {"CR": ComputedRadiographyImageStorage, "DX": DigitalXRayImageStorageForPresentation}
_NEEDED = ("SamplesPerPixel", "Rows", "Columns", "BitsAllocated", "BitsStored", "PixelRepresentation")
# Codes are kept if they are the standard's own, and how many of them; manufacturers write free text into them.
_CODES = {
    "Modality": ("CR|DX", 1),
    "PresentationIntentType": ("FOR PRESENTATION", 1),
    "PhotometricInterpretation": ("MONOCHROME[12]", 1),
    "PixelIntensityRelationship": ("LIN|LOG|DISP", 1),
    "PresentationLUTShape": ("IDENTITY|INVERSE", 1),
    "VOILUTFunction": ("LINEAR|LINEAR_EXACT|SIGMOID", 1),
    "LossyImageCompression": ("00|01", 1),
    "LossyImageCompressionMethod": ("ISO_10918_1|ISO_14495_1|ISO_15444_(1|15)", 1),
    "BurnedInAnnotation": ("YES|NO", 1),
    "BodyPartExamined": ("CHEST|THORAX|LUNGS?|RIB|RIBCAGE", 1),
    "ImageLaterality": ("[RLUB]", 1),
    "Laterality": ("[RL]", 1),
    "PatientOrientation": ("[ALPRFH]{1,3}", 2),
    "RescaleType": ("US|HU", 1),
}
# Decimal numbers and how many of them; if there are several windows, the first one is used.
_DECIMALS = {
    "PixelSpacing": 2,
    "ImagerPixelSpacing": 2,
    "RescaleSlope": 1,
    "RescaleIntercept": 1,
    "WindowCenter": 1,
    "WindowWidth": 1,
    "LossyImageCompressionRatio": 1,
}
_DECIMAL = r"[+-]?(\d+\.?\d*|\.\d+)(E[+-]?\d{1,2})?"
_TABLES = ("ModalityLUTSequence", "VOILUTSequence")


def kept(ds: Dataset) -> Dataset:
    """A new film with the harmless elements; an error if a required one is not usable."""
    film = Dataset()
    said, fitting = text(ds, "SOPClassUID"), _SOP_CLASSES[code(ds, "Modality")]
    film.SOPClassUID = said if said in (*_SOP_CLASSES.values(), SecondaryCaptureImageStorage) else fitting
    if "ImageType" in ds:  # two codes of the standard, then anything
        film.ImageType = ["ORIGINAL" if "ORIGINAL" in texts(ds, "ImageType") else "DERIVED", "PRIMARY"]
    for keyword in _NEEDED:
        setattr(film, keyword, int(ds[keyword].value))
    film.HighBit = film.BitsStored - 1
    film.add_new("PixelData", "OB" if film.BitsAllocated == 8 else "OW", _pixels(ds))
    for keyword, (pattern, count) in _CODES.items():
        if codes := _values(ds, keyword, pattern, count):
            setattr(film, keyword, codes)
    for keyword, count in _DECIMALS.items():
        if numbers := _values(ds, keyword, _DECIMAL, count):
            setattr(film, keyword, [f"{float(number):.7g}" for number in numbers])
    if sides := _values(ds, "PixelAspectRatio", r"\d{1,4}", 2):
        film.PixelAspectRatio = [int(side) for side in sides]
    for keyword in ("PixelPaddingValue", "PixelPaddingRangeLimit"):
        if keyword in ds and isinstance(ds[keyword].value, int):
            film.add_new(keyword, "SS" if film.PixelRepresentation else "US", int(ds[keyword].value))
    if "PixelIntensityRelationshipSign" in ds and ds.PixelIntensityRelationshipSign in (1, -1):
        film.PixelIntensityRelationshipSign = int(ds.PixelIntensityRelationshipSign)
    for keyword in _TABLES:
        if keyword in ds and ds[keyword].value:
            setattr(film, keyword, [_table(ds[keyword].value[0])])
    return film


def _values(ds: Dataset, keyword: str, pattern: str, count: int) -> list[str]:
    """The first `count` values, if there are that many and all match the pattern."""
    values = [value.upper() for value in texts(ds, keyword)[:count]]
    return values if len(values) == count and all(re.fullmatch(pattern, v, re.ASCII) for v in values) else []


def _pixels(ds: Dataset) -> bytes:
    """The pixels only: unused bits, bytes after the last pixel and comments in a JPEG can contain a name."""
    from fedpdc_med.imaging.dicom.pixels import decode  # imported here, because the parent process does not need torch

    stored = decode(ds)
    unused = int(ds.BitsAllocated) - int(ds.BitsStored)
    stored = (stored.astype(stored.dtype.newbyteorder("<")) << unused) >> unused
    data = stored.astype(stored.dtype.newbyteorder("<")).tobytes()
    return data + b"\0" * (len(data) % 2)


def _table(item: Dataset) -> Dataset:
    """A look-up table with exactly the number of entries and bits that it announces."""
    from fedpdc_med.imaging.dicom.pixels import lut_entries

    count, first, bits = (int(value) for value in item.LUTDescriptor)
    entries = lut_entries(item)
    most = 8 if entries.dtype == np.uint8 else 16
    if len(entries) != (count or 1 << 16) or not 8 <= bits <= most or int(entries.max()) >= 1 << bits:
        raise ValueError("the entries of a look-up table do not fit its descriptor")
    table = Dataset()
    table.add_new("LUTDescriptor", "SS" if first < 0 else "US", [count, first, bits])
    data = entries.astype("u1" if entries.dtype == np.uint8 else "<u2").tobytes()
    table.add_new("LUTData", "OW", data + b"\0" * (len(data) % 2))
    return table
