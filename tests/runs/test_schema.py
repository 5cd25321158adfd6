"""What the lines of a run say."""

import json
import tomllib

from fedpdc_med.runs.directory import read_run
from fedpdc_med.runs.schema import Round, SiteRound


def entries(told, where=""):
    """The path of every value; sites and classes are counted as one."""
    if not isinstance(told, dict):
        return {where}
    by_name = where.endswith(("sites", "recall", "training_films", "splits", "splits.*", "fingerprints"))
    return {one for key, value in told.items() for one in entries(value, f"{where}.{'*' if by_name else key}")}


def written(folder):
    run = read_run(folder)
    lines = run.rounds_file.read_text(encoding="utf-8").splitlines()
    config = tomllib.loads(run.config_file.read_text(encoding="utf-8"))
    about = [name for name in run.predictions.columns if not name.startswith("p:")]
    return entries(config), [entries(json.loads(line)) for line in lines], about


def test_a_run_that_is_written_for_tests_has_the_entries_of_a_real_one(simulated, write_run, tmp_path):
    made = write_run(tmp_path / "made", method="fedavg", rounds=1, planned=1)
    assert written(made) == written(simulated / "runs" / "tiny")


def test_a_round_is_told_by_its_accuracy_its_time_and_who_was_left_out():
    sites = {name: SiteRound(status=status) for name, status in {"a": "ok", "b": "failed", "c": "absent"}.items()}
    record = Round(round=1, accuracy=0.8125, seconds=1.26, recall={}, sites=sites)
    assert record.in_short() == "accuracy 0.812, 1.3 s/round, not used: b"
    assert record.model_copy(update={"sites": {}}).in_short() == "accuracy 0.812, 1.3 s/round"
