"""Nothing that leaves the ingest says who a patient is."""

import stat

import numpy as np
import pydicom
import pytest
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.tag import Tag
from pydicom.uid import (
    ComputedRadiographyImageStorage,
    DigitalXRayImageStorageForPresentation,
    JPEG2000Lossless,
    SecondaryCaptureImageStorage,
)

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.dicom.deidentify import age_band, deidentified, pseudonym, site_key, write_dicom
from fedpdc_med.imaging.dicom.pixels import display

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
    (tmp_path / "harbor.key").write_text("not a key", encoding="utf-8")
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


# All elements that may stay in a de-identified film, with a value as it stands in a file.
STAYS = {
    "SOPClassUID": ("UI", b"1.2.840.10008.5.1.4.1.1.1\0"),
    "ImageType": ("CS", b"ORIGINAL\\PRIMARY "),
    "Modality": ("CS", b"CR"),
    "PresentationIntentType": ("CS", b"FOR PRESENTATION"),
    "BodyPartExamined": ("CS", b"CHEST "),
    "Laterality": ("CS", b"R "),
    "ImageLaterality": ("CS", b"U "),
    "PatientOrientation": ("CS", b"L\\F "),
    "BurnedInAnnotation": ("CS", b"NO"),
    "SamplesPerPixel": ("US", b"\1\0"),
    "PhotometricInterpretation": ("CS", b"MONOCHROME2 "),
    "Rows": ("US", b"\x40\0"),
    "Columns": ("US", b"\x40\0"),
    "BitsAllocated": ("US", b"\x10\0"),
    "BitsStored": ("US", b"\x0c\0"),
    "HighBit": ("US", b"\x0b\0"),
    "PixelRepresentation": ("US", b"\0\0"),
    "PixelPaddingValue": ("US", b"\0\0"),
    "PixelPaddingRangeLimit": ("US", b"\1\0"),
    "PixelSpacing": ("DS", b"0.14\\0.14 "),
    "ImagerPixelSpacing": ("DS", b"0.14\\0.14 "),
    "PixelAspectRatio": ("IS", b"1\\1 "),
    "PixelIntensityRelationship": ("CS", b"LOG "),
    "PixelIntensityRelationshipSign": ("SS", b"\xff\xff"),
    "RescaleSlope": ("DS", b"1 "),
    "RescaleIntercept": ("DS", b"0 "),
    "RescaleType": ("CS", b"US"),
    "WindowCenter": ("DS", b"2000"),
    "WindowWidth": ("DS", b"4000"),
    "VOILUTFunction": ("CS", b"LINEAR"),
    "PresentationLUTShape": ("CS", b"IDENTITY"),
    "LossyImageCompression": ("CS", b"01"),
    "LossyImageCompressionRatio": ("DS", b"10"),
    "LossyImageCompressionMethod": ("CS", b"ISO_10918_1 "),
    "PixelData": ("OW", bytes(np.arange(64 * 64, dtype="<u2") % 4096)),
    "LUTDescriptor": ("US", b"\0\x10\0\0\x0c\0"),
    "LUTData": ("OW", bytes(np.arange(4096, dtype="<u2"))),
}
# Without these there is no film, so a wrong one keeps the film out; any other is left out, and the film stays.
NEEDED = {"Modality", "PhotometricInterpretation", "SamplesPerPixel", "Rows", "Columns", "PixelData"}
NEEDED |= {"BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "LUTDescriptor", "LUTData"}
NAME, NUMBER = b"JANE DOE", b"00047114711"


def raw(keyword: str, vr: str, value: bytes) -> RawDataElement:
    value += b" " * (len(value) % 2)
    return RawDataElement(Tag(keyword), vr, len(value), value, 0, False, True)


def hidden(vr: str, good: bytes) -> list[tuple[str, bytes]]:
    """Ways to hide a secret in an element: kind and bytes."""
    return [
        (vr, NAME),
        ("LO", NAME),
        ("UN", good + NAME),
        (vr, good + NAME),
        (vr, good + b"\0\0" + NAME),
        (vr, good + b"\\" + NAME),
        (vr, good + b"\\1\\2\\" + NAME),
        (vr, good.strip() + b"." + NUMBER),
        (vr, b"0_0" + NUMBER),
    ]


def through_files(ds: Dataset, folder, **film) -> tuple[bytes, bytes | None]:
    """A film's file before and after, None where it could not be de-identified."""
    ds.save_as(folder / "before.dcm", enforce_file_format=True)
    before = (folder / "before.dcm").read_bytes()
    about = {"film": "f", "patient": "p", "sex": "", "band": "", "view": "PA"} | film
    try:
        write_dicom(deidentified(pydicom.dcmread(folder / "before.dcm"), KEY, **about), folder / "after.dcm")
    except Exception:
        return before, None
    return before, (folder / "after.dcm").read_bytes()


@pytest.mark.parametrize("keyword", STAYS)
@pytest.mark.filterwarnings("ignore")
def test_no_element_that_stays_carries_anything_else(film, tmp_path, keyword):
    for how, (vr, value) in enumerate(hidden(*STAYS[keyword])):
        ds, table = film(np.zeros((64, 64), np.uint16)), Dataset()
        for name, (kind, good) in STAYS.items():
            (table if name.startswith("LUT") else ds)[name] = raw(name, kind, good)
        (table if keyword.startswith("LUT") else ds)[keyword] = raw(keyword, vr, value)
        ds.VOILUTSequence = [table]
        before, after = through_files(ds, tmp_path)
        secret = NAME if NAME in value else NUMBER
        assert secret in before
        assert after is not None or keyword in NEEDED, how
        assert after is None or secret not in after, how


TABLES = ["second table", "pixels in a table", "text in a table", "table in a table", "outside"]


@pytest.mark.parametrize("place", TABLES)
def test_a_look_up_table_carries_only_itself(film, tmp_path, place):
    ds, table, other = film(np.zeros((64, 64), np.uint16)), Dataset(), Dataset()
    for name in ("LUTDescriptor", "LUTData"):
        table[name] = raw(name, *STAYS[name])
        other[name] = raw(name, *STAYS[name])
    other.LUTData = NAME + bytes(8192 - len(NAME))
    ds.VOILUTSequence = [table]
    if place == "second table":
        ds.VOILUTSequence = [table, other]
    elif place == "pixels in a table":
        table.add_new("PixelData", "OW", NAME)
    elif place == "text in a table":
        table.LUTExplanation = NAME.decode()
    elif place == "table in a table":
        table.VOILUTSequence = [other]
    else:
        ds[Tag("LUTData")] = raw("LUTData", "OW", NAME)
    before, after = through_files(ds, tmp_path)
    assert NAME in before and after and NAME not in after
    kept = pydicom.dcmread(tmp_path / "after.dcm").VOILUTSequence
    assert len(kept) == 1 and sorted(element.keyword for element in kept[0]) == ["LUTData", "LUTDescriptor"]
    assert kept[0].LUTData == STAYS["LUTData"][1]


@pytest.mark.parametrize(
    "descriptor, data, kept",
    [
        ([4, 0, 12], [1, 2, 3, 4095], [1, 2, 3, 4095]),
        ([4, 0, 12], [1, 2, 3, 4095, 7, 8], [1, 2, 3, 4095]),  # entries that the descriptor does not count
        ([4, 0, 16], [1, 2, 3, 65535], [1, 2, 3, 65535]),
        ([4, 0, 12], [1, 2, 3, 4096], None),  # more than 12 bits
        ([4, 0, 12], [1, 2, 3], None),
        ([4, 0, 20], [1, 2, 3, 4], None),
        ([4, 0, 12, 7], [1, 2, 3, 4], None),
    ],
)
@pytest.mark.parametrize("kind", ["US", "OW"])
@pytest.mark.parametrize("which", ["VOILUTSequence", "ModalityLUTSequence"])
def test_a_look_up_table_is_cut_to_what_its_descriptor_says(film, tmp_path, descriptor, data, kept, kind, which):
    table = Dataset()
    table.add_new("LUTDescriptor", "US", descriptor)
    table.add_new("LUTData", kind, data if kind == "US" else np.array(data, "<u2").tobytes())
    _, after = through_files(film(np.zeros((64, 64), np.uint16), **{which: [table]}), tmp_path)
    assert (after is None) == (kept is None)
    if after:
        assert np.frombuffer(pydicom.dcmread(tmp_path / "after.dcm")[which][0].LUTData, "<u2").tolist() == kept


def test_a_table_of_bytes_stays_one_and_shows_the_same_picture(film, tmp_path):
    table = Dataset()
    table.add_new("LUTDescriptor", "SS", [256, -5, 8])
    table.add_new("LUTData", "OW", bytes(range(256)) + b"JANE DOE")
    ds = film(np.random.default_rng(0).integers(0, 256, (64, 64)).astype(np.uint8), VOILUTSequence=[table])
    shown = display(ds)[0]
    _, after = through_files(ds, tmp_path)
    assert after and b"JANE DOE" not in after
    assert np.array_equal(display(pydicom.dcmread(tmp_path / "after.dcm"))[0], shown)


@pytest.mark.parametrize(
    "modality, said, written",
    [
        ("CR", SecondaryCaptureImageStorage, SecondaryCaptureImageStorage),
        ("DX", ComputedRadiographyImageStorage, ComputedRadiographyImageStorage),
        ("DX", "1.2.840.47114711", DigitalXRayImageStorageForPresentation),
        ("CR", ComputedRadiographyImageStorage + ".47114711", ComputedRadiographyImageStorage),
    ],
)
def test_a_class_of_objects_that_is_none_of_a_film_becomes_the_modalitys(film, tmp_path, modality, said, written):
    _, after = through_files(film(Modality=modality, SOPClassUID=said), tmp_path)
    ds = pydicom.dcmread(tmp_path / "after.dcm")
    assert (ds.SOPClassUID, ds.file_meta.MediaStorageSOPClassUID) == (written, written)
    assert b"47114711" not in (after or b"47114711")
