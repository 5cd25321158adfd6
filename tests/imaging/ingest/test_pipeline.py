"""A folder or a collection into a film store, with real files and real processes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pydicom
import pytest
from PIL import Image

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.processes import Workers
from fedpdc_med.imaging.classes import FRONTAL
from fedpdc_med.imaging.ingest.labels import one_label, read_labels
from fedpdc_med.imaging.ingest.pipeline import check_rejects, ingest
from fedpdc_med.imaging.store import original_shapes, pixel_hash, read_store

NORMAL = one_label("normal")
STORE_FILES = ("films.npy", "manifest.csv", "store.json", "ingest_report.csv")


def verdicts(result) -> list[tuple[str, str]]:
    return [(verdict, reason) for _, verdict, reason, _ in result.report]


def contents(store: Path) -> dict[str, bytes]:
    return {name: (store / name).read_bytes() for name in STORE_FILES}


def folder_of(tmp_path, film, count: int, side: int = 64) -> Path:
    folder = tmp_path / "films"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(count):
        film(rng.integers(0, 65536, (side, side)).astype(np.uint16), folder / f"{i:03d}.dcm", PatientID=f"id{i // 2}")
    return folder


def test_what_file_managers_leave_behind_is_no_film(tmp_path, film, fedpdc_home):
    folder = folder_of(tmp_path, film, 4)
    for name in (".DS_Store", "Thumbs.db", "._000.dcm"):
        (folder / name).write_bytes(b"\0" * 10)
    assert verdicts(ingest(folder, "harbor", labels=NORMAL, processes=1)) == [("accepted", "")] * 4


def test_the_eight_real_dicom_files(real_data, fedpdc_home):
    result = ingest(real_data("dicom"), "eight", labels=NORMAL, processes=2)
    assert result.replaced == 0
    assert verdicts(result) == [
        ("accepted", ""),  # JPEG 2000, 15 bits, MONOCHROME1
        ("accepted", ""),  # the same film in JPEG-LS, near-lossless: not the same pixels, so it stays with its twin
        ("accepted", ""),  # 8-bit JPEG
        (
            "quarantined",
            "same SOP instance UID as another film, different pixels",
        ),  # the film before, called MONOCHROME1
        ("accepted", ""),  # NIH, PA noted as patient position
        ("accepted", ""),  # NIH, AP noted as patient position
        ("rejected", "body part not chest"),  # RIBCAGE
        ("rejected", "modality not CR or DX"),  # CT
    ]
    found = read_store(result.store)
    assert list(found.manifest["view"]) == ["PA", "PA", "PA", "PA", "AP"]
    assert list(found.manifest["age_band"]) == ["60-79", "60-79", "60-79", "80+", "40-59"]
    assert found.manifest["split"][0] == found.manifest["split"][1]
    for picture in found.films[:, 0]:
        # Right way up and not inverted: the belly below the diaphragm is brighter than the lungs.
        assert picture[112:122, 34:54].mean() > picture[40:72, 30:50].mean() + 20


@pytest.mark.parametrize("name", ["rsna_fake_mono1.dcm", "udacity_test4.dcm"])
def test_the_refused_real_films_are_accepted_alone_or_when_asked_for(real_data, fedpdc_home, tmp_path, name):
    (tmp_path / "one").mkdir()
    shutil.copy(real_data("dicom") / name, tmp_path / "one")
    assert ingest(tmp_path / "one", "one", labels=NORMAL, body_parts=("CHEST", "RIBCAGE")).films == 1


def test_every_file_gets_a_verdict_and_a_reason(tmp_path, film, fedpdc_home):
    source = tmp_path / "films"
    source.mkdir()
    film(path=source / "a_good.dcm")
    shutil.copy(source / "a_good.dcm", source / "b_copy.dcm")
    film(path=source / "c_nobody.dcm", PatientID="")
    film(path=source / "d_unlabelled.dcm")
    film(path=source / "e_odd_label.dcm")
    film(np.zeros((64, 64), np.uint16), source / "f_blank.dcm")
    film(path=source / "g_burned.dcm", BurnedInAnnotation="YES")
    film(path=source / "h_side.dcm", ViewPosition="LL")
    (source / "i_empty.dcm").write_bytes(b"")
    (source / "j_text.dcm").write_text("Dear colleague", encoding="utf-8")
    whole = (source / "d_unlabelled.dcm").read_bytes()
    film(path=source / "k_cut.dcm")
    (source / "k_cut.dcm").write_bytes((source / "k_cut.dcm").read_bytes()[:-4000])
    assert len(whole) > 8000
    table = source / "labels.csv"
    table.write_text(
        "film,label\n"
        + "".join(f"{p.name},normal\n" for p in sorted(source.glob("*.dcm")) if p.name[0] not in "de")
        + "e_odd_label.dcm,broken arm\n",
        encoding="utf-8",
    )
    result = ingest(source, "site", labels=read_labels(table), labels_file=table)
    assert [(place, verdict, reason) for place, verdict, reason, _ in result.report] == [
        (1, "accepted", ""),
        (2, "rejected", "duplicate film"),
        (3, "rejected", "no patient id"),
        (4, "rejected", "no label"),
        (5, "rejected", "unknown label"),
        (6, "rejected", "blank film"),
        (7, "quarantined", "burned-in annotation"),
        (8, "rejected", "lateral view"),
        (9, "rejected", "not DICOM"),
        (10, "rejected", "not DICOM"),
        (11, "rejected", "truncated or undecodable pixels"),
    ]


def test_labels_by_sop_instance_uid(tmp_path, film, fedpdc_home):
    (tmp_path / "films").mkdir()
    uid = film(path=tmp_path / "films" / "x.dcm").SOPInstanceUID
    (tmp_path / "labels.csv").write_text(f"film,label\n{uid},tuberculosis\n", encoding="utf-8")
    result = ingest(tmp_path / "films", "site", labels=read_labels(tmp_path / "labels.csv"))
    assert list(read_store(result.store).manifest["label"]) == ["tuberculosis"]


def test_the_same_film_under_two_labels_is_quarantined_twice(tmp_path, film, fedpdc_home):
    (tmp_path / "films").mkdir()
    film(path=tmp_path / "films" / "a.dcm")
    shutil.copy(tmp_path / "films" / "a.dcm", tmp_path / "films" / "b.dcm")
    (tmp_path / "labels.csv").write_text("film,label\na.dcm,normal\nb.dcm,pneumonia\n", encoding="utf-8")
    result = ingest(tmp_path / "films", "site", labels=read_labels(tmp_path / "labels.csv"))
    assert verdicts(result) == [("quarantined", "same film with two labels")] * 2
    with pytest.raises(WorkFailed, match="2 of 2 files were not accepted"):
        check_rejects(result, 1.0)


def test_the_store_does_not_depend_on_the_number_of_processes(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 40)
    one = ingest(source, "site", labels=NORMAL, processes=1, store=tmp_path / "one")
    two = ingest(source, "site", labels=NORMAL, processes=2, store=tmp_path / "two")
    assert contents(one.store) == contents(two.store)
    found = read_store(one.store)
    assert len(found.films) == 40
    assert [pixel_hash(picture) for picture in found.films] == list(found.manifest["pixel_hash"])
    assert found.manifest.groupby("patient")["split"].nunique().max() == 1


def test_killed_and_run_again_it_ends_with_the_same_store_and_reads_no_film_twice(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 300, side=256)
    whole = ingest(source, "site", labels=NORMAL, processes=1, store=tmp_path / "whole")
    stopped = tmp_path / "stopped"
    code = (
        "import sys; from pathlib import Path; from fedpdc_med.imaging.ingest.pipeline import ingest; "
        "from fedpdc_med.imaging.ingest.labels import one_label; "
        "ingest(Path(sys.argv[1]), 'site', labels=one_label('normal'), processes=1, store=Path(sys.argv[2]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(source), str(stopped)], stderr=subprocess.DEVNULL)
    journal = stopped / ".ingest" / "outcomes.jsonl"
    deadline = time.monotonic() + 300
    while (
        process.poll() is None
        and time.monotonic() < deadline
        and not (journal.exists() and journal.read_bytes().count(b"\n") > 20)
    ):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = [int(line[1:].split(b",")[0]) for line in journal.read_bytes().split(b"\n")[1:-1]]
    assert 20 <= len(finished) < 300
    assert not (stopped / "store.json").exists()
    # A finished film is now rubbish of the same size and age: reading it again would show.
    files = sorted(source.iterdir())
    for place in finished:
        path = files[place - 1]
        state = path.stat()
        path.write_bytes(b"x" * state.st_size)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    resumed = ingest(source, "site", labels=NORMAL, processes=2, store=stopped)
    assert (resumed.films, resumed.replaced) == (300, 0)
    assert contents(stopped) == contents(whole.store)
    assert not (stopped / ".ingest").exists()


def test_ctrl_c_is_no_failure_of_the_work_and_what_was_read_is_kept(tmp_path, film, fedpdc_home, monkeypatch):
    source, stream, read = folder_of(tmp_path, film, 5), Workers.stream, []

    def interrupted(workers, tasks, batches):
        for count, (index, outcome) in enumerate(stream(workers, tasks, batches), start=1):
            read.append(tasks[index].name)
            yield index, outcome
            if count == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(Workers, "stream", interrupted)
    with pytest.raises(KeyboardInterrupt):  # for which the command line has its own exit code
        ingest(source, "site", labels=NORMAL, processes=1)
    assert ingest(source, "site", labels=NORMAL, processes=1).films == 5
    assert len(read) == len(set(read)) == 5


def test_a_torn_journal_is_read_up_to_its_last_whole_line(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 12)
    whole = ingest(source, "site", labels=NORMAL, store=tmp_path / "whole")
    shutil.copytree(whole.store, tmp_path / "torn")
    from fedpdc_med.imaging.ingest.journal import Journal
    from fedpdc_med.imaging.records import MAY_HOLD_TEXT, Outcome, Verdict

    found = read_store(whole.store)
    (tmp_path / "torn" / "store.json").unlink()
    with Journal(tmp_path / "torn" / ".ingest", found.info["ingest"], 128) as journal:
        for i in range(5):
            row = found.manifest.iloc[i].drop("split").to_dict()
            pixels = np.asarray(found.films[i])
            journal.add([(i + 1, Outcome(Verdict.ACCEPTED, detail=MAY_HOLD_TEXT, row=row, pixels=pixels))])
    with (tmp_path / "torn" / ".ingest" / "outcomes.jsonl").open("ab") as file:
        file.write(b'[6, "accepted", nul')
    with (tmp_path / "torn" / ".ingest" / "films.bin").open("ab") as file:
        file.write(b"half a film")
    ingest(source, "site", labels=NORMAL, store=tmp_path / "torn")
    assert contents(tmp_path / "torn") == contents(whole.store)


def test_a_finished_ingest_is_not_done_again_and_another_one_needs_replace(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 6)
    first = ingest(source, "site", labels=NORMAL)
    before = contents(first.store)
    again = ingest(source, "site", labels=NORMAL)
    assert (again.report, again.films, again.seconds) == (first.report, 6, 0.0)
    with pytest.raises(UserError, match=r"site already has a film store of 6 films.*--overwrite"):
        ingest(source, "site", labels=one_label("pneumonia"))
    assert contents(first.store) == before
    ingest(source, "site", labels=one_label("pneumonia"), replace=True)
    assert set(read_store(first.store).manifest["label"]) == {"pneumonia"}


def test_films_of_the_reference_are_left_out_when_asked(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 6)
    (tmp_path / "reference").mkdir()
    shutil.copy(source / "002.dcm", tmp_path / "reference")
    reference = ingest(tmp_path / "reference", "reference", labels=NORMAL)
    result = ingest(source, "site", labels=NORMAL, without=reference.store)
    # 003 is another film of the patient of 002.
    assert verdicts(result)[2:4] == [("rejected", "film or patient of the reference set")] * 2
    assert result.films == 4
    check_rejects(result, 0.1)  # what --exclude leaves out is no failure


SECRETS = ("Doe", "Jane", "MRN4711", "19700423", "20230515", "1970-04-23", "St. Nowhere", "jane_doe")


def test_nothing_that_ingest_writes_or_prints_says_who_the_patient_is(tmp_path, film, fedpdc_home, capfd):
    source = tmp_path / "jane_doe"
    source.mkdir()
    identity = {
        "PatientID": "MRN4711",
        "PatientBirthDate": "19700423",
        "StudyDate": "20230515",
        "InstitutionName": "St. Nowhere",
    }
    kept = film(path=source / "Doe^Jane-1.dcm", **identity)
    film(path=source / "Doe^Jane-2.dcm", **identity, ViewPosition="LL")
    film(path=source / "Doe^Jane-3.dcm", **identity)
    (source / "Doe^Jane-3.dcm").write_bytes((source / "Doe^Jane-3.dcm").read_bytes()[:-3000])
    ingest(source, "site", labels=NORMAL, write_dicom=tmp_path / "clean")
    produced = [p for folder in (fedpdc_home, tmp_path / "clean") for p in folder.rglob("*") if p.is_file()]
    assert len(produced) == 6  # key, four files of the store, one DICOM file
    printed = capfd.readouterr()
    everything = b"".join(p.read_bytes() + p.name.encode() for p in produced) + (printed.out + printed.err).encode()
    for secret in (*SECRETS, str(kept.SOPInstanceUID), str(kept.StudyInstanceUID), str(tmp_path)):
        assert secret.encode() not in everything, secret
    assert not list((fedpdc_home / "sites").rglob("*.key"))


def open_to_others(*folders: Path) -> list[str]:
    entries = [entry for folder in folders for entry in (folder, *folder.rglob("*"))]
    return [str(entry) for entry in entries if entry.stat().st_mode & 0o077]


def test_what_ingest_writes_is_for_its_owner_only(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 4)
    before = os.umask(0o000)
    try:
        ingest(source, "site", labels=NORMAL, processes=1, write_dicom=tmp_path / "clean")
        assert os.umask(0o000) == 0o000  # as it was
    finally:
        os.umask(before)
    assert len(list((tmp_path / "clean").iterdir())) == 4
    assert open_to_others(fedpdc_home, tmp_path / "clean") == []


def test_the_journal_of_a_stopped_ingest_is_for_its_owner_only(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 4)
    (tmp_path / "none.csv").write_text("film,label\n", encoding="utf-8")
    before = os.umask(0o000)
    try:
        with pytest.raises(WorkFailed, match="Not a directory"):  # the first film stops it
            ingest(source, "site", labels=NORMAL, processes=1, write_dicom=tmp_path / "none.csv" / "x")
    finally:
        os.umask(before)
    assert open_to_others(fedpdc_home) == []


def test_de_identified_dicom_of_duplicates_is_not_left_behind(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 3)
    shutil.copy(source / "000.dcm", source / "900.dcm")
    # Another picture that claims to be the first film must not overwrite what was written for it.
    film(
        np.tile(np.arange(64, dtype=np.uint16) * 1000, (64, 1)),
        source / "901.dcm",
        SOPInstanceUID=pydicom.dcmread(source / "000.dcm").SOPInstanceUID,
    )
    result = ingest(source, "site", labels=NORMAL, write_dicom=tmp_path / "clean")
    assert [reason for _, reason in verdicts(result)[3:]] == [
        "duplicate film",
        "same SOP instance UID as another film, different pixels",
    ]
    assert len(list((tmp_path / "clean").iterdir())) == result.films == 3


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"labels": None}, "needs --labels FILE or --label CLASS"),
        ({"views": ("sideways",)}, "unknown view sideways; choose from PA, AP"),
        ({"site": "St. Mary"}, "lower-case letters"),
        ({"site": "../outside"}, "lower-case letters"),
        ({"collection": "darkcovidnet"}, "does not look like darkcovidnet"),
    ],
)
def test_a_users_mistake_is_one_line_that_says_what_to_do(tmp_path, film, fedpdc_home, wrong, message):
    how = {"source": folder_of(tmp_path, film, 1), "site": "site", "labels": NORMAL} | wrong
    with pytest.raises(UserError, match=message) as error:
        ingest(how.pop("source"), how.pop("site"), **how)
    assert str(tmp_path) not in str(error.value)
    assert not fedpdc_home.exists()


def test_de_identified_films_may_not_go_into_the_source(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 1)
    with pytest.raises(UserError, match="inside SOURCE"):
        ingest(source, "site", labels=NORMAL, write_dicom=source / "clean")


def test_pictures_cannot_be_written_as_de_identified_dicom(tmp_path, fedpdc_home):
    (tmp_path / "films" / "normal").mkdir(parents=True)
    Image.fromarray(np.eye(64, dtype=np.uint8)).save(tmp_path / "films" / "normal" / "b.png")
    with pytest.raises(UserError, match="PNG or JPEG files or arrays, not DICOM files"):
        ingest(tmp_path / "films", "site", write_dicom=tmp_path / "clean")


def test_two_ingests_of_one_site_at_once_are_refused(tmp_path, film, fedpdc_home):
    from fedpdc_med.imaging.ingest.journal import Journal

    source = folder_of(tmp_path, film, 1)
    with Journal(fedpdc_home / "sites" / "site" / ".ingest", "", 128), pytest.raises(UserError, match="another ingest"):
        ingest(source, "site", labels=NORMAL)


def test_too_many_rejects_fail_after_everything_was_written(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 2)
    for name in "abc":
        (source / name).write_text("no film", encoding="utf-8")
    result = ingest(source, "site", labels=NORMAL)
    assert len(read_store(result.store).films) == 2
    check_rejects(result, 0.6)
    with pytest.raises(WorkFailed, match=r"3 of 5 files were not accepted.*not DICOM \(3\)"):
        check_rejects(result, 0.5)


def test_an_empty_folder_is_work_that_failed(tmp_path, fedpdc_home):
    (tmp_path / "films").mkdir()
    with pytest.raises(WorkFailed, match="no files"):
        check_rejects(ingest(tmp_path / "films", "site", labels=NORMAL), 0.5)


def test_real_collections_into_stores(real_data, fedpdc_home, tmp_path):
    """Every tenth film of darkcovidnet, and covid-chestxray-dataset with a tenth of its rows."""
    for folder in ("Covid-19", "No_findings", "Pneumonia"):
        (tmp_path / "dark" / folder).mkdir(parents=True)
        for path in sorted((real_data("darkcovidnet") / folder).iterdir())[::10]:
            shutil.copy(path, tmp_path / "dark" / folder)
    rows = (real_data("covid-chestxray-dataset") / "metadata.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "covid").mkdir()
    (tmp_path / "covid" / "metadata.csv").write_text("".join([rows[0], *rows[1::10]]), encoding="utf-8")
    (tmp_path / "covid" / "images").symlink_to(real_data("covid-chestxray-dataset") / "images")
    dark, covid = ingest(tmp_path / "dark", "dark"), ingest(tmp_path / "covid", "covid", views=(*FRONTAL, "lateral"))
    assert read_store(dark.store).info["counts"]["classes"] == {
        "normal": 41,
        "pneumonia": 41,
        "covid-19": 11,
        "tuberculosis": 0,
    }
    assert set(read_store(covid.store).manifest["view"]) == {"PA", "AP", "lateral"}
    assert ("rejected", "modality not CR or DX") in verdicts(covid)
    assert set(read_store(covid.store).manifest["source"]) == {"covid-chestxray-dataset"}


def test_a_picture_that_is_none_and_one_that_is_missing(tmp_path, fedpdc_home):
    (tmp_path / "films" / "normal").mkdir(parents=True)
    (tmp_path / "films" / "normal" / "a.png").write_text("no picture", encoding="utf-8")
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "films" / "normal" / "b.png")
    assert verdicts(ingest(tmp_path / "films", "site")) == [("rejected", "not a picture"), ("accepted", "")]


def test_the_store_keeps_the_shape_that_a_film_came_with(tmp_path, film, fedpdc_home):
    source = tmp_path / "films"
    source.mkdir()
    rng = np.random.default_rng(0)
    film(rng.integers(0, 4096, (80, 60)).astype(np.uint16), source / "a.dcm", PatientID="a")
    # Lying on its side, as its header says: the shape is that of the film as it is read.
    lying = rng.integers(0, 4096, (60, 80)).astype(np.uint16)
    film(lying, source / "b.dcm", PatientID="b", PatientOrientation=["F", "L"])
    manifest = read_store(ingest(source, "shapes", labels=NORMAL, size=32).store).manifest
    assert original_shapes(manifest).tolist() == [[80, 60], [80, 60]]


def test_a_replacement_without_a_single_film_leaves_the_store_and_its_report(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 4)
    before = contents(ingest(source, "site", labels=NORMAL).store)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "empty.dcm").touch()
    result = ingest(tmp_path / "other", "site", labels=NORMAL, replace=True)
    assert contents(result.store) == before
    with pytest.raises(WorkFailed, match="nothing was stored"):
        check_rejects(result, 0.5)


def test_linked_folders_are_read_once_and_a_broken_link_is_reported(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 2)
    (tmp_path / "rest").mkdir()
    film(path=tmp_path / "rest" / "far.dcm", PatientID="far")
    (source / "more").symlink_to(tmp_path / "rest", target_is_directory=True)
    (source / "round").symlink_to(source, target_is_directory=True)
    (source / "gone.dcm").symlink_to(tmp_path / "nowhere.dcm")
    (source / "itself.dcm").symlink_to(source / "itself.dcm")
    assert sorted(verdicts(ingest(source, "site", labels=NORMAL))) == [
        ("accepted", ""),
        ("accepted", ""),
        ("accepted", ""),
        ("rejected", "file cannot be read"),
        ("rejected", "file cannot be read"),
    ]


def test_pictures_that_the_label_table_names_are_films_and_thumbnails_are_not(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 2)
    for i, name in enumerate(("a.png", "b.JPG", "wrong.png", "thumb.png")):
        pixels = np.random.default_rng(10 + i).integers(0, 256, (64, 64), dtype=np.uint8)
        Image.fromarray(pixels).save(source / name)
    rows = ["000.dcm,normal,", "001.dcm,normal,", "a.png,pneumonia,Doe", "b.JPG,covid-19,Doe", "wrong.png,elbow,x"]
    (tmp_path / "labels.csv").write_text("\n".join(["film,label,patient", *rows]), encoding="utf-8")
    result = ingest(source, "site", labels=read_labels(tmp_path / "labels.csv"))
    assert verdicts(result) == [
        ("accepted", ""),
        ("accepted", ""),
        ("accepted", ""),
        ("accepted", ""),
        ("rejected", "not DICOM"),  # thumb.png
        ("rejected", "unknown label"),
    ]
    manifest = read_store(result.store).manifest
    assert sorted(manifest["label"]) == ["covid-19", "normal", "normal", "pneumonia"]
    pictures = manifest[manifest["source"] == "pictures"]
    assert len(pictures) == 2 and pictures["patient"].nunique() == 1
    assert "Doe" not in (result.store / "manifest.csv").read_text(encoding="utf-8")


def test_films_with_hardly_any_greys_are_quarantined(tmp_path, film, fedpdc_home):
    source = tmp_path / "films"
    source.mkdir()
    grey = np.full((64, 64), 30000, np.uint16)
    grey[::2] += 1000
    film(grey, source / "a.dcm", WindowCenter=32768, WindowWidth=65536)
    halves = np.zeros((64, 64), np.uint16)
    halves[:, 32:] = 65535
    film(halves, source / "b.dcm")
    report = ingest(source, "site", labels=NORMAL).report
    assert [row[1:] for row in report] == [
        ("quarantined", "hardly any greys", "almost a single grey level"),
        ("quarantined", "hardly any greys", "black and white only"),
    ]


def test_two_ids_with_the_same_film_stay_one_patient_when_the_copy_is_dropped(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 40)  # two films a patient
    copy = pydicom.dcmread(source / "000.dcm")
    copy.PatientID, copy.SOPInstanceUID = "id1", "1.2.3"  # the patient of 002 and 003 is that of 000 and 001
    copy.save_as(source / "900.dcm")
    (tmp_path / "reference").mkdir()
    shutil.copy(source / "003.dcm", tmp_path / "reference")
    reference = ingest(tmp_path / "reference", "reference", labels=NORMAL)
    result = ingest(source, "site", labels=NORMAL)
    assert verdicts(result)[40] == ("rejected", "duplicate film")
    assert len(set(result.groups[:4])) == 1 and len(set(result.groups)) == 19
    assert set(read_store(result.store).manifest["split"][:4]) in ({"train"}, {"test"})
    without = verdicts(ingest(source, "other", labels=NORMAL, without=reference.store))
    assert without[:4] == [("rejected", "film or patient of the reference set")] * 4


def test_a_copy_is_known_whatever_fit_and_equalise_make_of_it(tmp_path, film, fedpdc_home):
    (tmp_path / "films").mkdir()
    film(np.random.default_rng(0).integers(0, 4096, (80, 60)).astype(np.uint16), tmp_path / "films" / "a.dcm")
    pad = ingest(tmp_path / "films", "pad", labels=NORMAL)
    crop = ingest(tmp_path / "films", "crop", labels=NORMAL, fit="crop", equalise=True, without=pad.store)
    assert verdicts(crop) == [("rejected", "film or patient of the reference set")]


def test_the_label_table_may_say_the_patient_of_a_dicom_film_and_the_view_of_a_picture(tmp_path, film, fedpdc_home):
    source = tmp_path / "films"
    source.mkdir()
    film(path=source / "a.dcm", PatientID="")
    film(path=source / "b.dcm", PatientID="x")
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)
    Image.fromarray(pixels).save(source / "c.png")
    Image.fromarray(pixels[::-1]).save(source / "d.png")
    rows = ["a.dcm,normal,7,", "b.dcm,normal,7,", "c.png,normal,8,lateral", "d.png,normal,8,PA"]
    (tmp_path / "labels.csv").write_text("\n".join(["film,label,patient,view", *rows]), encoding="utf-8")
    result = ingest(source, "site", labels=read_labels(tmp_path / "labels.csv"))
    assert verdicts(result)[2] == ("rejected", "lateral view")
    manifest = read_store(result.store).manifest
    assert manifest["patient"].nunique() == 2 and list(manifest["view"]) == ["PA", "PA", "PA"]


def test_what_could_not_be_read_is_tried_again_when_a_stopped_ingest_continues(tmp_path, film, fedpdc_home):
    from fedpdc_med.imaging.ingest.journal import Journal
    from fedpdc_med.imaging.records import Outcome, Reason, Verdict

    source = folder_of(tmp_path, film, 3)
    whole = ingest(source, "site", labels=NORMAL)
    with Journal(tmp_path / "again" / ".ingest", read_store(whole.store).info["ingest"], 128) as journal:
        journal.add([(2, Outcome(Verdict.REJECTED, Reason.TIMED_OUT, "more than 1 s"))])
    assert ingest(source, "site", labels=NORMAL, store=tmp_path / "again").films == 3


def test_films_that_take_too_long_are_refused_and_tried_again_with_more_time(tmp_path, film, fedpdc_home):
    source = folder_of(tmp_path, film, 2)
    (source / "note.txt").write_text("no film", encoding="utf-8")
    late = ingest(source, "site", labels=NORMAL, processes=1, seconds=1e-5)
    assert verdicts(late) == [("rejected", "decoder took too long")] * 3
    assert (late.films, late.replaced) == (0, 4)  # the three films together, then each alone
    again = ingest(source, "site", labels=NORMAL, processes=1)
    assert verdicts(again) == [("accepted", "")] * 2 + [("rejected", "not DICOM")]


@pytest.mark.parametrize("room", [5 * 128**2, 12 * 128**2 + 64], ids=["of the journal", "of the store"])
def test_a_full_disk_is_said_in_a_sentence_and_the_ingest_goes_on_when_there_is_room(tmp_path, film, fedpdc_home, room):
    """The store holds as many pixels as the journal, and a header besides."""
    source = folder_of(tmp_path, film, 12)
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room})); "
        f"sys.argv = ['fedpdc', 'ingest', {str(source)!r}, '--site', 'site', '--label', 'normal']; "
        "from fedpdc_med.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "File too large" in done.stderr and "Traceback" not in done.stderr
    folder = fedpdc_home / "sites" / "site"
    assert not (folder / "store.json").exists()
    kept = (folder / ".ingest" / "outcomes.jsonl").read_bytes().count(b"\n") - 1
    assert 0 < kept < 12 or (room > 12 * 128**2 and kept == 12)
    assert ingest(source, "site", labels=NORMAL).films == 12
    assert contents(folder) == contents(ingest(source, "site", labels=NORMAL, store=tmp_path / "whole").store)


def test_a_finished_ingest_stays_finished_under_another_version_of_the_package(
    tmp_path, film, fedpdc_home, monkeypatch
):
    source = folder_of(tmp_path, film, 3)
    ingest(source, "site", labels=NORMAL)
    for module in [m for name, m in sys.modules.items() if name.startswith("fedpdc_med")]:
        if hasattr(module, "__version__"):
            monkeypatch.setattr(module, "__version__", "9.9.9")
    assert ingest(source, "site", labels=NORMAL).seconds == 0.0


def test_a_store_that_lies_inside_the_source_is_not_read(tmp_path, film, monkeypatch):
    source = folder_of(tmp_path, film, 3)
    monkeypatch.setenv("FEDPDC_HOME", str(source / "000-data"))  # sorted before the films
    first = ingest(source, "site", labels=NORMAL)
    again = ingest(source, "site", labels=NORMAL)
    assert (first.films, len(first.report), again.films, again.read_again) == (3, 3, 3, False)


def test_the_journal_holds_no_file_open_when_it_goes(tmp_path, monkeypatch):
    """NFS keeps open files, so that their folder could not be removed."""
    from fedpdc_med.imaging.ingest import journal

    held = []
    monkeypatch.setattr(
        journal.shutil,
        "rmtree",
        lambda folder, **how: held.extend(
            file for file in map(os.path.realpath, Path("/proc/self/fd").iterdir()) if file.startswith(str(folder))
        ),
    )
    with journal.Journal(tmp_path / ".ingest", "fingerprint", 64) as made:
        made.discard()
    assert held == []


def test_a_corrected_patient_of_a_collections_table_is_noticed(tmp_path, fedpdc_home):
    (tmp_path / "covid" / "images").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 64, 64), dtype=np.uint8)
    for name, one in zip("ab", pixels, strict=True):
        Image.fromarray(one).save(tmp_path / "covid" / "images" / f"{name}.png")
    rows = "patientid,finding,view,modality,filename\n1,No Finding,PA,X-ray,a.png\n2,No Finding,PA,X-ray,b.png\n"
    (tmp_path / "covid" / "metadata.csv").write_text(rows, encoding="utf-8")
    assert ingest(tmp_path / "covid", "site").films == 2
    assert not ingest(tmp_path / "covid", "site").read_again
    (tmp_path / "covid" / "metadata.csv").write_text(rows.replace("\n2,", "\n1,"), encoding="utf-8")
    with pytest.raises(UserError, match="--overwrite"):
        ingest(tmp_path / "covid", "site")
    assert read_store(ingest(tmp_path / "covid", "site", replace=True).store).manifest["patient"].nunique() == 1


def test_a_picture_that_the_machine_cannot_read_is_not_called_no_picture(tmp_path, fedpdc_home):
    (tmp_path / "films" / "normal").mkdir(parents=True)
    (tmp_path / "films" / "normal" / "a.png").symlink_to("/proc/self/mem")  # opens, and gives an error when read
    assert verdicts(ingest(tmp_path / "films", "site")) == [("rejected", "file cannot be read")]
