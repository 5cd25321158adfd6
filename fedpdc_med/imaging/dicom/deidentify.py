"""Identities stay at the site: pseudonyms, age bands, and DICOM files without identity.

A pseudonym is a keyed hash: with the site's key one patient stays one patient within the site, and without the key the
pseudonym reveals nothing, even to someone who can guess patient numbers. Films of published datasets are hashed with a
key that everyone has: their ids are public anyway, and this is the only way to recognise a patient who is both at a
site and in the reference set.
"""

import hmac
import os
import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from dicomanonymizer.simpledicomanonymizer import anonymize_dataset
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import atomic_write
from fedpdc_med.common.paths import owner_only
from fedpdc_med.imaging.dicom.kept import kept

PUBLISHED_KEY = b"films of published collections"
AGE_BANDS = ((20, "0-19"), (40, "20-39"), (60, "40-59"), (80, "60-79"), (130, "80+"))
KEY_BYTES = 32

_NEW_UIDS = ("SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID")
_VIEW_POSITIONS = {"PA": "PA", "AP": "AP", "lateral": "LL"}
# Type 2 elements: required, but may be empty.
_EMPTIED = ("StudyDate", "StudyTime", "AccessionNumber", "ReferringPhysicianName", "StudyID", "Manufacturer")
_METHODS = {"113100": "Basic Application Confidentiality Profile", "113108": "Retain Patient Characteristics Option"}


@owner_only()
def site_key(path: Path) -> bytes:
    """The site's secret key, made at first use and readable by its owner only."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(KEY_BYTES))
        # Creating a link fails if the file exists: if two processes start at once, both use the first one's key.
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        except OSError:  # a disk without links, such as exFAT
            fresh.replace(path)
        fresh.unlink(missing_ok=True)
    try:
        key = bytes.fromhex(path.read_text(encoding="utf-8").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise UserError(
            f"keys/{path.name} is not a site key; restore it from a backup, or delete it and ingest all films again"
        )
    return key


def pseudonym(key: bytes, kind: str, identity: str) -> str:
    """16 hex digits that identify a film or a patient."""
    message = f"{kind}:{identity}".encode("utf-8", "surrogateescape")
    return hmac.new(key, message, sha256).hexdigest()[:16]


def age_band(age: float | None) -> str:
    """A 20-year band; exact ages make it easier to re-identify a person."""
    if age is None or age < 0:
        return ""
    return next((band for end, band in AGE_BANDS if age < end), "")


def deidentified(ds: Dataset, key: bytes, *, film: str, patient: str, sex: str, band: str, view: str) -> Dataset:
    """A new film without identity: elements that are known to be harmless (also by PS3.15), and pseudonyms."""
    clean = kept(ds)
    anonymize_dataset(clean)
    for keyword in _EMPTIED:
        setattr(clean, keyword, "")
    for keyword in _NEW_UIDS:
        # The same UID becomes the same new UID at this site, so that the films of a study stay together.
        old = str(ds.get(keyword) or keyword + film)
        setattr(clean, keyword, generate_uid(entropy_srcs=[key.hex(), old]))
    clean.SeriesNumber = clean.InstanceNumber = 1
    clean.ViewPosition = _VIEW_POSITIONS.get(view, "")
    clean.PatientID = clean.PatientName = patient
    clean.PatientSex, clean.PatientBirthDate = sex, ""
    if band:
        clean.PatientAge = f"{int(band.split('-')[0].rstrip('+')):03d}Y"
    clean.PatientIdentityRemoved = "YES"
    clean.LongitudinalTemporalInformationModified = "REMOVED"
    clean.DeidentificationMethod = [
        "PS3.15 basic profile (dicom-anonymizer), fedpdc_med",
        "Patient's Age is the lower end of a 20-year band",
    ]
    clean.DeidentificationMethodCodeSequence = [_code(value, meaning) for value, meaning in _METHODS.items()]
    clean.file_meta = FileMetaDataset()
    clean.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    clean.preamble = bytes(128)
    return clean


def dicom_name(row: Mapping[str, str]) -> str:
    """A file name; two files with the same UID but different pixels must not overwrite each other."""
    return f"{row['film']}-{row['pixel_hash'][:8]}.dcm"


@owner_only()  # also in a worker process, which may have started before the parent set this
def write_dicom(ds: Dataset, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, lambda file: ds.save_as(file, enforce_file_format=True))


def _code(value: str, meaning: str) -> Dataset:
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, "DCM", meaning
    return item
