"""A run directory by itself: what a kill leaves, who may write it, and what a foreign one must not reach."""

import os
import signal
import subprocess
import sys

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import only_writer, replace_text
from fedpdc_med.federation.checkpoint import (
    begin_checkpoint,
    commit,
    finish,
    forget_updates,
    read_progress,
    replace_model,
    roll_back,
)
from fedpdc_med.runs.directory import begin_run, create_run, read_run
from fedpdc_med.runs.schema import Progress, Round

PREDICTIONS = pd.DataFrame({"film": ["film-1"], "p:normal": [0.5]})


def state(value):
    return {"weight": torch.full((3,), float(value))}


def line(t):
    return Round(round=t, seconds=1.0, accuracy=t / 10, recall={}, sites={})


@pytest.fixture(scope="module")
def config(run_config):
    return run_config(["normal", "covid-19"])


@pytest.fixture(scope="module")
def run_after(config):
    """run_after(folder, rounds): a run after so many rounds; the model of round t holds three times t."""

    def made(folder, rounds):
        run = create_run(folder, config)
        for t in range(rounds + 1):
            begin_checkpoint(run, state(t), Progress(round=t, scores={"harbor": t / 10}))
            commit(run, line(t) if t else None)
        return run

    return made


# ---- what a kill leaves


def test_a_whole_line_of_a_round_whose_checkpoint_was_never_in_place_is_rolled_back(tmp_path, run_after):
    run = run_after(tmp_path / "run", rounds=2)
    begin_checkpoint(run, state(3), Progress(round=3))
    with run.rounds_file.open("a", encoding="utf-8") as lines:  # `commit` up to its last step
        lines.write(line(3).line() + "\n")
    again = read_run(run.folder)
    assert [record.round for record in again.rounds] == [1, 2, 3]
    roll_back(again, read_progress(again))
    assert [record.round for record in read_run(run.folder).rounds] == [1, 2]
    assert read_progress(again) == Progress(round=2, scores={"harbor": 0.2})
    assert load_file(again.checkpoint_file)["weight"].tolist() == [2, 2, 2]


def test_a_next_checkpoint_that_was_cut_short_is_written_anew(tmp_path, run_after):
    run = run_after(tmp_path / "run", rounds=1)
    run.next_checkpoint_file.write_bytes(b"half of a che")
    assert read_progress(run).round == 1
    begin_checkpoint(run, state(2), Progress(round=2))
    commit(run, line(2))
    assert read_progress(run).round == 2 and not run.next_checkpoint_file.exists()
    assert load_file(run.checkpoint_file)["weight"].tolist() == [2, 2, 2]


FINISH = """import resource, signal, sys
from pathlib import Path
import pandas as pd
from fedpdc_med.federation.checkpoint import finish
from fedpdc_med.runs.directory import read_run
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the system kills whoever writes more than that into a file
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
finish(read_run(Path(sys.argv[1])), pd.DataFrame({"film": [f"film-{k}" for k in range(5000)]}))
"""


def test_a_kill_in_the_middle_of_the_predictions_leaves_a_run_to_finish(tmp_path, run_after):
    run = run_after(tmp_path / "run", rounds=2)
    done = subprocess.run([sys.executable, "-c", FINISH, str(run.folder)])
    assert done.returncode == -signal.SIGXFSZ
    assert run.model_file.exists() and list(run.folder.glob("*.partial"))  # so it was in the middle
    again = read_run(run.folder)
    assert not again.finished
    finish(again, PREDICTIONS)
    assert again.finished and not list(run.folder.glob("*.partial"))
    assert load_file(run.model_file)["weight"].tolist() == [2, 2, 2]


def test_updates_of_an_open_round_go_and_models_that_sites_keep_stay(tmp_path, run_after):
    run = run_after(tmp_path / "run", rounds=1)
    for name in ("harbor.round1.safetensors", "harbor.round2.safetensors"):
        (run.site_models / name).write_bytes(b"")
    roll_back(run, Progress(round=1, kept={"harbor": "harbor.round1.safetensors"}))
    assert [file.name for file in run.site_models.iterdir()] == ["harbor.round1.safetensors"]


# ---- folders that hold something else


def test_a_folder_with_other_things_is_no_place_for_a_run(tmp_path, config):
    (tmp_path / "holiday.jpg").write_text("a picture", encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="is not empty and contains no run; choose another folder"):
            create_run(tmp_path, config, overwrite)
        with pytest.raises(UserError, match="contains no run"), begin_run(tmp_path, config, overwrite):
            pass
    assert [file.name for file in tmp_path.iterdir()] == ["holiday.jpg"]  # no lock either


def test_a_config_of_another_program_is_not_overwritten(tmp_path, config):
    (tmp_path / "config.toml").write_text('title = "a web site"\n', encoding="utf-8")
    with pytest.raises(UserError, match="does not belong to a run; choose another folder"):
        create_run(tmp_path, config, overwrite=True)
    assert (tmp_path / "config.toml").read_text(encoding="utf-8") == 'title = "a web site"\n'


def test_a_run_that_is_there_is_replaced_only_on_request_and_decisions_stay(tmp_path, run_after, config):
    run = run_after(tmp_path / "run", rounds=2)
    (run.folder / "review.json").write_text("what reviewers decided", encoding="utf-8")
    with pytest.raises(UserError, match="already contains a run"):
        create_run(run.folder, config)
    create_run(run.folder, config, overwrite=True)
    assert sorted(file.name for file in run.folder.iterdir()) == ["config.toml", "review.json", "site_models"]


@pytest.mark.parametrize(
    "progress",
    [
        None,
        "no json",
        "[" * 100_000,
        '{"round": "one"}',
        '{"round": 1, "scores": [], "kept": {}}',
        '{"round": 1, "scores": {}, "kept": {"harbor": "../../other/model.safetensors"}}',
    ],
)
def test_a_damaged_checkpoint_says_to_start_again(tmp_path, progress, run_after):
    from safetensors.torch import save_file

    run = run_after(tmp_path / "run", rounds=1)
    if progress is None:
        run.checkpoint_file.write_bytes(b"half of a che")
    else:
        save_file(state(1), run.checkpoint_file, {"progress": progress})
    with pytest.raises(UserError, match="is corrupt; start again with --overwrite"):
        read_progress(run)


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = "])
def test_a_config_nested_without_end_is_unreadable_like_any_other(tmp_path, text):
    (tmp_path / "config.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.toml of .* cannot be read"):
        read_run(tmp_path)


def test_a_round_nested_without_end_is_passed_over_like_a_torn_one(tmp_path, run_after):
    run = run_after(tmp_path / "run", rounds=1)
    with run.rounds_file.open("a", encoding="utf-8") as lines:
        lines.write("[" * 100_000)
    assert [record.round for record in run.rounds] == [1]


# ---- two writers

WRITE = """import sys, time
from pathlib import Path
from fedpdc_med.runs.directory import begin_run, read_run
with begin_run(Path(sys.argv[1]), read_run(Path(sys.argv[2])).config):
    print("begun", flush=True)
    time.sleep(600)
"""


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path, run_after, config):
    folder, other = tmp_path / "run", run_after(tmp_path / "other", rounds=0).folder
    command = [sys.executable, "-c", WRITE, str(folder), str(other)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "begun\n"
        for second in (only_writer(folder), begin_run(folder, config, overwrite=True)):
            with pytest.raises(UserError, match="another command is writing the run 'run'"), second:
                pass
        assert read_run(folder).config == config
        first.kill()
    with begin_run(folder, config, overwrite=True) as run:
        assert run.config == config


def test_a_start_that_was_killed_before_it_wrote_anything_can_be_repeated(tmp_path, config):
    (tmp_path / "job.lock").touch()
    with begin_run(tmp_path, config) as run:
        assert run.config == config


# ---- a run that somebody else made

ENTRIES = (
    *("config.toml", "rounds.jsonl", "predictions.parquet", "model.safetensors", "checkpoint.safetensors"),
    *("checkpoint.safetensors.next", "rounds.jsonl.partial", "model.safetensors.partial", "label_distribution.png"),
    *("site_models", "job.lock", "timing.jsonl", "stopped.json", "report.html"),
)


@pytest.fixture
def theirs(tmp_path):
    """What is not the run's: a file and a folder with one."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.txt").write_text("years of work", encoding="utf-8")
    return tmp_path / "theirs"


@pytest.mark.parametrize("name", ENTRIES)
def test_a_link_in_a_run_is_refused_before_anything_is_read_or_written(tmp_path, theirs, name, run_after, config):
    run = run_after(tmp_path / "run", rounds=1)
    entry = run.folder / name
    if name == "site_models":
        entry.rmdir()
        entry.symlink_to(theirs)
    else:
        (entry.rename(theirs / "config.toml") if name == "config.toml" else entry.unlink(missing_ok=True))
        entry.symlink_to(theirs / ("config.toml" if name == "config.toml" else "thesis.txt"))
    before = {file.name: file.read_text(encoding="utf-8") for file in theirs.iterdir()}
    with pytest.raises(UserError, match=rf"^{name} in the folder run is a link"):
        read_run(run.folder)
    with pytest.raises(UserError, match=rf"^{name} in the folder run is a link"):
        create_run(run.folder, config, overwrite=True)
    assert {file.name: file.read_text(encoding="utf-8") for file in theirs.iterdir()} == before


def test_a_link_among_the_updates_is_refused(tmp_path, theirs, run_after):
    run = run_after(tmp_path / "run", rounds=1)
    (run.site_models / "harbor.round2.safetensors").symlink_to(theirs / "thesis.txt")
    with pytest.raises(UserError, match=r"harbor\.round2\.safetensors in the folder site_models is a link"):
        read_run(run.folder)


def test_a_pipe_in_a_run_is_refused_and_not_waited_for(tmp_path, run_after):
    run = run_after(tmp_path / "run", rounds=1)
    run.rounds_file.unlink()
    os.mkfifo(run.rounds_file)
    for read in (lambda: read_run(run.folder), lambda: run.rounds):
        with pytest.raises(UserError, match=r"rounds\.jsonl in the folder run is not an ordinary file"):
            read()


def test_the_folder_of_a_run_may_itself_be_a_link(tmp_path, run_after):
    run = run_after(tmp_path / "run", rounds=1)
    (tmp_path / "known-as").symlink_to(run.folder)
    assert read_progress(read_run(tmp_path / "known-as")).round == 1


def test_a_link_that_appears_after_the_run_was_opened_is_not_written_through(tmp_path, theirs, run_after):
    run = run_after(tmp_path / "run", rounds=1)
    thesis = theirs / "thesis.txt"
    names = ("checkpoint.safetensors.next", "model.safetensors", "config.toml", "predictions.parquet")
    for name in (*names, *(f"{name}.partial" for name in names)):
        (run.folder / name).unlink(missing_ok=True)
        (run.folder / name).symlink_to(thesis)
    begin_checkpoint(run, state(2), Progress(round=2))
    commit(run, line(2))
    finish(run, PREDICTIONS)
    replace_model(run.model_file, state(2))
    replace_text(run.config_file, "")
    assert thesis.read_text(encoding="utf-8") == "years of work"
    assert read_progress(run).round == 2 and run.config_file.read_text(encoding="utf-8") == ""
    run.rounds_file.unlink()
    run.rounds_file.symlink_to(thesis)
    with pytest.raises(UserError, match=r"rounds\.jsonl in the folder run is a link"):
        commit(run, line(3))
    run.site_models.rmdir()
    run.site_models.symlink_to(theirs)
    with pytest.raises(UserError, match="site_models in the folder run is a link"):
        forget_updates(run, Progress())
    assert thesis.read_text(encoding="utf-8") == "years of work"
