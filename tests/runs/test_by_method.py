"""Which run is shown first, and which one trained each site alone."""

import tomllib

import tomli_w

from fedpdc_med.runs.by_method import first_shown, solo_beside
from fedpdc_med.runs.listing import list_runs, open_run


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
    benchmark = write_run(tmp_path / "benchmark") / "config.toml"
    benchmark.write_text(tomli_w.dumps(tomllib.loads(benchmark.read_text()) | {"kind": "benchmark"}))
    write_run(tmp_path / "running", finished=False)
    (write_run(tmp_path / "damaged") / "config.toml").write_text("kind =")
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
    (tmp_path / "broken" / "config.toml").write_text("kind =")
    assert solo_beside(open_run(tmp_path, "together")) == "alone"
