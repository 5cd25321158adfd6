import os
import re

import pandas as pd
import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.runs.listing import first_shown, list_runs, open_run, solo_beside, unfinished
from fedpdc_med.runs.schema import BenchmarkRun, FederationRun


def sentence_of(root, name):
    with pytest.raises(UserError) as caught:
        open_run(root, name)
    sentence = str(caught.value)
    assert "\n" not in sentence and str(root) not in sentence  # one line, and no path of the machine
    return sentence


def test_a_finished_run_is_opened_with_everything(tmp_path, write_run):
    write_run(
        tmp_path / "a", external={"normal": (1, 2), "pneumonia": (1, 2), "covid-19": (1, 2), "tuberculosis": (1, 2)}
    )
    view = open_run(tmp_path, "a")
    assert (view.status, view.method, view.plan.rounds, len(view.rounds)) == ("finished", "fedpdc", 4, 4)
    assert view.classes == ["normal", "pneumonia", "covid-19", "tuberculosis"]
    assert view.models == ["global"]
    assert view.splits == ["holdout", "external", "local", "weighting"]


def test_the_listing_tells_finished_unfinished_and_other_folders_apart(tmp_path, write_run):
    write_run(tmp_path / "done")
    write_run(tmp_path / "going", finished=False, rounds=2)
    (tmp_path / "holiday-pictures").mkdir()
    (tmp_path / "notes.txt").write_text("not a folder", encoding="utf-8")
    (tmp_path / ".hidden").mkdir()
    listing = {one.name: one.status for one in list_runs(tmp_path)}
    assert listing == {"done": "finished", "going": "running", "holiday-pictures": "no run"}


def test_what_continues_a_run_is_said_so_that_it_works(tmp_path, write_run, edit_config):
    folder = write_run(tmp_path / "going", finished=False)
    assert unfinished(open_run(tmp_path, "going")).endswith("fedpdc resume going")
    edit_config(folder, lambda config: config["data"].update(sites_folder="../hospitals"))
    assert unfinished(open_run(tmp_path, "going")).endswith("fedpdc resume going --sites FOLDER")
    write_run(tmp_path / "across", finished=False, kind=FederationRun)
    assert unfinished(open_run(tmp_path, "across")).endswith("fedpdc federation run")


def test_a_folder_that_is_not_there_lists_nothing(tmp_path):
    assert list_runs(tmp_path / "nowhere") == []


def test_an_empty_folder_and_a_foreign_one_are_said_to_hold_no_run(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.jpg").write_text("x", encoding="utf-8")
    assert "empty is empty" in sentence_of(tmp_path, "empty")
    assert "no config.toml" in sentence_of(tmp_path, "pictures")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind = ", "cannot be read"),
        ("[tool.ruff]\nline-length = 120\n", "it names no format and this version reads format 1 only"),
        ('kind = "simulation"\nclasses = ["a", "b"]\n[method]\nname = "fedpdc"\n', "it names no format"),
        (
            'format = 2\n[made_with]\nfedpdc_med = "0.3.0"\n',
            "it has format 2, written by fedpdc_med 0.3.0, and this version reads format 1",
        ),
        ("format = 1\n", "kind"),
    ],
)
def test_a_config_of_something_else_is_named(tmp_path, text, said):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.toml").write_text(text, encoding="utf-8")
    assert said in sentence_of(tmp_path, "other")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda config: config["plan"].update(classes=["a"]), "plan.classes"),
        (lambda config: config["plan"].update(classes=["a", "a"]), "names a class twice"),
        (lambda config: config["plan"].update(rounds=0), "plan.rounds"),
        (lambda config: config.update(sites=3), "sites"),
        (lambda config: config.update(kind="survey"), "kind|survey"),
        (lambda config: config.pop("reference"), "reference: field required"),
        (lambda config: config.update(colour="red"), "colour"),
    ],
)
def test_a_config_with_something_wrong_says_what(tmp_path, write_run, edit_config, change, said):
    edit_config(write_run(tmp_path / "other"), change)
    assert re.search(said, sentence_of(tmp_path, "other"))


def test_a_config_that_is_no_text_is_named(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.toml").write_bytes(b"\xff\xfe\x00")
    assert "config.toml of other cannot be read" in sentence_of(tmp_path, "other")


def test_a_half_written_last_round_is_passed_over(tmp_path, write_run):
    folder = write_run(tmp_path / "going", finished=False, rounds=2)
    with (folder / "rounds.jsonl").open("a", encoding="utf-8") as lines:
        lines.write('{"round": 3, "sec')
    assert len(open_run(tmp_path, "going").rounds) == 2


@pytest.mark.parametrize(
    "line", ["not json", "[]", '{"round": 1}', '{"round": "one", "sites": {}}', '{"round": 1, "sites": {}}']
)
def test_a_damaged_round_is_named_by_its_line(tmp_path, write_run, line):
    folder = write_run(tmp_path / "a")
    good = (folder / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "rounds.jsonl").write_text("\n".join([good[0], line, *good[1:]]) + "\n", encoding="utf-8")
    assert "line 2" in sentence_of(tmp_path, "a")


def test_damaged_predictions_are_said_to_be_damaged(tmp_path, write_run):
    folder = write_run(tmp_path / "a")
    whole = (folder / "predictions.parquet").read_bytes()
    (folder / "predictions.parquet").write_bytes(whole[: len(whole) // 2])
    assert "predictions.parquet of a is corrupt" in sentence_of(tmp_path, "a")


def test_predictions_of_another_run_are_refused(tmp_path, write_run):
    folder = write_run(tmp_path / "a")
    frame = pd.read_parquet(folder / "predictions.parquet")
    frame.rename(columns={"p:normal": "p:healthy"}).assign(label="healthy").to_parquet(folder / "predictions.parquet")
    assert "different classes" in sentence_of(tmp_path, "a")


@pytest.mark.parametrize("name", ["../secret", "/etc", "..", ".", "", "a/../../secret", "nothing"])
def test_a_name_that_is_not_in_the_listing_never_becomes_a_path(tmp_path, write_run, name):
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "secret")
    assert "no such run" in sentence_of(tmp_path / "runs", name)


def test_a_link_that_leaves_the_runs_folder_is_not_listed(tmp_path, write_run):
    write_run(tmp_path / "secret")
    write_run(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "runs" / "within").symlink_to(tmp_path / "runs" / "a")
    assert [one.name for one in list_runs(tmp_path / "runs")] == ["a", "within"]
    assert "no such run" in sentence_of(tmp_path / "runs", "out")


@pytest.mark.parametrize("name", ["config.toml", "rounds.jsonl", "predictions.parquet", "model.safetensors"])
@pytest.mark.parametrize("target", ["secret", "/dev/zero", "pipe"])
def test_a_run_with_links_or_pipes_in_it_is_refused_in_words(tmp_path, write_run, name, target):
    secret = write_run(tmp_path / "secret") / name
    file = write_run(tmp_path / "runs" / "a") / name
    write_run(tmp_path / "runs" / "b")
    file.unlink()
    if target == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(secret if target == "secret" else target)
    what = "not an ordinary file" if target == "pipe" else "a link"
    assert f"{name} in the folder a is {what}" in sentence_of(tmp_path / "runs", "a")
    assert first_shown(tmp_path / "runs", list_runs(tmp_path / "runs")) == "b"


def test_a_run_that_is_nested_without_end_is_a_sentence_and_the_others_are_shown(tmp_path, write_run):
    write_run(tmp_path / "good", method="fedavg")  # nothing but a comparison: all configurations are looked at
    (write_run(tmp_path / "deep") / "config.toml").write_text("a = " + "[" * 5000, encoding="utf-8")
    (write_run(tmp_path / "long") / "rounds.jsonl").write_text("[" * 100_000 + "\n{}\n", encoding="utf-8")
    assert "config.toml of deep cannot be read" in sentence_of(tmp_path, "deep")
    assert "rounds.jsonl of long is corrupt in line 1" in sentence_of(tmp_path, "long")
    assert [one.name for one in list_runs(tmp_path)] == ["deep", "good", "long"]
    assert first_shown(tmp_path, list_runs(tmp_path)) == "long"


def test_the_cache_key_changes_with_every_file_and_only_then(tmp_path, write_run):
    folder = write_run(tmp_path / "a")
    marks = [open_run(tmp_path, "a").cache_key]
    assert open_run(tmp_path, "a").cache_key == marks[0]
    for name in ("config.toml", "rounds.jsonl", "predictions.parquet", "model.safetensors"):
        os.utime(folder / name, ns=(1, 1))
        marks.append(open_run(tmp_path, "a").cache_key)
    assert len(set(marks)) == 5


# ---- which run is shown first, and which one trained each site alone


def shown_first(root):
    return first_shown(root, list_runs(root))


def test_comparisons_made_after_a_run_do_not_come_before_it(tmp_path, write_run):
    write_run(tmp_path / "older", method="fedpdc-ce")
    write_run(tmp_path / "main", method="fedpdc-ce")
    for method in ("fedavg", "fedprox", "solo"):
        write_run(tmp_path / method, method=method)
    assert shown_first(tmp_path) == "main"


def test_a_benchmark_an_unfinished_or_a_damaged_run_does_not_come_before_a_finished_one(tmp_path, write_run):
    write_run(tmp_path / "main")
    write_run(tmp_path / "benchmark", kind=BenchmarkRun)
    write_run(tmp_path / "running", finished=False)
    (write_run(tmp_path / "damaged") / "config.toml").write_text("kind =", encoding="utf-8")
    assert shown_first(tmp_path) == "main"


def test_where_there_are_only_comparisons_the_newest_is_shown(tmp_path, write_run):
    write_run(tmp_path / "b", method="solo", share=False)
    write_run(tmp_path / "a", method="fedavg")
    (tmp_path / "empty").mkdir()
    assert shown_first(tmp_path) == "a"


def test_own_models_are_found_in_a_solo_run_on_the_same_films_only(tmp_path, write_run):
    write_run(tmp_path / "together")
    write_run(tmp_path / "alone-of-seed-1", method="solo", share=False, seed=1)
    assert solo_beside(open_run(tmp_path, "together")) is None
    write_run(tmp_path / "alone", method="solo", share=False)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.toml").write_text("kind =", encoding="utf-8")
    assert solo_beside(open_run(tmp_path, "together")) == "alone"
