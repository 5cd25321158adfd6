"""What every page must survive: odd run directories, odd text, odd links."""

import os
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from fedpdc_med.cli.review import SETTINGS
from fedpdc_med.review.sections import PAGES

ROOT = Path(__file__).resolve().parents[3]
MODULES = [page.name for page in PAGES]
HOSTILE = "<script>alert(1)</script> **bold** [a](http://evil.test) :red[x] $x$ `c`"


@pytest.mark.parametrize("module", MODULES)
def test_a_folder_without_runs_is_a_sentence(tmp_path, draw, module):
    assert "no runs in the runs folder" in draw(tmp_path, module).errors[0]


@pytest.mark.parametrize("module", MODULES)
def test_empty_broken_and_foreign_folders_are_a_sentence(tmp_path, write_run, draw, module):
    (tmp_path / "empty").mkdir()
    folder = write_run(tmp_path / "broken")
    (folder / "predictions.parquet").write_bytes(b"PAR1 no parquet")
    assert "empty is empty" in draw(tmp_path, module, run="empty").errors[0]
    assert "corrupt" in draw(tmp_path, module, run="broken").errors[0]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("rounds", [0, 2])
def test_a_run_in_progress_is_shown_as_far_as_it_is(tmp_path, write_run, draw, module, rounds):
    write_run(tmp_path / "going", finished=False, rounds=rounds)
    page = draw(tmp_path, module)
    assert f"In progress: {rounds} of 4 rounds completed" in page.text
    assert page.errors == []


def test_a_run_in_progress_has_its_curves(tmp_path, write_run, draw):
    write_run(tmp_path / "going", finished=False, rounds=2)
    assert "after each round" in draw(tmp_path, "recall").text
    assert draw(tmp_path, "shaped").table("mean weight")["rounds used"].tolist() == ["2 of 2", "2 of 2"]


@pytest.mark.parametrize("module", MODULES)
def test_a_site_with_one_film_and_twenty_classes(tmp_path, write_run, draw, module):
    names = [f"finding-{k:02d}" for k in range(20)]
    found = dict.fromkeys(names, (2, 3))
    write_run(tmp_path / "a", found, local=dict.fromkeys(names, (0, 0)) | {names[0]: (1, 1)})
    write_run(tmp_path / "b", found)
    assert draw(tmp_path, module, run="a", second="b").errors == []


@pytest.mark.parametrize("module", MODULES)
def test_text_of_a_run_is_never_markup(tmp_path, write_run, draw, module):
    found = {HOSTILE: (1, 4), "normal": (3, 4), "b": (0, 0)}
    missing = {(1, "hill"): ("rejected", HOSTILE)}
    write_run(tmp_path / "a", found, titles={"harbor": HOSTILE, "hill": HOSTILE}, missing=missing)
    write_run(tmp_path / "b", found)
    page = draw(tmp_path, module, run="a", second="b")
    assert page.errors == []
    test = page.test
    bodies = [element.value for kind in ("markdown", "caption", "info") for element in getattr(test.main, kind)]
    bodies += [cell for table in test.main.table for cell in map(str, table.value.to_numpy().ravel())]
    for markup in ("<script", "**bold", "[a]", ":red", "`c"):
        unescaped = re.compile(r"(?<!\\)" + re.escape(markup))
        assert not [body for body in bodies if unescaped.search(body.replace(":red[0", ""))], markup
    figures = [chart.proto.spec for chart in test.main.get("plotly_chart")]
    assert not [figure for figure in figures if "<script" in figure.replace("\\u003c", "<")]


def test_a_link_to_a_run_opens_it_and_to_anything_else_does_not(tmp_path, write_run, draw):
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "runs" / "b")
    write_run(tmp_path / "secret")
    assert "Run: a" in draw(tmp_path / "runs", "overview", query={"run": "a"}).text
    page = draw(tmp_path / "runs", "overview", query={"run": "../secret"})
    assert "not in the runs folder" in page.text and "Run: b" in page.text


def test_the_run_named_on_the_command_line_is_shown_first(tmp_path, write_run, draw, monkeypatch):
    for file in write_run(tmp_path / "older").iterdir():
        os.utime(file, (0, 0))
    write_run(tmp_path / "newer")
    assert "Run: newer" in draw(tmp_path, "overview").text
    monkeypatch.setenv("FEDPDC_RUN", "older")
    assert "Run: older" in draw(tmp_path, "overview").text


def test_the_app_opens_on_the_model_and_not_on_what_it_is_compared_with(tmp_path, write_run, draw):
    write_run(tmp_path / "main", method="fedpdc-ce")
    write_run(tmp_path / "compared", method="fedavg")
    assert "Run: main. Method: fedpdc-ce." in draw(tmp_path, "overview").text


@pytest.mark.parametrize("module", MODULES)
def test_every_page_says_the_method_of_its_runs(tmp_path, write_run, draw, module):
    write_run(tmp_path / "a", method="fedavg")
    write_run(tmp_path / "b", method="fedpdc-ce")
    page = draw(tmp_path, module, run="a", second="b")
    assert "Run: a. Method: fedavg (a comparison)." in page.text
    assert "Compared with: b. Method: fedpdc-ce." in page.text
    assert "Method: fedavg (a comparison)" in page.sidebar


def test_a_session_that_names_a_run_outside_falls_back_to_the_newest(tmp_path, write_run, draw):
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "secret")
    assert "Run: a" in draw(tmp_path / "runs", "overview", run="../secret", second="../secret").text


def test_a_run_that_changes_is_read_again(tmp_path, write_run, draw):
    folder = write_run(tmp_path / "a")
    page = draw(tmp_path, "recall")
    shutil.rmtree(folder)
    write_run(tmp_path / "a", {"normal": (1, 20), "pneumonia": (16, 20)})
    page.test.run()
    assert page.table("correct")["correct"].tolist() == ["1/20", "16/20"]


def test_the_app_starts_at_the_overview(tmp_path, write_run, monkeypatch):
    write_run(tmp_path / "a")
    monkeypatch.setenv("FEDPDC_RUNS", str(tmp_path))
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30).run()
    assert not test.exception and [header.value for header in test.header] == ["Overview"]


def test_streamlit_run_and_fedpdc_review_have_the_same_settings():
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    flat = {f"{part}.{name}": value for part, values in config.items() for name, value in values.items()}
    assert {name: str(value).lower() if isinstance(value, bool) else value for name, value in flat.items()} == SETTINGS
