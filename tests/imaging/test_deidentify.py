"""Nothing that leaves the ingest says who a patient is."""

import stat

import numpy as np
import pydicom
import pytest
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.uid import JPEG2000Lossless

from fedpdc_med.errors import UserError
from fedpdc_med.imaging.deidentify import age_band, deidentified, pseudonym, site_key, write_dicom
from fedpdc_med.imaging.pixels import display

KEY, OTHER = b"k" * 32, b"o" * 32


def test_one_patient_is_one_pseudonym_inside_a_site_and_another_outside():
    assert pseudonym(KEY, "patient", "4711") == pseudonym(KEY, "patient", "4711")
    assert len({pseudonym(key, kind, "4711") for key in (KEY, OTHER) for kind in ("patient", "film")}) == 4
    assert len(pseudonym(KEY, "patient", "4711")) == 16
    int(pseudonym(KEY, "patient", "\udcff"), 16)  # a file name that is not valid UTF-8


@pytest.mark.parametrize(
    "age, band",
    [
        (0, "0-19"),
        (19.9, "0-19"),
        (20, "20-39"),
        (59.5, "40-59"),
        (80, "80+"),
        (104, "80+"),
        (None, ""),
        (-1, ""),
        (999, ""),
    ],
)
def test_ages_become_bands(age, band):
    assert age_band(age) == band


def test_the_key_is_made_once_for_its_owner_only(tmp_path):
    key = site_key(tmp_path / "keys" / "harbor.key")
    assert len(key) == 32 and site_key(tmp_path / "keys" / "harbor.key") == key
    assert stat.S_IMODE((tmp_path / "keys" / "harbor.key").stat().st_mode) == 0o600
    assert site_key(tmp_path / "keys" / "other.key") != key
    assert sorted(p.name for p in (tmp_path / "keys").iterdir()) == ["harbor.key", "other.key"]


def test_a_damaged_key_is_an_error_and_not_a_new_key(tmp_path):
    (tmp_path / "harbor.key").write_text("not a key")
    with pytest.raises(UserError, match=r"keys/harbor.key is not a site key"):
        site_key(tmp_path / "harbor.key")


SECRETS = ["Doe", "Jane", "4711", "19700423", "20230515", "St. Nowhere", "Dr^House", "SECRET", "ACC77", "10.11.12"]


def identified(film) -> Dataset:
    """A film with an identity wherever one can hide: table tags, other text, sequences, private tags, overlays."""
    ds = film(
        np.arange(64 * 64, dtype=np.uint16).reshape(64, 64),
        PatientBirthDate="19700423",
        StudyDate="20230515",
        StudyTime="10.11.12",
        AccessionNumber="ACC77",
        InstitutionName="St. Nowhere",
        ReferringPhysicianName="Dr^House",
        StudyDescription="Doe, Jane: cough",
        PatientComments="Jane Doe",
        ImageComments="SECRET",
        WindowCenter=2000,
        WindowWidth=4000,
        ProcessingFunction="SECRET",
        OtherPatientIDs="4711",
        InstanceNumber=4711,
        SeriesNumber=4711,
        RescaleType="SECRET",
        Laterality="SECRET",
        ViewPosition="PA SECRET",
        ICCProfile=b"SECRET",
    )
    ds.add_new("EncryptedContent", "OB", b"SECRET")
    ds.add_new("PixelPaddingValue", "LO", "SECRET")
    ds.PostprocessingFunction = "SECRET_20230515"
    nested = Dataset()
    nested.PatientName, nested.PatientID, nested.CodeMeaning = "Doe^Jane", "4711", "postero-anterior"
    ds.ViewCodeSequence = [nested]
    ds.RequestAttributesSequence = [nested]
    block = ds.private_block(0x0029, "SECRET MAKER", create=True)
    block.add_new(0x10, "LO", "Doe^Jane")
    ds.add_new(0x60003000, "OW", b"Doe^Jane")
    ds.file_meta.SourceApplicationEntityTitle = "SECRET"
    ds.preamble = b"Doe^Jane".ljust(128, b"\0")
    return ds


def cleaned(film, path, key=KEY) -> Dataset:
    ds = deidentified(identified(film), key, film="f" * 16, patient="p" * 16, sex="F", band="40-59", view="PA")
    write_dicom(ds, path)
    return pydicom.dcmread(path)


def test_de_identified_dicom_holds_no_name_id_or_date_and_the_same_picture(film, tmp_path):
    before = identified(film)
    before.save_as(tmp_path / "before.dcm", enforce_file_format=True)
    assert all(secret.encode() in (tmp_path / "before.dcm").read_bytes() for secret in SECRETS)
    after = cleaned(film, tmp_path / "after.dcm")
    data = (tmp_path / "after.dcm").read_bytes()
    assert [secret for secret in SECRETS if secret.encode() in data] == []
    assert np.array_equal(display(before)[0], display(after)[0])
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_sex_age_band_and_view_stay_and_the_file_says_what_was_done(film, tmp_path):
    ds = cleaned(film, tmp_path / "after.dcm")
    assert (ds.PatientID, ds.PatientSex, ds.PatientAge, ds.ViewPosition) == ("p" * 16, "F", "040Y", "PA")
    assert ds.PatientIdentityRemoved == "YES" and "PS3.15" in ds.DeidentificationMethod[0]
    assert ds.DeidentificationMethodCodeSequence[0].CodeValue == "113100"
    assert "ViewCodeSequence" not in ds


def test_uids_are_new_but_a_study_stays_a_study(film, tmp_path):
    before = identified(film)
    study = before.StudyInstanceUID
    first = deidentified(before, KEY, film="1", patient="p", sex="", band="", view="PA")
    again = identified(film)
    again.StudyInstanceUID, again.SOPInstanceUID = study, "1.2.3"
    second = deidentified(again, KEY, film="2", patient="p", sex="", band="", view="PA")
    assert first.StudyInstanceUID == second.StudyInstanceUID != study
    assert first.SOPInstanceUID != second.SOPInstanceUID
    elsewhere = identified(film)
    elsewhere.StudyInstanceUID = study
    assert (
        deidentified(elsewhere, OTHER, film="1", patient="p", sex="", band="", view="PA").StudyInstanceUID
        != first.StudyInstanceUID
    )


def test_unused_bits_and_bytes_after_the_last_pixel_go(film, tmp_path):
    pixels = np.array([[0x1FFF, 0x0123], [0x0FFF, 0xA000]], np.uint16)  # a 12-bit film with something in its top bits
    ds = film(pixels, BitsStored=12, HighBit=11)
    ds.PixelData += b"Jane"
    write_dicom(deidentified(ds, KEY, film="f", patient="p", sex="", band="", view="PA"), tmp_path / "after.dcm")
    after = pydicom.dcmread(tmp_path / "after.dcm")
    assert np.frombuffer(after.PixelData, "<u2").tolist() == [0x0FFF, 0x0123, 0x0FFF, 0]


def test_comments_in_a_compressed_picture_go_and_its_pixels_stay(film, tmp_path):
    pixels = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    ds = film(pixels, BitsStored=12, HighBit=11)
    ds.compress(JPEG2000Lossless)
    stream = next(generate_frames(ds.PixelData, number_of_frames=1))
    at = stream.index(b"\xff\x52")  # before the coding style: a comment segment
    stream = stream[:at] + b"\xff\x64\x00\x0c\x00\x01Doe^Jane" + stream[at:]
    ds.PixelData = encapsulate([stream])
    write_dicom(deidentified(ds, KEY, film="f", patient="p", sex="", band="", view="PA"), tmp_path / "after.dcm")
    assert b"Doe^Jane" not in (tmp_path / "after.dcm").read_bytes()
    assert np.array_equal(pydicom.dcmread(tmp_path / "after.dcm").pixel_array, pixels)
