"""`fedpdc ingest` as a user meets it."""

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fedpdc_med.cli import app
from fedpdc_med.common.errors import UserError, WorkFailed


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def source(tmp_path, film):
    (tmp_path / "films").mkdir()
    rng = np.random.default_rng(0)
    for i in range(10):
        film(rng.integers(0, 65536, (64, 64)).astype(np.uint16), tmp_path / "films" / f"{i}.dcm", PatientID=str(i))
    (tmp_path / "films" / "readme.txt").write_text("hello", encoding="utf-8")
    return tmp_path / "films"


def test_the_summary_counts_verdicts_classes_and_splits_and_says_how_to_find_a_file(source, fedpdc_home):
    result = run("ingest", source, "--site", "harbor", "--label", "normal", "--workers", 2)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "harbor: 11 files" in said and "not DICOM" in said
    assert "10 films of 10 patients: 10 normal; 2 test, 8 train" in said
    assert "run the command again with --list-rejected" in said and "readme.txt" not in said
    assert (fedpdc_home / "sites" / "harbor" / "store.json").is_file()


def test_too_many_rejects_fail_after_the_summary(source, fedpdc_home):
    result = run("ingest", source, "--site", "harbor", "--label", "normal", "--max-rejects", 0.05)
    assert isinstance(result.exception, WorkFailed)
    assert "not DICOM" in result.stdout
    assert (fedpdc_home / "sites" / "harbor" / "films.npy").is_file()


def test_both_kinds_of_label_are_a_mistake(source, fedpdc_home):
    assert isinstance(
        run("ingest", source, "--site", "x", "--label", "normal", "--labels", "t.csv").exception, UserError
    )


def test_speed_is_printed_side_by_side(source, fedpdc_home):
    result = run("benchmark", "ingest-speed", source, "--rounds", 1, "--workers", 1)
    assert result.exit_code == 0, result.exception
    assert "bare pydicom decode and resize" in result.stdout and "fedpdc ingest" in result.stdout
    assert "of the bare loop" in result.stdout


def test_the_refused_files_are_named_when_asked_and_on_the_terminal_only(source, fedpdc_home):
    run("ingest", source, "--site", "harbor", "--label", "normal")
    listed = run("ingest", source, "--site", "harbor", "--label", "normal", "--list-rejected").stdout
    assert "11  readme.txt  not DICOM" in listed and "0.dcm" not in listed
    written = [file.read_bytes() for file in (fedpdc_home / "sites" / "harbor").iterdir() if file.is_file()]
    assert not [text for text in written if b"readme.txt" in text]


def test_rows_of_the_label_table_that_name_no_file_are_counted(source, fedpdc_home, tmp_path):
    rows = [f"{i}.dcm,normal" for i in range(10)] + ["gone.dcm,normal", "1.2.840.1,normal"]
    (tmp_path / "labels.csv").write_text("\n".join(["film,label", *rows]), encoding="utf-8")
    said = run("ingest", source, "--site", "harbor", "--labels", tmp_path / "labels.csv").stdout
    assert "1 of 12 rows of the label table match no file" in " ".join(said.split())
    assert "a row names 'gone.dcm'; a file without a row is 'readme.txt'" in " ".join(said.split())


def test_pictures_whose_table_names_their_patients_need_no_advice_about_patients(tmp_path, fedpdc_home):
    for i in range(6):
        pixels = np.random.default_rng(i).integers(0, 256, (64, 64)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    said = {}
    for column in ("", "patient"):
        rows = [f"{i}.png,normal,{i if column else ''}" for i in range(6)]
        (tmp_path / "labels.csv").write_text("\n".join([f"film,label,{column or 'note'}", *rows]), encoding="utf-8")
        command = ("ingest", tmp_path, "--site", "harbor", "--labels", tmp_path / "labels.csv", "--overwrite")
        said[column] = " ".join(run(*command).stdout.split())
    assert "Every film counts as a separate patient" in said[""]
    assert "Every film counts as a separate patient" not in said["patient"]


def test_films_that_all_carry_one_patient_id_are_a_warning(tmp_path, film, fedpdc_home):
    (tmp_path / "films").mkdir()
    for i in range(6):
        pixels = np.random.default_rng(i).integers(0, 65536, (64, 64)).astype(np.uint16)
        film(pixels, tmp_path / "films" / f"{i}.dcm", PatientID="ANON")
    said = " ".join(run("ingest", tmp_path / "films", "--site", "harbor", "--label", "normal").stdout.split())
    assert "One patient has 6 of the 6 films" in said and "No films are left for testing" in said


def test_a_finished_ingest_says_that_nothing_was_read_again_and_names_that_are_not_utf8(source, fedpdc_home):
    (source / "\udcff.dcm").symlink_to("nowhere")
    command = ("ingest", source, "--site", "harbor", "--label", "normal", "--list-rejected")
    assert "Already ingested" not in run(*command).stdout
    said = " ".join(run(*command).stdout.split())
    assert "Already ingested" in said and "1 file could not be read then" in said
    assert "\\udcff.dcm file cannot be read" in said
    assert "10 accepted films do not state whether text is burned in" in said


def test_the_screen_says_what_a_folder_was_read_as_and_dicom_in_class_folders_needs_labels(source, fedpdc_home):
    (source / "normal").mkdir()
    (source / "0.dcm").rename(source / "normal" / "0.dcm")
    result = run("ingest", source, "--site", "harbor")
    assert "11 files read as folder-per-class; pseudonyms by this site's own key" in " ".join(result.stdout.split())
    (source / "readme.txt").unlink()
    for i in range(1, 10):
        (source / f"{i}.dcm").rename(source / "normal" / f"{i}.dcm")
    assert "DICOM films need --labels FILE" in str(run("ingest", source, "--site", "other").exception)
