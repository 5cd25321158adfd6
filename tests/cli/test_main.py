"""The command line as a person uses it: real processes, real files, exit codes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file

from fedpdc_med.common.files import only_writer
from fedpdc_med.federation.checkpoint import read_progress
from fedpdc_med.runs.directory import Run, read_run
from fedpdc_med.runs.schema import BenchmarkRun, SimulationRun

COMMAND = [sys.executable, "-m", "fedpdc_med.cli"]


def environment(folder):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FEDPDC_")}
    return {**kept, "FEDPDC_HOME": str(folder / "home"), "COLUMNS": "120"}


def fedpdc(folder, *arguments):
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=folder, timeout=300, env=environment(folder)
    )


def run_digits(folder, name, *more):
    done = fedpdc(folder, "benchmark", "run", "digits", "--rounds", "4", "--out", name, *more)
    assert done.returncode == 0, done.stderr
    return read_run(folder / name)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Usage:"),
        (["simulat"], "Did you mean"),
        (["simulate", "--bogus"], "No such option: --bogus"),
        (["simulate", "--rounds", "x"], "--rounds"),
        (["ingest", "films"], "Missing option '--site'"),
        (["reference"], "Build or check"),
    ],
)
def test_a_slip_in_the_command_is_told_in_words(tmp_path, arguments, says):
    done = fedpdc(tmp_path, *arguments)
    shown = done.stdout + done.stderr
    assert done.returncode == 2
    assert says in shown and "Traceback" not in shown


# In place of a library: says that it is being imported, and is not done before the file `go` is there.
SLOW = """import pathlib, time
print("there", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
raise ImportError
"""


@pytest.mark.parametrize("library", ["pydicom", "monai"])  # the command imports the one, its workers the other
def test_ctrl_c_while_ingest_or_its_workers_start_is_told_in_words(tmp_path, library):
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "a.dcm").write_bytes(b"no film")
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / f"{library}.py").write_text(SLOW, encoding="utf-8")
    process = subprocess.Popen(
        [*COMMAND, "ingest", "films", "--site", "harbor", "--label", "normal"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={**environment(tmp_path), "PYTHONPATH": os.pathsep.join([str(tmp_path / "slow"), *sys.path])},
        start_new_session=True,
    )
    assert process.stdout.readline() == "there\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    (tmp_path / "go").touch()
    said, _ = process.communicate(timeout=60)
    assert "Traceback" not in said
    assert process.returncode == 130


def test_no_worker_takes_python_from_the_current_folder(tmp_path):
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "a.dcm").write_bytes(b"no film")
    (tmp_path / "pickle.py").write_text(
        "open('it-ran', 'w').close()\n", encoding="utf-8"
    )  # what a worker process imports first
    installed = str(Path(sys.executable).with_name("fedpdc"))  # `python -m` itself looks into the current folder
    command = [installed, "ingest", "films", "--site", "harbor", "--label", "normal"]
    clean = {key: value for key, value in environment(tmp_path).items() if key != "PYTHONSAFEPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, env=clean)
    assert not (tmp_path / "it-ran").exists()
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return run_digits(tmp_path_factory.mktemp("digits"), "run", "--method", "fedpdc")


def test_a_benchmark_leaves_the_whole_run_directory(digits):
    run = digits
    names = {file.name for file in run.folder.iterdir()}
    assert names == {
        "config.toml",
        "rounds.jsonl",
        "predictions.parquet",
        "model.safetensors",
        "checkpoint.safetensors",
        "label_distribution.png",
        "job.lock",
        "site_models",
    }
    assert not list(run.site_models.iterdir())  # a run of a method that keeps none leaves no update behind
    rounds, predictions = run.rounds, run.predictions
    assert [record.round for record in rounds] == [1, 2, 3, 4]
    probabilities = predictions[[f"p:{k}" for k in range(10)]]
    assert probabilities.sum(axis=1).between(0.999, 1.001).all()
    accuracy = (probabilities.to_numpy().argmax(1) == predictions["label"].astype(int)).mean()
    assert accuracy == pytest.approx(rounds[-1].accuracy)
    assert set(predictions.columns[:10]) == {
        "model",
        "split",
        "site",
        "film",
        "patient",
        "label",
        "sex",
        "age_band",
        "view",
        "source",
    }
    method = run.plan.method
    assert method.name == "fedpdc"
    assert method.settings.items() >= {"correction": "penalty", "strength": 10.0, "weighting": "accuracy"}.items()
    assert run.config.experiment.rounds == run.plan.rounds == 4
    assert str(run.folder.parent) not in run.config_file.read_text(encoding="utf-8")
    assert "classify.weight" in load_file(run.model_file)  # without pickle


def test_one_or_two_workers_and_a_kill_in_mid_round_give_the_same_model(tmp_path):
    settings = ("--method", "moon", "--set", "epochs=6", "--rounds", "2")
    whole = run_digits(tmp_path, "whole", *settings, "--workers", "2")
    single = run_digits(tmp_path, "single", *settings, "--workers", "1")
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [*COMMAND, "benchmark", "run", "digits", "--out", "killed", *settings],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    open_round = killed / "site_models"
    deadline = time.monotonic() + 120
    while not list(open_round.glob("*.round2.*")) and time.monotonic() < deadline:  # round 2 has begun to answer
        time.sleep(0.005)
    workers = processes_in(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "model.safetensors").exists()
    assert len(workers) > 2 and not psutil.wait_procs(workers, timeout=20)[1], "workers outlived their coordinator"
    done = fedpdc(tmp_path, "resume", "killed", "--workers", "2")
    assert done.returncode == 0, done.stderr
    expected = (whole.folder / "model.safetensors").read_bytes()
    assert (single.folder / "model.safetensors").read_bytes() == expected
    assert (killed / "model.safetensors").read_bytes() == expected
    assert [record.round for record in Run(killed).rounds] == [1, 2]


def processes_in(folder):
    """Those that were started there, whoever their parent is by now."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            found += [process] if process.cwd() == str(folder) else []
    return found


def test_an_existing_run_is_refused_resumed_or_replaced(digits, tmp_path, monkeypatch, mistake):
    shutil.copytree(digits.folder, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    run = read_run(tmp_path / "run")
    before = run.model_file.read_bytes()
    again = ("benchmark", "run", "digits", "--method", "fedpdc", "--out", "run")
    assert "already contains a run: use --resume" in mistake(*again, "--rounds", "4")
    assert "seed = 0, not 1" in mistake(*again, "--rounds", "4", "--resume", "--seed", "1")
    assert fedpdc(tmp_path, *again, "--rounds", "4", "--resume").returncode == 0
    assert run.model_file.read_bytes() == before
    (run.folder / "review.json").write_text("what reviewers decided", encoding="utf-8")
    assert fedpdc(tmp_path, *again, "--rounds", "1", "--overwrite").returncode == 0
    assert run.model_file.read_bytes() != before
    assert (run.folder / "review.json").read_text(encoding="utf-8") == "what reviewers decided"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nothing"], "there is no experiment 'nothing'; choose one of cifar10-cnn-b0.1"),
        (["run", "digits", "--method", "sgd"], "there is no method 'sgd'; choose one of"),
        (["run", "digits", "--preset", "huge"], "has no preset 'huge'; it has: paper, quick"),
        (["run", "digits", "--set", "colour=red"], "--set colour: unknown setting"),
        (["run", "digits", "--set", "seed=3"], "use the option --seed 3 instead"),
        (["run", "digits", "--set", "name=mine"], "--set name: unknown setting"),
        (["run", "digits", "--set", "tau"], "write it as KEY=VALUE"),
        (["run", "digits", "--set", "tau=0"], "key 'tau' = '0'"),
        (["run", "digits", "--set", "tau=1.2"], "key 'tau' = '1.2'"),
        (["run", "digits", "--set", "sites=2000"], "sites"),
        (["run", "digits", "--set", "model=vgg"], "there is no model 'vgg'"),
        (
            ["run", "digits", "--set", "correction=soft-accuracy", "--set", "public_per_class=1"],
            "`correction` split of the public reference set, which is empty",
        ),
        (["run", "digits", "--set", "public_per_class=0"], "the public reference set has no `weighting` films"),
        (["run", "cifar10-cnn-b0.1", "--data", "nowhere"], "nowhere"),
        (["run", "own.toml"], "unknown key 'colour'"),
        (["table"], "there is no finished benchmark run"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(tmp_path, monkeypatch, mistake, arguments, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDPDC_HOME", "home")
    (tmp_path / "own.toml").write_text(
        'data = "digits"\nmodel = "cnn"\ncolour = "red"\n[preset.quick]\nrounds = 1\n', encoding="utf-8"
    )
    assert says in mistake("benchmark", *arguments)


def test_a_home_that_cannot_be_written_is_one_line_and_exit_code_1(tmp_path):
    (tmp_path / "home").write_text("a file, no folder", encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "benchmark", "run", "digits", "--rounds", "1"],
        cwd=tmp_path,
        env={**environment(tmp_path), "FEDPDC_HOME": "home"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("failed: ") and "Traceback" not in done.stderr


def test_a_run_is_resumed_by_its_name_in_the_runs_folder(digits, tmp_path):
    shutil.copytree(digits.folder, tmp_path / "home" / "runs" / "mine")
    assert fedpdc(tmp_path, "resume", "mine").returncode == 0


def test_resume_of_a_folder_without_a_run_says_so(tmp_path, monkeypatch, mistake):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").mkdir()
    for content, says in (
        (None, "The folder site is empty"),
        (b'title = "a web site"', "config.toml of site is not the configuration of a run"),
        (b'title = "Malm\xf6"', "config.toml of site cannot be read"),
    ):
        if content:
            (tmp_path / "site" / "config.toml").write_bytes(content)
        assert says in mistake("resume", "site")


def test_resume_runs_no_site_file_that_the_run_itself_names(write_run, edit_config, tmp_path, mistake):
    run = write_run(tmp_path / "run", finished=False)
    (run / "theirs").mkdir()
    (run / "theirs" / "north.py").write_text(f"open({str(tmp_path / 'it-ran')!r}, 'w')", encoding="utf-8")
    edit_config(run, lambda config: config["data"].update(sites_folder="theirs"))
    said = mistake("resume", str(run))
    assert not (tmp_path / "it-ran").exists()
    assert "in a folder called 'theirs'" in said and f"fedpdc resume {run} --sites FOLDER" in said


@pytest.mark.parametrize("kind", [SimulationRun, BenchmarkRun])
def test_a_run_that_is_being_written_is_not_resumed_beside_it(write_run, tmp_path, mistake, kind):
    run = write_run(tmp_path / "run", finished=False, kind=kind)
    with only_writer(run):
        said = mistake("resume", str(run))
    assert "another command is writing the run 'run'; wait for it to finish" in said


def test_resume_does_not_go_on_with_a_simulation_as_a_benchmark(write_run, tmp_path, mistake):
    run = write_run(tmp_path / "run")
    said = mistake("benchmark", "run", "digits", "--resume", "--out", str(run))
    assert "contains a simulation run, not a benchmark; choose another --out" in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'preset = "quick"', "experiment 'own': write a preset as a table, [preset.quick]"),
        (b"preset.quick = 3", "experiment 'own': write a preset as a table, [preset.quick]"),
        (b'title = "Malm\xf6"', "own.toml: not valid TOML"),
        (b"title = " + b"[" * 5000, "own.toml: not valid TOML: it is nested too deeply"),
    ],
)
def test_an_experiment_file_that_cannot_be_used_says_why(tmp_path, monkeypatch, mistake, content, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_bytes(content + b'\ndata = "digits"\nmodel = "cnn"\npublic_per_class = 10\n')
    assert says in mistake("benchmark", "run", "own.toml")


def test_list_and_help_show_what_to_do_next(tmp_path):
    shown = fedpdc(tmp_path, "benchmark", "list")
    assert "cifar100-cnn-b0.5" in shown.stdout and "64.3" in shown.stdout
    assert "Example" in fedpdc(tmp_path, "benchmark", "run", "--help").stdout
    assert "not a medical device" in fedpdc(tmp_path, "--help").stdout.replace("\n", " ")


def test_ctrl_c_leaves_a_run_that_resume_continues(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "benchmark", "run", "digits", "--rounds", "2000", "--out", "run"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not ((done := read_progress(Run(tmp_path / "run"))) and done.round) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends Ctrl-C to the whole group, workers included
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "fedpdc resume" in said and "Traceback" not in said
    assert read_progress(Run(tmp_path / "run")).round >= 1
