"""Public collections in their published layouts."""

import shutil
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from fedpdc_med.errors import UserError
from fedpdc_med.imaging.collections import COLLECTIONS, figure_of, films_of, recognise
from fedpdc_med.imaging.records import Reason


def save(path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.eye(32, dtype=np.uint8)).save(path)


def films(source, name: str):
    assert recognise(source) is COLLECTIONS[name]
    return list(COLLECTIONS[name].films(source))


HEADER = "patientid,offset,sex,age,finding,view,modality,folder,filename\n"


def test_covid_chestxray_rows_become_films_or_problems(tmp_path):
    (tmp_path / "metadata.csv").write_text(
        HEADER
        + "2,0,M,65,Pneumonia/Viral/COVID-19,PA,X-ray,images,a.jpg\n"
        + "2,1,M,65,Pneumonia/Viral/SARS,AP Supine,X-ray,images,b.jpg\n"
        + "7,,,,No Finding,L,X-ray,images,c.jpg\n"
        + "8,,F,20,todo,PA,X-ray,images,d.jpg\n"
        + "9,,F,x,Tuberculosis,Axial,CT,images,e.jpg\n"
    )
    found = films(tmp_path, "covid-chestxray-dataset")
    assert [f.label for f in found] == ["covid-19", "pneumonia", "normal", "", "tuberculosis"]
    assert [f.view for f in found] == ["PA", "AP", "lateral", "PA", "unknown"]
    assert [f.problem and f.problem[0] for f in found] == [None, None, None, Reason.UNKNOWN_LABEL, Reason.MODALITY]
    assert found[0].patient == found[1].patient != found[2].patient
    assert (found[0].sex, found[0].age, found[2].sex, found[4].age) == ("M", 65, "", None)


def test_darkcovidnet_films_keep_the_names_they_have_where_they_come_from(tmp_path):
    for name in (
        "Covid-19/nejmc2001573_f1a.jpeg",
        "Covid-19/nejmc2001573_f1b.jpeg",
        "No_findings/00001362_001.png",
        "No_findings/00001362_004.png",
        "Pneumonia/00001362_008.png",
    ):
        save(tmp_path / name)
    found = films(tmp_path, "darkcovidnet")
    assert [f.label for f in found] == ["covid-19", "covid-19", "normal", "normal", "pneumonia"]
    assert found[0].name == "covid-chestxray-dataset:nejmc2001573_f1a.jpeg"
    assert found[0].patient == found[1].patient
    assert {f.patient for f in found[2:]} == {"nih:00001362"}


@pytest.mark.parametrize(
    "stem, figure",
    [
        ("ryct.2020200034.fig5-day4", "ryct.2020200034.fig5"),
        ("nejmc2001573_f1b", "nejmc2001573_f1"),
        ("covid-19-pneumonia-evolution-over-a-week-1-day0-PA", "covid-19-pneumonia-evolution-over-week-1"),
        ("covid-19-pneumonia-12", "covid-19-pneumonia-12"),
        ("figure1-5e71be566aa8714a04de3386-98-left", "figure1-5e71be566aa8714a04de3386-98"),
        ("01E392EE-69F9-4E33-BFCE-E5C968654078", "01E392EE-69F9-4E33-BFCE-E5C968654078"),
    ],
)
def test_panels_of_one_figure_belong_together(stem, figure):
    assert figure_of(stem) == figure


def test_the_radiography_database_with_images_and_masks_below_its_classes(tmp_path):
    for name in (
        "COVID/images/COVID-1.png",
        "COVID/masks/COVID-1.png",
        "Viral Pneumonia/images/Viral Pneumonia-1.png",
        "Normal/images/Normal-1.png",
        "Lung_Opacity/images/Lung_Opacity-1.png",
    ):
        save(tmp_path / name)
    found = films(tmp_path, "covid-19-radiography-database")
    assert [f.label for f in found] == ["covid-19", "pneumonia", "normal", "pneumonia"]
    assert len({f.name for f in found}) == 4


def test_anybodys_folders_are_not_taken_for_published(tmp_path):
    save(tmp_path / "tb" / "doe-jane.png")
    save(tmp_path / "elbows" / "x.jpg")
    found = films(tmp_path, "folder-per-class")
    assert [(f.label, f.published, f.problem and f.problem[0]) for f in found] == [
        ("", False, Reason.UNKNOWN_LABEL),
        ("tuberculosis", False, None),
    ]


def test_a_folder_below_the_class_is_a_patient_and_other_files_are_told(tmp_path):
    for name in ("normal/p1/a.png", "normal/p1/b.JPG", "covid 19/p2/deep/c.png", "covid 19/d.png"):
        save(tmp_path / name)
    (tmp_path / "normal" / "notes.txt").write_text("hello")
    found = {f.name: f for f in films(tmp_path, "folder-per-class")}
    assert {name: f.patient for name, f in found.items() if not f.problem} == {
        "normal/p1/a.png": "p1",
        "normal/p1/b.JPG": "p1",
        "covid 19/p2/deep/c.png": "p2",
        "covid 19/d.png": "covid 19/d.png",
    }
    assert found["normal/notes.txt"].problem[0] == Reason.NOT_PICTURE


def test_a_patients_studies_stay_together_whatever_their_files_are_called(tmp_path):
    for name in (
        "normal/patA/study1/1.png",
        "normal/patA/study2/1.png",
        "normal/patB/20230415_101500.png",
        "normal/patB/20230416_090000.png",
        "normal/patB/00001362_001.png",
        "pneumonia/images/x.png",
        "pneumonia/images/y.png",
        "pneumonia/images/patC/z.png",
        "pneumonia/00001362_004.png",
        "pneumonia/20230415_101500.png",
    ):
        save(tmp_path / name)
    assert {f.name: f.patient for f in films(tmp_path, "folder-per-class")} == {
        "normal/patA/study1/1.png": "patA",
        "normal/patA/study2/1.png": "patA",
        "normal/patB/20230415_101500.png": "patB",
        "normal/patB/20230416_090000.png": "patB",
        "normal/patB/00001362_001.png": "patB",
        "pneumonia/images/x.png": "pneumonia/images/x.png",
        "pneumonia/images/y.png": "pneumonia/images/y.png",
        "pneumonia/images/patC/z.png": "patC",
        "pneumonia/00001362_004.png": "nih:00001362",
        "pneumonia/20230415_101500.png": "pneumonia/20230415_101500.png",
    }


def test_linked_patients_and_files_beside_the_classes_get_a_verdict(tmp_path):
    source = tmp_path / "films"
    save(source / "normal" / "a.png")
    save(tmp_path / "elsewhere" / "b.png")
    (source / "normal" / "patB").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    save(source / "stray.png")
    found = {f.name: (f.patient, f.problem and f.problem[0]) for f in films(source, "folder-per-class")}
    assert found == {
        "normal/a.png": ("normal/a.png", None),
        "normal/patB/b.png": ("patB", None),
        "stray.png": ("stray.png", Reason.UNKNOWN_LABEL),
    }


@pytest.mark.parametrize(
    "layout, published",
    [
        (("Covid-19/{}.png", "No_findings/{}.png", "Pneumonia/00001362_008.png"), "Pneumonia/00001362_008.png"),
        (("COVID/{}.png", "Viral Pneumonia/{}.png", "Normal/Normal-1.png"), "Normal/Normal-1.png"),
    ],
)
def test_folder_names_alone_do_not_put_a_hospitals_films_under_the_public_key(tmp_path, layout, published):
    for i, name in enumerate(layout):
        save(tmp_path / name.format(f"doe-jane-{i}"))
    kind = recognise(tmp_path)
    found = list(films_of(tmp_path, kind, asked_for=False))
    assert [f.path.relative_to(tmp_path).as_posix() for f in found if f.published] == [published]
    assert {f.source for f in found if not f.published} == {"folder-per-class"}
    assert all(f.published for f in films_of(tmp_path, kind, asked_for=True))


def test_a_row_of_metadata_that_names_no_publication_is_not_taken_for_published(tmp_path):
    header = "patientid,sex,age,finding,view,modality,filename,doi,url\n"
    rows = "4711,F,5,Tuberculosis,PA,X-ray,a.jpg,,\n2,F,5,Tuberculosis,PA,X-ray,b.jpg,,https://radiopaedia.org/1\n"
    (tmp_path / "metadata.csv").write_text(header + rows)
    assert [f.published for f in films(tmp_path, "covid-chestxray-dataset")] == [False, True]


@pytest.mark.parametrize(
    "name, labels, classes",
    [
        ("pneumoniamnist_28.npz", np.array([[0], [1]]), ["normal", "pneumonia"]),
        ("chestmnist.npz", np.array([[0] * 14, [0] * 6 + [1] + [0] * 7]), ["normal", "pneumonia"]),
        ("chestmnist.npz", np.array([[1] + [0] * 13, [0] * 14]), ["", "normal"]),
    ],
)
def test_medmnist_arrays(tmp_path, name, labels, classes):
    images = np.arange(2 * 28 * 28).reshape(2, 28, 28).astype(np.uint8)
    np.savez(
        tmp_path / name,
        **{
            f"{part}_{what}": a
            for part in ("train", "val", "test")
            for what, a in (("images", images), ("labels", labels))
        },
    )
    found = films(tmp_path / name, "medmnist")
    assert [f.label for f in found] == classes * 3
    assert np.array_equal(found[3].pixels, images[1]) and len({f.patient for f in found}) == 6


def test_a_folder_of_dicom_files_is_no_collection(tmp_path, film):
    film(path=tmp_path / "a.dcm")
    assert recognise(tmp_path) is None


def test_a_wrong_collection_name_or_layout_is_an_error_that_says_what_was_expected(tmp_path):
    with pytest.raises(UserError, match="known are covid-chestxray-dataset, darkcovidnet"):
        recognise(tmp_path, "nih")
    with pytest.raises(UserError, match="expected folders Covid-19, No_findings and Pneumonia"):
        recognise(tmp_path, "darkcovidnet")


def test_the_published_collections_as_they_are(shared_data):
    covid = films(shared_data / "covid-chestxray-dataset", "covid-chestxray-dataset")
    assert len(covid) == 735 and all(f.path.is_file() for f in covid)
    assert Counter(f.problem[0] for f in covid if f.problem) == {Reason.MODALITY: 57, Reason.UNKNOWN_LABEL: 52}
    dark = list(films_of(shared_data / "darkcovidnet", recognise(shared_data / "darkcovidnet"), asked_for=False))
    assert all(f.published for f in covid + dark)
    assert Counter(f.label for f in dark) == {"covid-19": 101, "normal": 407, "pneumonia": 408}
    assert len({f.name for f in dark} & {f.name for f in covid}) == 96
    both = {f.patient for f in dark if f.label == "normal"} & {f.patient for f in dark if f.label == "pneumonia"}
    # Counted on the files themselves; the notes that come with the data say 21.
    assert len(both) == 19


def test_patients_of_darkcovidnet_that_names_can_tell(shared_data):
    """Against the patient ids of covid-chestxray-dataset: only films named by a random number lose their patient."""
    patient_of = {f.name: f.patient for f in films(shared_data / "covid-chestxray-dataset", "covid-chestxray-dataset")}
    groups: dict[str, set[str]] = {}
    for film in films(shared_data / "darkcovidnet", "darkcovidnet"):
        if film.name in patient_of:
            groups.setdefault(patient_of[film.name], set()).add(film.patient)
    torn = [patient for patient, found in groups.items() if len(found) > 1]
    assert len(groups) == 62 and len(torn) == 7


def test_a_collection_can_be_copied_without_its_pictures(tmp_path, shared_data):
    shutil.copy(shared_data / "covid-chestxray-dataset" / "metadata.csv", tmp_path)
    assert not films(tmp_path, "covid-chestxray-dataset")[0].path.exists()


def test_a_table_with_columns_left_out_short_rows_and_another_encoding(tmp_path):
    header, row = "patientid,finding,modality,filename\n", "3,Pneumonia,X-ray,b.jpg\n"
    (tmp_path / "metadata.csv").write_bytes((header + "2,Grippe à Lyon,X-ray,a.jpg\n" + row + "4\n").encode("latin-1"))
    found = films(tmp_path, "covid-chestxray-dataset")
    assert [(f.path.name, f.label, f.view) for f in found] == [
        ("a.jpg", "", "unknown"),
        ("b.jpg", "pneumonia", "unknown"),
    ]


def test_an_array_file_that_was_not_copied_whole_is_an_error_in_one_line(tmp_path):
    file = tmp_path / "pneumoniamnist.npz"
    np.savez(file, train_images=np.zeros((2, 28, 28), np.uint8))
    whole = file.read_bytes()
    for some in (whole, whole[:100], b""):
        file.write_bytes(some)
        with pytest.raises(UserError, match="download it again"):
            films(file, "medmnist")
