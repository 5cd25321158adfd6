"""What the header of a film says, and what it gives as a reason to refuse."""

import pytest
from pydicom.dataset import Dataset
from pydicom.uid import DigitalXRayImageStorageForProcessing

from fedpdc_med.imaging.classes import CHEST, FRONTAL
from fedpdc_med.imaging.dicom.header import age_of, check_content, check_image, facts, view_of
from fedpdc_med.imaging.records import Reason, Refused, Verdict


def coded(meaning: str) -> list[Dataset]:
    item = Dataset()
    item.CodeMeaning = meaning
    return [item]


@pytest.mark.parametrize(
    "elements, view",
    [
        ({"ViewPosition": "PA"}, "PA"),
        ({"ViewPosition": "AP"}, "AP"),
        ({"ViewPosition": "LL"}, "lateral"),
        ({"ViewPosition": "LATERAL"}, "lateral"),
        ({"ViewPosition": "LLO"}, "unknown"),
        ({"ViewPosition": "RLD"}, "unknown"),
        ({"ViewPosition": ""}, "unknown"),
        ({"ViewPosition": "", "PatientPosition": "PA"}, "PA"),
        ({"ViewPosition": "", "PatientPosition": "HFS"}, "unknown"),
        ({"ViewPosition": "", "ViewCodeSequence": coded("postero-anterior")}, "PA"),
        ({"ViewPosition": "", "ViewCodeSequence": coded("left lateral")}, "lateral"),
        ({"ViewPosition": "", "ViewCodeSequence": coded("left anterior oblique")}, "unknown"),
        ({"ViewPosition": "", "SeriesDescription": "W Chest AP portable"}, "AP"),
        ({"ViewPosition": "", "SeriesDescription": "Chest PA and lateral"}, "unknown"),
        ({"ViewPosition": "", "PatientOrientation": ["L", "F"]}, "frontal"),
        ({"ViewPosition": "", "PatientOrientation": ["A", "F"]}, "lateral"),
        ({"ViewPosition": "PA", "PatientOrientation": ["A", "F"]}, "unknown"),
        ({"ViewPosition": "", "SeriesDescription": "Thorax AP", "PatientOrientation": ["P", "F"]}, "unknown"),
        ({"ViewPosition": "PA", "PatientOrientation": ["L", "F"]}, "PA"),
        ({"ViewPosition": "", "SeriesDescription": "Thorax seitl."}, "lateral"),
        ({"ViewPosition": "", "SeriesDescription": "Thorax latero-lateral"}, "lateral"),
        ({"ViewPosition": "", "ProtocolName": "THORAX PROFIL"}, "lateral"),
        # The tag that is meant for it decides, even when a description disagrees.
        ({"ViewPosition": "LL", "SeriesDescription": "Chest PA"}, "lateral"),
    ],
)
def test_the_view_comes_from_the_first_element_that_tells(film, elements, view):
    assert view_of(film(**elements)) == view


@pytest.mark.parametrize(
    "elements, age",
    [
        ({"PatientAge": "054Y"}, 54),
        ({"PatientAge": "62"}, 62),
        ({"PatientAge": "006M"}, 0.5),
        ({"PatientAge": "old"}, None),
        ({"PatientAge": None, "PatientBirthDate": "19400305", "StudyDate": "20040826"}, pytest.approx(64.48, abs=0.01)),
        ({"PatientAge": None, "PatientBirthDate": "19400305"}, None),
        ({"PatientAge": None, "PatientBirthDate": "20040826", "StudyDate": "19400305"}, None),
    ],
)
def test_age_comes_from_its_tag_or_from_two_dates(film, elements, age):
    assert age_of(film(**elements)) == age


def test_sex_is_f_or_m_or_not_known(film):
    assert [facts(film(PatientSex=sex)).sex for sex in ("F", "M", "O", "")] == ["F", "M", "", ""]


@pytest.mark.parametrize(
    "elements, reason",
    [
        ({"PixelData": None}, Reason.NO_PIXELS),
        ({"Modality": "CT"}, Reason.MODALITY),
        ({"Modality": None}, Reason.MODALITY),
        ({"PhotometricInterpretation": "RGB", "SamplesPerPixel": 3}, Reason.COLOUR),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, Reason.COLOUR),
        ({"NumberOfFrames": 2}, Reason.FRAMES),
        ({"PresentationIntentType": "FOR PROCESSING"}, Reason.FOR_PROCESSING),
        ({"SOPClassUID": DigitalXRayImageStorageForProcessing}, Reason.FOR_PROCESSING),
        ({"Rows": 20000, "Columns": 20000}, Reason.SHAPE),
    ],
)
def test_what_is_not_one_grey_x_ray_picture_is_refused(film, elements, reason):
    with pytest.raises(Refused) as refusal:
        check_image(film(**elements))
    assert refusal.value.reason == reason


def content(ds: Dataset, views=FRONTAL, body_parts=CHEST) -> None:
    check_content(ds, view_of(ds), views, body_parts)


@pytest.mark.parametrize(
    "elements, reason",
    [
        ({"ViewPosition": "LL"}, Reason.LATERAL),
        ({"ViewPosition": ""}, Reason.UNKNOWN_VIEW),
        ({"BodyPartExamined": "RIBCAGE"}, Reason.BODY_PART),
        ({"BodyPartExamined": "KNEE"}, Reason.BODY_PART),
        ({"BodyPartExamined": ""}, Reason.UNKNOWN_BODY_PART),
    ],
)
def test_other_views_and_body_parts_are_refused_unless_asked_for(film, elements, reason):
    with pytest.raises(Refused) as refusal:
        content(film(**elements))
    assert refusal.value.reason == reason
    content(
        film(**elements), views=(*FRONTAL, "lateral", "unknown"), body_parts=("CHEST", "RIBCAGE", "KNEE", "unknown")
    )


def test_a_description_stands_in_for_an_empty_body_part(film):
    content(film(BodyPartExamined="", StudyDescription="Thorax pa"))


def test_burned_in_text_means_quarantine_because_it_may_name_the_patient(film):
    with pytest.raises(Refused) as refusal:
        content(film(BurnedInAnnotation="YES"))
    assert (refusal.value.reason, refusal.value.verdict) == (Reason.BURNED_IN, Verdict.QUARANTINED)
