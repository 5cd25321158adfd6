"""Who is on a film stays at the site: pseudonyms, age bands, and DICOM without identity.

A pseudonym is a keyed hash: with the site's key one patient stays one patient inside the site, and without it the
pseudonym means nothing, not even to someone who can guess patient numbers. Films of published collections are hashed
with a key that everyone has: their ids are public anyway, and only so can a patient be recognised who is both at a site
and in the reference set.
"""

import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from dicomanonymizer.simpledicomanonymizer import anonymize_dataset
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import UID, ImplicitVRLittleEndian, generate_uid

from fedpdc_med.errors import UserError

PUBLISHED_KEY = b"films of published collections"
AGE_BANDS = ((20, "0-19"), (40, "20-39"), (60, "40-59"), (80, "60-79"), (130, "80+"))
KEY_BYTES = 32

# What may stay of the kinds of element that can hold a name, an id or a date, once the PS3.15 table has been applied.
_KEPT_TEXT = {"RescaleType", "CodeValue", "CodingSchemeDesignator", "CodeMeaning"}
_KEPT_UIDS = {"SOPClassUID", "SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID"}
_KEPT_SEQUENCES = {"VOILUTSequence", "ModalityLUTSequence", "ViewCodeSequence", "AnatomicRegionSequence"}
# Codes of the standard that tell how to read or show the pixels; makers write free text into others of this kind.
_KEPT_CODES = {
    "ImageType",
    "Modality",
    "PresentationIntentType",
    "PhotometricInterpretation",
    "PixelIntensityRelationship",
    "PresentationLUTShape",
    "VOILUTFunction",
    "LossyImageCompression",
    "LossyImageCompressionMethod",
    "BurnedInAnnotation",
    "BodyPartExamined",
    "ViewPosition",
    "ImageLaterality",
    "Laterality",
    "PatientOrientation",
    "SpecificCharacterSet",
}
_NOTHING: set[str] = set()
_KEPT = {
    **dict.fromkeys(("LO", "LT", "PN", "SH", "ST", "UC", "UR", "UT", "AE", "UN"), _KEPT_TEXT),
    **dict.fromkeys(("DA", "DT", "TM"), _NOTHING),
    "CS": _KEPT_CODES,
    "UI": _KEPT_UIDS,
    "SQ": _KEPT_SEQUENCES,
}
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
        with suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
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


def deidentified(ds: Dataset, key: bytes, *, film: str, patient: str, sex: str, band: str) -> Dataset:
    """The film without identity (changes `ds`): the PS3.15 table, then all else that could hold text or a date."""
    # The same UID becomes the same new UID at this site, so that the films of a study stay together.
    uids = {
        keyword: generate_uid(entropy_srcs=[key.hex(), str(ds.get(keyword) or keyword + film)])
        for keyword in _KEPT_UIDS - {"SOPClassUID"}
    }
    syntax = UID(ds.file_meta.get("TransferSyntaxUID") or ImplicitVRLittleEndian)
    anonymize_dataset(ds)
    # The table is applied to the top level only, and knows no free text of one maker's making.
    _strip(ds)
    for element in ds.group_dataset(0x0010):
        del ds[element.tag]
    if "ImageType" in ds:  # two codes of the standard, then anything
        ds.ImageType = ["ORIGINAL" if "ORIGINAL" in ds.ImageType else "DERIVED", "PRIMARY"]
    for keyword in _EMPTIED:
        setattr(ds, keyword, "")
    for keyword, uid in uids.items():
        setattr(ds, keyword, uid)
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
    ds.file_meta.TransferSyntaxUID = syntax
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


def _strip(ds: Dataset) -> None:
    for element in list(ds):
        keyword, kind = element.keyword, element.VR
        overlay_or_curve = element.tag.group & 0xFF00 in (0x5000, 0x6000)
        may_identify = keyword not in _KEPT.get(kind, {keyword})
        if overlay_or_curve or may_identify or element.tag.is_private:
            del ds[element.tag]
        elif kind == "SQ":
            for item in element.value:
                _strip(item)


def _code(value: str, meaning: str) -> Dataset:
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, "DCM", meaning
    return item
