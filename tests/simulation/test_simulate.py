"""`fedpdc simulate` over a few tiny phantom hospitals: real DICOM files, ingest, training, tables, run directories."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pydicom
import pytest

from fedpdc_med.cli.simulate import run_folder
from fedpdc_med.imaging.store import read_store
from fedpdc_med.methods import make_method
from fedpdc_med.runs.directory import Run, read_run

SITE = """from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms
SITE = HospitalSite(name="{name}", films=Phantoms(case_mix={mix}), takes_part={takes_part},
                    settings=LocalSettings(epochs=1, batch_size=8))
"""
MIXES = {
    "north": {"normal": 12, "pneumonia": 8, "covid-19": 1, "tuberculosis": 2},
    "south": {"normal": 4, "pneumonia": 2, "covid-19": 14, "tuberculosis": 2},
    "outside": {"normal": 3, "pneumonia": 3, "covid-19": 3, "tuberculosis": 3},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulation")
    (folder / "hospitals").mkdir()
    for name, mix in MIXES.items():
        text = SITE.format(name=name, mix=mix, takes_part=name != "outside")
        (folder / "hospitals" / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def environment(folder):
    return {**os.environ, "FEDPDC_HOME": str(folder / "home"), "COLUMNS": "80"}


def command(*arguments):
    return [sys.executable, "-m", "fedpdc_med.cli", "simulate", "--sites", "hospitals", "--rounds", "2", *arguments]


def simulate(folder, *arguments):
    return subprocess.run(
        command(*arguments), cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=600
    )


@pytest.fixture(scope="module")
def simulated(place):
    """Three hospitals simulated; beside them a folder with two of them, and one where an outsider is also inside."""
    done = simulate(place, "--compare", "solo,fedavg", "--out", "run")
    assert done.returncode == 0, done.stderr
    shutil.copytree(place / "hospitals", place / "fewer", ignore=shutil.ignore_patterns("outside.py", "__pycache__"))
    shutil.copytree(place / "hospitals", place / "twice", ignore=shutil.ignore_patterns("outside.py", "__pycache__"))
    (place / "twice" / "copy.py").write_text(
        "from fedpdc_med.hospitals import HospitalSite\n"
        f'SITE = HospitalSite(name="copy", films="{place}/home/phantoms/seed0/north/store", takes_part=False)\n',
        encoding="utf-8",
    )
    return place, done.stdout


def test_it_ends_with_recall_by_class_and_what_each_site_gained(simulated):
    _, shown = simulated
    for word in ("covid-19", "tuberculosis", "fedpdc", "solo", "fedavg", "macro recall", "north", "south", "weight"):
        assert word in shown
    assert "External test at outside (not used in training)" in shown
    assert "not a medical device" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_every_method_leaves_a_run_on_the_same_films(simulated):
    folder, _ = simulated
    runs = {name: read_run(folder / name) for name in ("run", "run-solo", "run-fedavg")}
    frames = {name: run.predictions for name, run in runs.items()}
    assert set(frames["run-solo"]["model"]) == {"north", "south"}
    solo = runs["run-solo"]
    assert not solo.model_file.exists() and len(list(solo.site_models.iterdir())) == 2
    assert set(frames["run"]["split"]) == {"holdout", "weighting", "local", "external"}
    holdout = [tuple(frame[frame["split"] == "holdout"].drop_duplicates("film")["film"]) for frame in frames.values()]
    assert holdout[0] and holdout[0] == holdout[1] == holdout[2]
    sites = runs["run"].sites
    assert sites["outside"].takes_part is False
    assert sites["north"].training_films["normal"] in range(8, 13)
    assert "north" in runs["run"].rounds[0].sites and "outside" not in runs["run"].rounds[0].sites


def test_pooled_trains_in_one_place_on_the_films_of_the_sites_that_take_part(simulated):
    folder, _ = simulated
    done = simulate(folder, "--method", "pooled", "--out", "pooled")
    assert done.returncode == 0, done.stderr
    run = read_run(folder / "pooled")
    counts = [sum(site.training_films.values()) for site in run.sites.values() if site.takes_part]
    assert {name: site.films for name, site in run.rounds[0].sites.items()} == {"pooled": sum(counts)}
    assert len(counts) == 2 and "north" in done.stdout


def test_no_run_or_store_holds_a_name_a_path_or_a_date(simulated):
    folder, _ = simulated
    said = {str(folder), "PatientName"}
    for file in folder.glob("home/phantoms/*/*/dicom/**/*.dcm"):
        film = pydicom.dcmread(file, stop_before_pixels=True)
        said |= {str(film.PatientName), film.PatientName.family_name, film.PatientID, film.SOPInstanceUID}
        for day in (film.StudyDate, film.PatientBirthDate):
            said |= {day, f"{day[:4]}-{day[4:6]}-{day[6:]}"}
    assert len(said) > 200
    written = [file for file in (*folder.glob("run*/**/*"), *folder.glob("home/**/store/*")) if file.is_file()]
    assert len(written) > 20
    for file in written:
        if file.suffix in (".npy", ".safetensors", ".png"):
            assert str(folder).encode() not in file.read_bytes(), file.name
            continue
        text = pd.read_parquet(file).to_csv() if file.suffix == ".parquet" else file.read_text(encoding="utf-8")
        assert not [one for one in said if one in text], file.name
        assert not re.search(r"\b20\d\d-\d\d-\d\d", text), file.name  # nor when it was made


def test_films_of_training_holdout_and_external_sites_share_no_patient(simulated):
    folder, _ = simulated
    frame = read_run(folder / "run").predictions
    seen = {split: set(films["patient"]) for split, films in frame.groupby("split")}
    for name in ("north", "south", "reference"):
        manifest = read_store(folder / "home" / "phantoms" / "seed0" / name / "store").manifest
        split = "correction" if name == "reference" else "train"
        seen[f"{split} of {name}"] = set(manifest.loc[manifest["split"] == split, "patient"])
    assert len(seen) == 7 and all(seen.values())
    assert sum(map(len, seen.values())) == len(set.union(*seen.values()))


def test_a_killed_simulation_resumes_to_the_same_model(simulated):
    folder, _ = simulated
    process = subprocess.Popen(
        command("--out", "killed"), cwd=folder, env=environment(folder), stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not Run(folder / "killed").rounds and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    unfinished = read_run(folder / "killed")
    assert [record.round for record in unfinished.rounds] == [1] and not unfinished.finished
    again = [sys.executable, "-m", "fedpdc_med.cli", "resume", "killed", "--sites", "hospitals"]
    done = subprocess.run(again, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    killed, whole = (folder / name / "model.safetensors" for name in ("killed", "run"))
    assert killed.read_bytes() == whole.read_bytes()
    assert "macro recall" in done.stdout


def test_runs_of_other_hospitals_have_a_name_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path))
    method = make_method("fedpdc")
    phantoms, own = (
        run_folder(None, "fedpdc", "fedpdc", method, 0, sites=sites) for sites in (None, Path("hospitals"))
    )
    assert (phantoms.name, own.name) == ("simulate-fedpdc-seed0", "simulate-hospitals-fedpdc-seed0")


def test_a_hospital_that_was_edited_meanwhile_is_not_resumed(simulated, monkeypatch, mistake):
    folder, _ = simulated
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FEDPDC_HOME", str(folder / "home"))
    shutil.copytree(folder / "run", folder / "edited")
    (folder / "edited" / "predictions.parquet").unlink()
    module = folder / "hospitals" / "north.py"
    text = module.read_text(encoding="utf-8")
    try:
        module.write_text(text.replace("epochs=1", "epochs=2"), encoding="utf-8")
        assert module.read_text(encoding="utf-8") != text
        assert "settings of site 'north' differ" in mistake("resume", "edited", "--sites", "hospitals")
    finally:
        module.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "run"], "already contains a run"),
        (["--out", "run", "--resume", "--sites", "fewer"], "run with different sites or films"),
        (
            ["--out", "x", "--sites", "twice", "--reference", "home/phantoms/seed0/reference/store"],
            "test films at copy are also training films at north",
        ),
        (["--out", "x", "--method", "magic"], "there is no method 'magic'"),
        (["--out", "x", "--set", "strength=much"], "setting 'strength'"),
        (
            ["--out", "x", "--set", "colour=red"],
            "--set colour: unknown setting; known settings of the method 'fedpdc-ce'",
        ),
        (["--out", "x", "--tau", "0"], "--tau 0.0"),
        (["--out", "x", "--model", "vgg"], "there is no model 'vgg'"),
        (["--out", "x", "--reference", "nowhere"], "fedpdc reference build"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(simulated, monkeypatch, mistake, arguments, says):
    folder, _ = simulated
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FEDPDC_HOME", str(folder / "home"))
    assert says in mistake("simulate", "--sites", "hospitals", "--rounds", "2", *arguments)
    assert not (folder / "x").exists()  # a mistake leaves no half-made run behind


def test_a_site_that_holds_films_of_the_reference_is_refused(simulated, monkeypatch, mistake):
    """The reference's own films as a hospital: the mistake that inflates a score."""
    folder, _ = simulated
    (folder / "cheat").mkdir(exist_ok=True)
    store = folder / "home" / "phantoms" / "seed0" / "reference" / "store"
    text = f'from fedpdc_med.hospitals import HospitalSite\nSITE = HospitalSite(name="cheat", films="{store}")\n'
    (folder / "cheat" / "cheat.py").write_text(text, encoding="utf-8")
    arguments = ["--sites", "cheat", "--reference", str(store), "--out", "x"]
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FEDPDC_HOME", str(folder / "home"))
    assert "are also in the reference set" in mistake("simulate", *arguments)


def test_the_default_reference_can_be_built_and_checked(simulated):
    folder, _ = simulated

    def reference(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "fedpdc_med.cli", "reference", *arguments],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=300,
        )

    built = reference("build")
    assert built.returncode == 0, built.stderr
    assert reference("build").returncode == 2  # it is there already
    checked = reference("check")
    assert checked.returncode == 0, checked.stdout
    assert "statistically indistinguishable" in " ".join(checked.stdout.split())
    manifest = pd.read_csv(folder / "home" / "reference" / "manifest.csv")
    assert set(manifest["split"]) == {"correction", "weighting", "holdout"}
