"""Who is on a film stays at the site: pseudonyms, age bands, and DICOM without identity.

A pseudonym is a keyed hash: with the site's key one patient stays one patient inside the site, and without it the
pseudonym means nothing, not even to someone who can guess patient numbers. Films of published collections are hashed
with a key that everyone has: their ids are public anyway, and only so can a patient be recognised who is both at a site
and in the reference set.
"""

import hmac
import os
import re
import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from dicomanonymizer.simpledicomanonymizer import anonymize_dataset
from pydicom.datadict import dictionary_VR
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

from fedpdc_med.errors import UserError

PUBLISHED_KEY = b"films of published collections"
AGE_BANDS = ((20, "0-19"), (40, "20-39"), (60, "40-59"), (80, "60-79"), (130, "80+"))
KEY_BYTES = 32

_NEW_UIDS = ("SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID")
# All that may stay, once the PS3.15 table has been applied: what tells how to read or show the pixels.
_KEPT = {
    "SOPClassUID",
    "ImageType",
    "Rows",
    "Columns",
    "BitsAllocated",
    "BitsStored",
    "HighBit",
    "PixelRepresentation",
    "SamplesPerPixel",
    "PixelData",
    "PixelPaddingValue",
    "PixelPaddingRangeLimit",
    "PixelSpacing",
    "ImagerPixelSpacing",
    "PixelAspectRatio",
    "PixelIntensityRelationshipSign",
    "RescaleSlope",
    "RescaleIntercept",
    "WindowCenter",
    "WindowWidth",
    "LossyImageCompressionRatio",
    "VOILUTSequence",
    "ModalityLUTSequence",
    "LUTDescriptor",
    "LUTData",
}
# Codes stay where they are the standard's own; makers write free text into such elements.
_KEPT_CODES = {
    "Modality": "CR|DX",
    "PresentationIntentType": "FOR PRESENTATION",
    "PhotometricInterpretation": "MONOCHROME[12]",
    "PixelIntensityRelationship": "LIN|LOG|DISP",
    "PresentationLUTShape": "IDENTITY|INVERSE",
    "VOILUTFunction": "LINEAR|LINEAR_EXACT|SIGMOID",
    "LossyImageCompression": "00|01",
    "LossyImageCompressionMethod": r"ISO_\d{5}_\d",
    "BurnedInAnnotation": "YES|NO",
    "BodyPartExamined": "CHEST|THORAX|LUNGS?|RIB|RIBCAGE",
    "ImageLaterality": "[RLUB]",
    "Laterality": "[RL]",
    "PatientOrientation": "[ALPRFH]{1,3}",
    "RescaleType": "US|HU",
}
_VIEW_POSITIONS = {"PA": "PA", "AP": "AP", "lateral": "LL"}
# Type 2 elements: a film must have them, and they may be empty.
_EMPTIED = ("StudyDate", "StudyTime", "AccessionNumber", "ReferringPhysicianName", "StudyID", "Manufacturer")
_METHODS = {"113100": "Basic Application Confidentiality Profile", "113108": "Retain Patient Characteristics Option"}


def site_key(path: Path) -> bytes:
    """The site's secret, made at first use and readable by its owner only."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(KEY_BYTES))
        # A link fails where a file exists: of two processes that start at once, both then use the first one's key.
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        except OSError:  # a disc without links, such as exFAT
            fresh.replace(path)
        fresh.unlink(missing_ok=True)
    try:
        key = bytes.fromhex(path.read_text().strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise UserError(
            f"keys/{path.name} is not a site key; restore it from a backup, or delete it and ingest all films again"
        )
    return key


def pseudonym(key: bytes, kind: str, identity: str) -> str:
    """16 hex digits that stand for a film or a patient."""
    message = f"{kind}:{identity}".encode("utf-8", "surrogateescape")
    return hmac.new(key, message, sha256).hexdigest()[:16]


def age_band(age: float | None) -> str:
    """A 20-year band; exact ages help to find a person again."""
    if age is None or age < 0:
        return ""
    return next((band for end, band in AGE_BANDS if age < end), "")


def deidentified(ds: Dataset, key: bytes, *, film: str, patient: str, sex: str, band: str, view: str) -> Dataset:
    """The film without identity (changes `ds`): the PS3.15 table, then all that is not known to be harmless."""
    # The same UID becomes the same new UID at this site, so that the films of a study stay together.
    uids = {
        keyword: generate_uid(entropy_srcs=[key.hex(), str(ds.get(keyword) or keyword + film)]) for keyword in _NEW_UIDS
    }
    _plain_pixels(ds)
    anonymize_dataset(ds)
    # The table is applied to the top level only, and knows no free text of one maker's making.
    _strip(ds)
    if "ImageType" in ds:  # two codes of the standard, then anything
        ds.ImageType = ["ORIGINAL" if "ORIGINAL" in ds.ImageType else "DERIVED", "PRIMARY"]
    for keyword in _EMPTIED:
        setattr(ds, keyword, "")
    for keyword, uid in uids.items():
        setattr(ds, keyword, uid)
    ds.SeriesNumber = ds.InstanceNumber = 1
    ds.ViewPosition = _VIEW_POSITIONS.get(view, "")
    ds.PatientID = ds.PatientName = patient
    ds.PatientSex, ds.PatientBirthDate = sex, ""
    if band:
        ds.PatientAge = f"{int(band.split('-')[0].rstrip('+')):03d}Y"
    ds.PatientIdentityRemoved = "YES"
    ds.LongitudinalTemporalInformationModified = "REMOVED"
    ds.DeidentificationMethod = [
        "PS3.15 basic profile (dicom-anonymizer), fedpdc_med",
        "Patient's Age is the lower end of a 20-year band",
    ]
    ds.DeidentificationMethodCodeSequence = [_code(value, meaning) for value, meaning in _METHODS.items()]
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds.preamble = bytes(128)
    return ds


def dicom_name(row: Mapping[str, str]) -> str:
    """Two files that claim to be the same film but differ in pixels must not overwrite each other."""
    return f"{row['film']}-{row['pixel_hash'][:8]}.dcm"


def write_dicom(ds: Dataset, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    ds.save_as(draft, enforce_file_format=True)
    draft.replace(path)


def _plain_pixels(ds: Dataset) -> None:
    """The pixels and nothing else: unused bits, bytes after the last pixel and comments in a JPEG can hold a name."""
    from fedpdc_med.imaging.pixels import decode  # here, because the parent process has no use for torch

    if ds.original_encoding[1] is False and ("VOILUTSequence" in ds or "ModalityLUTSequence" in ds):
        raise ValueError("a table in big-endian byte order")
    stored = decode(ds)
    unused = int(ds.BitsAllocated) - int(ds.BitsStored)
    stored = (stored.astype(stored.dtype.newbyteorder("<")) << unused) >> unused
    data = stored.astype(stored.dtype.newbyteorder("<")).tobytes()
    del ds.PixelData
    ds.add_new("PixelData", "OB" if ds.BitsAllocated == 8 else "OW", data + b"\0" * (len(data) % 2))
    ds.HighBit = ds.BitsStored - 1


def _strip(ds: Dataset) -> None:
    for element in list(ds):
        if not _harmless(element):
            del ds[element.tag]
        elif element.VR == "SQ":
            for item in element.value:
                _strip(item)


def _harmless(element: DataElement) -> bool:
    """Known by its keyword, of the kind that the standard gives it, and of codes only those of the standard."""
    keyword = element.keyword
    if keyword not in _KEPT and keyword not in _KEPT_CODES:
        return False
    if element.VR not in dictionary_VR(element.tag):
        return False
    values = [element.value] if isinstance(element.value, str) else element.value
    codes = _KEPT_CODES.get(keyword)
    return codes is None or all(re.fullmatch(codes, str(value)) for value in values or ())


def _code(value: str, meaning: str) -> Dataset:
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, "DCM", meaning
    return item
