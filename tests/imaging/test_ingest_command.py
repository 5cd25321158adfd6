"""`fedpdc ingest` as a user meets it."""

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fedpdc_med.errors import UserError, WorkFailed
from fedpdc_med.imaging.commands import ingest, ingest_speed

app = typer.Typer()
app.command("ingest")(ingest)
app.command("ingest-speed")(ingest_speed)


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def source(tmp_path, film):
    (tmp_path / "films").mkdir()
    rng = np.random.default_rng(0)
    for i in range(10):
        film(rng.integers(0, 65536, (64, 64)).astype(np.uint16), tmp_path / "films" / f"{i}.dcm", PatientID=str(i))
    (tmp_path / "films" / "readme.txt").write_text("hello")
    return tmp_path / "films"


def test_the_summary_counts_verdicts_classes_and_splits_and_says_how_to_find_a_file(source, fedpdc_home):
    result = run("ingest", source, "--site", "harbor", "--label", "normal", "--workers", 2)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "harbor: 11 files" in said and "not DICOM" in said
    assert "10 films of 10 patients: 10 normal; 2 test, 8 train" in said
    assert "find SOURCE -type f | LC_ALL=C sort" in said
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


@pytest.mark.parametrize("command", ["ingest", "ingest-speed"])
def test_help_shows_an_example(command):
    assert (
        f"Example: fedpdc {'ingest' if command == 'ingest' else 'benchmark ingest-speed'}"
        in run(command, "--help").stdout
    )


def test_speed_is_printed_side_by_side(source, fedpdc_home):
    result = run("ingest-speed", source, "--rounds", 1, "--workers", 1)
    assert result.exit_code == 0, result.exception
    assert "bare pydicom decode and resize" in result.stdout and "fedpdc ingest" in result.stdout
    assert "of the bare loop" in result.stdout
