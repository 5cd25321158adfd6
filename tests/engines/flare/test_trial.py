"""`fedpdc federation try` as people use it: real processes, and none of them left afterwards."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from fedpdc_med.runs.directory import read_run

MODULE = """from fedpdc_med.hospitals import HospitalSite, LocalSettings, Phantoms
SITE = HospitalSite(name="{name}", films=Phantoms(case_mix={mix}),
                    settings=LocalSettings(epochs=1, batch_size=4, learning_rate=0.03))
"""


@pytest.fixture
def start(sources, tmp_path):
    """A maker of commands over the three small hospitals, whose phantoms are drawn already."""
    home = sources.reference.store.folder.parent
    (tmp_path / "hospitals").mkdir()
    (tmp_path / "tmp").mkdir()
    for name in sources.stores:
        counts = sources.stores[name].manifest["label"].value_counts()
        mix = {label: int(counts[label]) for label in ("normal", "pneumonia", "covid-19")}
        (tmp_path / "hospitals" / f"{name}.py").write_text(MODULE.format(name=name, mix=mix), encoding="utf-8")
    environment = {**os.environ, "FEDPDC_HOME": str(home), "TMPDIR": str(tmp_path / "tmp"), "COLUMNS": "80"}

    def command(*arguments):
        line = [sys.executable, "-m", "fedpdc_med.cli", *arguments, "--sites", "hospitals", "--model", "cnn"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(line, cwd=tmp_path, env=environment, **pipes)

    return command


def running(place):
    """Processes whose command line names a folder of this test."""
    found = []
    for process in psutil.process_iter():
        try:
            if f"{place}/tmp/fedpdc-try-" in " ".join(process.cmdline()):
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def test_try_ends_like_simulate_with_the_same_model_and_table(start, tmp_path):
    trying = start("federation", "try", "--rounds", "2", "--out", "apart")
    shown, complaints = trying.communicate(timeout=600)
    assert trying.returncode == 0, complaints
    simulating = start("simulate", "--rounds", "2", "--out", "together")
    expected, complaints = simulating.communicate(timeout=600)
    assert simulating.returncode == 0, complaints
    assert tables(shown) == tables(expected)
    runs = [read_run(tmp_path / name) for name in ("apart", "together")]
    assert runs[0].model_file.read_bytes() == runs[1].model_file.read_bytes()
    assert {file.name for file in (tmp_path / "together").iterdir()} <= {
        file.name for file in (tmp_path / "apart").iterdir()
    }
    assert not running(tmp_path) and not list((tmp_path / "tmp").glob("fedpdc-try-*"))


def tables(shown):
    return shown.split("Run directories")[0]


def test_ctrl_c_leaves_no_process_and_no_folder(start, tmp_path):
    trying = start("federation", "try", "--rounds", "50", "--out", "stopped")
    until = time.monotonic() + 300
    while len(running(tmp_path)) < 6 and trying.poll() is None and time.monotonic() < until:
        time.sleep(0.5)  # until job processes run beside the four kits
    assert len(running(tmp_path)) >= 6
    trying.send_signal(signal.SIGINT)
    assert trying.wait(timeout=120) == 130
    assert not running(tmp_path) and not list((tmp_path / "tmp").glob("fedpdc-try-*"))


def test_without_flare_one_line_says_what_to_install(tmp_path):
    """A FLARE that cannot be found stands for one that is not installed."""
    hide = "import sys, importlib.util as u; f = u.find_spec; "
    hide += "u.find_spec = lambda name, *rest: None if name == 'nvflare' else f(name, *rest); "
    code = hide + "sys.argv = ['fedpdc', 'federation', 'try']; from fedpdc_med.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "constraints.txt" in done.stderr
