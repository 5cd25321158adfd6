"""Public collections in their published layouts."""

import io
import shutil
import tracemalloc
import zipfile
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.ingest.collections import COLLECTIONS, figure_of, films_of, recognise
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
        + "9,,F,x,Tuberculosis,Axial,CT,images,e.jpg\n",
        encoding="utf-8",
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
    (tmp_path / "normal" / "notes.txt").write_text("hello", encoding="utf-8")
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


@pytest.mark.parametrize(
    "patient, url, published",
    [
        ("2", "https://radiopaedia.org/1", True),
        ("481", "https://www.sciencedirect.com/science/article/pii/S0140673620303706", True),
        ("31a", "https://github.com/ml-workgroup/covid-19-image-repository/tree/master/png", True),
        ("31", "https://github.com/harbor-general/films", False),
        ("4711", "", False),
        ("2", "https://pacs.harbor.example/radiopaedia.org/1", False),
        ("2", "https://radiopaedia.org.harbor.example/1", False),
        ("2", "https://[harbor", False),
        ("1234567", "https://radiopaedia.org/1", False),  # the collection counts its patients: 1 to 481
    ],
)
def test_only_rows_of_a_publication_of_the_collection_are_taken_for_published(tmp_path, patient, url, published):
    """The key of published films is everybody's: with it a hospital's numbers are found by trying them all."""
    header = "patientid,sex,age,finding,view,modality,filename,doi,url\n"
    row = f"{patient},F,5,Tuberculosis,PA,X-ray,a.jpg,10.1056/nejmc2001272,{url}\n"
    (tmp_path / "metadata.csv").write_text(header + row, encoding="utf-8")
    kind = recognise(tmp_path)
    assert [f.published for f in films_of(tmp_path, kind, asked_for=False)] == [published]
    assert [f.published for f in films_of(tmp_path, kind, asked_for=True)] == [True]


def test_a_row_that_names_a_file_outside_the_source_is_refused(tmp_path):
    rows = "1,Tuberculosis,X-ray,images,a.jpg\n"
    for place in ("images,../../b.jpg", "..,b.jpg", ",/etc/b.jpg", "/etc,b.jpg", "images/x/..,b.jpg", "images,b\0.jpg"):
        rows += f"2,Tuberculosis,X-ray,{place}\n"
    (tmp_path / "metadata.csv").write_text("patientid,finding,modality,folder,filename\n" + rows, encoding="utf-8")
    inside, *outside = films(tmp_path, "covid-chestxray-dataset")
    assert (inside.path, inside.problem) == (tmp_path / "images" / "a.jpg", None)
    assert [f.problem and f.problem[0] for f in outside] == [Reason.OUTSIDE] * 6
    assert {f.path for f in outside} == {tmp_path / "metadata.csv"}


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


@pytest.mark.parametrize(
    "layout",
    [
        ("Covid-19/{}.png", "No_findings/x.png", "Pneumonia/x.png"),
        ("COVID/x.png", "Viral Pneumonia/x.png", "Normal/{}.png"),
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "00035110_001",  # NIH has 30,805 patients
        "19700423-20230515-0004711",  # hexadecimal digits and hyphens, but no random number
        "202305151015000047110001",
        "covid-19-pneumonia-0004711",
        "Normal-0004711",
    ],
)
def test_a_hospitals_numbers_are_not_taken_for_published_names(tmp_path, layout, name):
    for place in layout:
        save(tmp_path / place.format(name))
    found = films_of(tmp_path, recognise(tmp_path), asked_for=False)
    assert not [f.name for f in found if f.published]


def test_a_wrong_collection_name_or_layout_is_an_error_that_says_what_was_expected(tmp_path):
    with pytest.raises(UserError, match="known collections are covid-chestxray-dataset, darkcovidnet"):
        recognise(tmp_path, "nih")
    with pytest.raises(UserError, match="expected folders Covid-19, No_findings and Pneumonia"):
        recognise(tmp_path, "darkcovidnet")


def test_the_published_collections_as_they_are(real_data):
    covid = films(real_data("covid-chestxray-dataset"), "covid-chestxray-dataset")
    assert len(covid) == 735 and all(f.path.is_file() for f in covid)
    assert Counter(f.problem[0] for f in covid if f.problem) == {Reason.MODALITY: 57, Reason.UNKNOWN_LABEL: 52}
    dark = list(films_of(real_data("darkcovidnet"), recognise(real_data("darkcovidnet")), asked_for=False))
    assert all(f.published for f in covid + dark)
    assert Counter(f.label for f in dark) == {"covid-19": 101, "normal": 407, "pneumonia": 408}
    assert len({f.name for f in dark} & {f.name for f in covid}) == 96
    both = {f.patient for f in dark if f.label == "normal"} & {f.patient for f in dark if f.label == "pneumonia"}
    # Counted on the files themselves; the notes that come with the data say 21.
    assert len(both) == 19


def test_patients_of_darkcovidnet_that_names_can_tell(real_data):
    """Against the patient ids of covid-chestxray-dataset: only films named by a random number lose their patient."""
    patient_of = {f.name: f.patient for f in films(real_data("covid-chestxray-dataset"), "covid-chestxray-dataset")}
    groups: dict[str, set[str]] = {}
    for film in films(real_data("darkcovidnet"), "darkcovidnet"):
        if film.name in patient_of:
            groups.setdefault(patient_of[film.name], set()).add(film.patient)
    torn = [patient for patient, found in groups.items() if len(found) > 1]
    assert len(groups) == 62 and len(torn) == 7


def test_a_collection_can_be_copied_without_its_pictures(tmp_path, real_data):
    shutil.copy(real_data("covid-chestxray-dataset") / "metadata.csv", tmp_path)
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


def arrays(file, images, labels, save=np.savez) -> None:
    parts = ("train", "val", "test")
    save(file, **{f"{part}_images": images for part in parts}, **{f"{part}_labels": labels for part in parts})


@pytest.mark.parametrize(
    "images, labels",
    [
        (np.zeros((2, 28, 28), np.float64), np.zeros((2, 1), np.uint8)),
        (np.zeros((2, 28), np.uint8), np.zeros((2, 1), np.uint8)),
        (np.zeros((2, 28, 28), np.uint8), np.zeros((1, 1), np.uint8)),
        (np.zeros((2, 28, 28), np.uint8), np.zeros((2, 14), np.uint8)),  # ChestMNIST's
        (np.zeros((2, 28, 28), np.uint8), np.full((2, 1), 7, np.uint8)),
    ],
)
def test_arrays_of_another_kind_are_an_error_in_one_line(tmp_path, images, labels):
    arrays(tmp_path / "pneumoniamnist.npz", images, labels)
    with pytest.raises(UserError, match="SOURCE does not contain the arrays of pneumoniamnist"):
        films(tmp_path / "pneumoniamnist.npz", "medmnist")


def test_an_array_file_that_unpacks_to_far_more_than_its_size_is_not_unpacked(tmp_path):
    nothing = np.zeros((3000, 100, 100), np.uint8)
    arrays(tmp_path / "chestmnist.npz", nothing, np.zeros((3000, 14), np.uint8), np.savez_compressed)
    assert (tmp_path / "chestmnist.npz").stat().st_size < 200_000
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="SOURCE unpacks to 85 MB, far more than its size"):
            films(tmp_path / "chestmnist.npz", "medmnist")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_an_array_that_announces_more_than_the_machine_has_is_an_error_in_one_line(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (10**15, 28, 28)})
    with zipfile.ZipFile(tmp_path / "pneumoniamnist.npz", "w") as archive:
        archive.writestr("train_images.npy", header.getvalue())
    with pytest.raises(UserError, match="corrupt or incomplete"):
        films(tmp_path / "pneumoniamnist.npz", "medmnist")


def test_a_table_that_cannot_be_read_is_an_error_that_names_the_line(tmp_path):
    header, rows = "patientid,finding,modality,filename\n", '1,Pneumonia,X-ray,a.jpg\n2,"' + "a" * 200_000
    (tmp_path / "metadata.csv").write_text(header + rows, encoding="utf-8")
    with pytest.raises(UserError, match=r"metadata.csv: line 3 or an earlier line.*check for an unclosed quote"):
        films(tmp_path, "covid-chestxray-dataset")
