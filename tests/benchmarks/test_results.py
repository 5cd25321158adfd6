"""Results of runs: kept, read back, and set beside the paper's numbers."""

import json
from pathlib import Path

import pytest

from fedpdc_med.benchmarks.catalogue import CATALOGUE, make_experiment
from fedpdc_med.benchmarks.figures import curves, draw
from fedpdc_med.benchmarks.figures import rounds_to_reach as rounds_figure
from fedpdc_med.benchmarks.results import KeptResult, collect, command_of, keep, result_of, run_name, runs_at
from fedpdc_med.benchmarks.run import start
from fedpdc_med.benchmarks.tables import (
    MeasuredCost,
    by_score,
    chosen,
    described_scores,
    framed,
    markdown,
    read_cost,
    rounds_to_reach,
    table,
    with_a_choice,
)
from fedpdc_med.common.errors import UserError
from fedpdc_med.methods import config_of, make_method
from fedpdc_med.runs.directory import create_run
from fedpdc_med.runs.schema import BenchmarkRun, ImageSource

WORDS = {"soft-accuracy": "correction", "learned": "weighting"}


def method(label):
    """The method of that label, as in `fedpdc soft-accuracy strength=3`."""
    name, *words = label.split()
    return config_of(make_method(name, **dict(w.split("=") if "=" in w else (WORDS[w], w) for w in words)))


def result(label="fedavg", seed=0, curve=(10.0, 20.0, 30.0), **more):
    fields = {
        "name": f"{label}-{seed}",
        "experiment": "cifar10-cnn-b0.1",
        "method": method(label),
        "preset": "quick",
        "seed": seed,
        "changed": {},
        "rounds": len(curve),
        "accuracy": curve[-1],
        "worst_recall": 0.0,
        "score": 25.0,
        "accuracy_by_round": list(curve),
        "worst_recall_by_round": [0.0] * len(curve),
        "seconds_per_round": 1.0,
        "bytes_per_round": 2_000_000,
        "less_than_paper": "20 of 100 rounds",
        "command": f"fedpdc benchmark run cifar10-cnn-b0.1 --method {label} --seed {seed}",
        "made_with": {"fedpdc_med": "0.1.0"},
        "git_commit": None,
        "data": ImageSource(name="cifar10", fingerprint="abcdefgh1234"),
        **more,
    }
    return KeptResult(**fields)


def costs(**seconds):
    return [
        MeasuredCost(method=method(label), seconds_of_fedavg=each, all_ratios=[each], bytes_per_round=1)
        for label, each in seconds.items()
    ]


def row_of(rows, method):
    return rows[rows["method"] == method].iloc[0]


def test_the_table_has_mean_spread_and_the_difference_to_the_paper():
    row = table([result(seed=0, curve=(30.0,)), result(seed=1, curve=(34.0,))]).iloc[0]
    assert (row["accuracy"], row["seeds"], row["paper"]) == (32.0, 2, 62.1)
    assert row["spread"] == pytest.approx(2 * 2**0.5)
    assert row["difference"] == pytest.approx(32.0 - 62.1)


def test_the_gain_over_fedavg_is_counted_seed_by_seed():
    rows = table(
        [
            result(seed=0, curve=(30.0,)),
            result(seed=1, curve=(40.0,)),
            result("moon", seed=0, curve=(33.0,)),  # + 3
            result("moon", seed=1, curve=(41.0,)),  # + 1
            result("moon", seed=2, curve=(90.0,)),  # no FedAvg with that seed
        ]
    )
    moon, fedavg = row_of(rows, "moon"), row_of(rows, "fedavg")
    assert moon["over_fedavg"] == pytest.approx(2.0)
    assert moon["over_fedavg_spread"] == pytest.approx(2**0.5)
    assert fedavg[["over_fedavg", "over_fedavg_spread"]].isna().all()


def test_a_seed_without_fedavg_counts_neither_for_nor_against_a_method():
    rows = table(
        [
            *(result(seed=seed) for seed in (0, 1)),  # 30 in the end
            *(result("moon", seed=seed, curve=(1.0, 33.0)) for seed in (0, 1, 2)),
            *(result("abavg", seed=seed, curve=(1.0, 30.0 + seed)) for seed in (1, 2)),
            *(result("fedprox", seed=seed, curve=(31.0 - 2 * seed,)) for seed in (0, 1, 2)),  # only seed 0 gets there
        ]
    )
    moon = row_of(rows, "moon")
    assert (moon["seeds"], moon["compared"], moon["seeds_that_reached"], moon["to_reach_fedavg"]) == (3, 2, 2, 2)
    text = markdown(rows)
    assert "| moon | 33.0±0.0 | 3a | +3.0±0.0 (2) | 0.0 | 25.0 | 2/37 |" in text
    assert "| 2a | +1.0 (1) | 0.0 | 25.0 | 2 |" in text
    assert "| 3a | +0.0±1.4 (2) | 0.0 | 25.0 | 1 of 2 |" in text
    assert "(n): gain and reach use only the n seeds for which FedAvg was run too." in text
    assert "(n)" not in markdown(table([result(), result("moon")]))
    labels = {text.get_text() for text in rounds_figure(rows, "").axes[0].texts}
    assert labels == {"3", "2", "2, one seed", "in 1 of 2 seeds"}


def test_the_tables_as_markdown_have_a_row_a_method():
    rows = table([result(curve=(30.0,)), result("moon", curve=(33.0,))])
    lines = markdown(rows).splitlines()
    assert lines[2].startswith("| method | accuracy | runs | gain |")
    assert lines[4].startswith("| moon | 33.0 | 1a | +3.0 |")
    assert lines[5].startswith("| fedavg | 30.0 | 1a |  |")
    assert "Reduced relative to the paper: a: 20 of 100 rounds." in lines


def test_each_row_says_in_what_it_is_less_than_the_paper():
    rows = table([result(), result("solo", less_than_paper="20 of 30 rounds"), result("moon", less_than_paper="")])
    text = markdown(rows)
    assert "Reduced relative to the paper: a: 20 of 100 rounds; b: 20 of 30 rounds." in text
    cells = ("fedavg | 30.0 | 1a", "solo | 30.0 | 1b", "moon | 30.0 | 1")
    assert all(f"| {cell} |" in text for cell in cells)


def test_who_never_reached_fedavg_is_told_from_who_was_not_compared():
    rows = table([result(), result("abavg", curve=(1.0, 2.0, 29.0)), result("moon", seed=1, curve=(1.0, 2.0, 29.0))])
    cells = {line.split(" | ")[0]: line for line in markdown(rows).splitlines() if line.startswith("| ")}
    assert "| never |" in cells["| abavg"] and "never" not in cells["| moon"]


def test_the_time_of_a_round_stands_beside_the_accuracy(tmp_path):
    (tmp_path / "cost.json").write_text(json.dumps([one.model_dump() for one in costs(fedprox=1.14)]), encoding="utf-8")
    cost = read_cost(tmp_path / "cost.json")
    rows = table([result(), result("fedprox mu=0.1"), result("moon")], cost)
    assert [row_of(rows, method)["time"] for method in ("fedavg", "fedprox mu=0.1")] == [1.0, 1.14]
    assert row_of(rows, "moon")[["time"]].isna().all()
    assert "| time |" in markdown(rows) and "| time |" not in markdown(table([result()]))


@pytest.mark.parametrize("text", [None, "{", "[1]", json.dumps([{"method": "moon"}])])
def test_a_file_without_costs_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "cost.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"cost\.json was not written by: fedpdc benchmark cost --keep"):
        read_cost(tmp_path / "cost.json")


def test_a_variant_of_ours_has_no_number_of_the_papers():
    row = row_of(table([result(), result("fedpdc soft-accuracy")]), "fedpdc soft-accuracy")
    assert row[["paper", "difference", "paper_to_reach"]].isna().all()


def test_a_tuned_number_does_not_make_a_variant_of_ours():
    assert row_of(table([result("fedprox mu=0.1")]), "fedprox mu=0.1")["paper"] == 62.9


def test_the_setting_that_scored_best_is_chosen_whatever_the_test_images_say():
    runs = [
        result("fedprox", score=30.0, curve=(50.0,)),
        result("fedprox mu=1", score=40.0, curve=(10.0,)),
        result("fedprox mu=1", seed=1, score=0.0),  # only one of the two ran with seed 1: it does not count
        result("moon", score=35.0),
        result("solo", score=None),
    ]
    assert [(one.label, one.seed) for one in chosen(runs)] == [
        ("fedprox mu=1", 0),
        ("fedprox mu=1", 1),
        ("moon", 0),
        ("solo", 0),
    ]


def test_settings_are_chosen_apart_for_each_task_and_each_kind_of_method():
    runs = [
        result("fedpdc soft-accuracy strength=3", score=30.0),
        result("fedpdc", score=20.0),
        result("fedpdc soft-accuracy", score=10.0, changed={"tau": 0.3}),
    ]
    assert by_score(runs)["best"].all()


def test_choosing_shows_no_test_accuracy():
    runs = [result("moon", score=31.0, curve=(77.7,)), result("moon mu=1", score=32.0, curve=(88.8,))]
    (section,) = described_scores(with_a_choice(by_score(runs)))
    shown = section.tables[0].frame
    assert shown["setting"].tolist() == ["moon mu=1", "moon (default)"]
    assert shown.to_numpy().tolist() == [["moon mu=1", "32.0", "0", "best"], ["moon (default)", "31.0", "0", ""]]


def test_rounds_to_reach_is_the_first_round_with_that_accuracy():
    assert rounds_to_reach([10, 20, 30, 25], 20) == 2
    assert rounds_to_reach([10, 20], 20.1) is None


def test_rounds_to_reach_fedavg_are_those_of_the_same_seed():
    rows = table(
        [
            result(seed=0, curve=(10.0, 20.0, 30.0)),
            result(seed=1, curve=(10.0, 20.0, 22.0)),
            result("moon", seed=0, curve=(30.0, 5.0, 5.0)),  # reaches 30 in round 1
            result("moon", seed=1, curve=(5.0, 5.0, 40.0)),  # reaches 22 in round 3
            result("abavg", seed=0, curve=(1.0, 2.0, 29.0)),  # never reaches 30
        ]
    )
    assert row_of(rows, "fedavg")["to_reach_fedavg"] == 3
    assert row_of(rows, "moon")["to_reach_fedavg"] == 2
    assert row_of(rows, "abavg")[["to_reach_fedavg"]].isna().all()
    assert row_of(rows, "moon")["paper_to_reach"] == 37


def test_runs_with_a_changed_setting_stand_in_a_table_of_their_own():
    rows = table([result(), result("moon", changed={"tau": 0.3})])
    assert sorted(rows["changed"]) == ["", "tau=0.3"]
    assert row_of(rows, "moon")[["to_reach_fedavg"]].isna().all()  # no FedAvg with that tau


def test_kept_results_are_read_back_and_count_once(tmp_path):
    kept = [result(), result("moon")]
    keep(kept, tmp_path)
    assert sorted(collect([tmp_path, tmp_path / "moon-0.json"]), key=str) == sorted(kept, key=str)


def test_a_rerun_with_other_numbers_is_told(tmp_path):
    keep([result()], tmp_path / "kept")
    keep([result(curve=(10.0, 20.0, 31.0))], tmp_path / "mine")
    told = []
    assert [one.accuracy for one in collect([tmp_path / "kept", tmp_path / "mine"], told.append)] == [30.0]
    assert told == ["fedavg-0 was found twice with different results (30.00 and 31.00 %); the first one is shown."]
    assert collect([tmp_path / "kept", tmp_path / "kept"], told.append) and len(told) == 1


def test_runs_on_other_images_stand_in_a_table_of_their_own_without_the_papers_numbers(tmp_path):
    usual, other = (ImageSource(name="cifar10", fingerprint=mark) for mark in ("abcdefgh1234", "12345678abcd"))
    runs = [result(seed=seed, data=usual) for seed in (0, 1)] + [result(data=other, curve=(90.0,))]
    keep(runs[:2], tmp_path / "kept")
    keep(runs[2:], tmp_path / "mine")
    rows = table(collect([tmp_path / "kept", tmp_path / "mine"]))
    assert list(zip(rows["changed"], rows["accuracy"], rows["seeds"], strict=True)) == [
        ("", 30.0, 2),
        ("images of=12345678", 90.0, 1),
    ]
    assert rows["paper"].notna().tolist() == [True, False]


@pytest.mark.parametrize(("changed", "same"), [({"rounds": 2}, True), ({"beta": 100.0}, False), ({"sites": 2}, False)])
def test_another_task_has_no_number_in_the_paper(changed, same):
    row = table([result(changed=changed)]).iloc[0]
    assert row[["paper", "paper_to_reach"]].notna().tolist() == [same, same]


def test_the_time_of_other_epochs_is_not_guessed():
    cost = costs(**{"server-finetune": 1.01, "moon": 1.7})
    rows = table([result(), result("server-finetune server_epochs=3"), result("moon mu=1")], cost)
    assert row_of(rows, "moon mu=1")["time"] == 1.7
    assert row_of(rows, "server-finetune server_epochs=3")[["time"]].isna().all()


def test_the_time_of_another_strength_of_fedpdc_ce_is_not_guessed():
    measured = {"fedpdc-ce": 1.24, "fedpdc-ce strength=1": 1.71, "fedpdc-ce learned": 1.46}
    cost = costs(**measured, **{"fedpdc soft-accuracy": 1.63})
    unknown = ["fedpdc-ce strength=0.3", "fedpdc-ce strength=1 learned"]  # with public minibatches of full size
    known = {"fedpdc-ce": 1.24, "fedpdc-ce strength=1": 1.71, "fedpdc soft-accuracy strength=3": 1.63}
    rows = table([result(label) for label in [*known, *unknown]], cost)
    assert {label: row_of(rows, label)["time"] for label in known} == known
    assert all(row_of(rows, label)[["time"]].isna().all() for label in unknown)


def test_changes_of_ones_own_experiment_file_tell_its_runs_apart(tmp_path):
    own = tmp_path / "mine.toml"
    own.write_text((CATALOGUE / "digits.toml").read_text(encoding="utf-8"), encoding="utf-8")
    plain, changed = (make_experiment(str(own), "quick", "fedavg", **more) for more in ({}, {"beta": 0.9, "rounds": 2}))
    fedavg = make_method("fedavg")
    assert run_name(plain, fedavg) == "mine-fedavg-quick-seed0"
    assert run_name(changed, fedavg) == "mine-fedavg-beta=0.9-rounds=2-quick-seed0"
    assert command_of(changed, fedavg).startswith("fedpdc benchmark run mine.toml --method fedavg --preset quick")


def test_an_unfinished_run_says_how_to_go_on(tmp_path, run_config):
    run = create_run(tmp_path / "run", run_config(["a", "b"], kind=BenchmarkRun))
    with pytest.raises(UserError, match="is not finished; continue it with: fedpdc resume"):
        result_of(run)


@pytest.mark.parametrize("key", sorted(result().model_fields_set))
def test_a_kept_result_that_lacks_something_is_named(tmp_path, key):
    keep([result()], tmp_path)
    (file,) = tmp_path.iterdir()
    table = json.loads(file.read_text(encoding="utf-8"))
    del table[key]
    file.write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(UserError, match=rf"json is not a kept result: {key}: field required"):
        collect([tmp_path])


def test_the_kept_results_of_the_documents_give_the_numbers_that_stand_there():
    docs = Path(__file__).parents[2] / "docs"
    assert collect([docs / "results" / "search"])
    rows = table(collect([docs / "results"]))
    of_the_table = (rows[["experiment", "preset", "changed"]] == ["cifar10-cnn-b0.1", "quick", ""]).all(axis=1)
    said = (docs / "reproduction.md").read_text(encoding="utf-8").replace("\N{MINUS SIGN}", "-")
    for row in rows[of_the_table].to_dict("records"):
        gain = "" if row["method"] == "fedavg" else f"{row['over_fedavg']:+.1f} ± {row['over_fedavg_spread']:.1f} "
        assert f"| {row['accuracy']:.1f} ± {row['spread']:.1f} | {gain}|" in said, row["method"]
    assert of_the_table.sum() == 13


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, json.dumps({"experiment": "digits"})])
def test_a_foreign_file_is_named(tmp_path, text):
    (tmp_path / "other.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"other\.json is not a kept result"):
        collect([tmp_path])


def test_what_a_run_calls_itself_never_leads_out_of_the_folder(tmp_path):
    (tmp_path / "kept").mkdir()
    keep([result(name="../outside")], tmp_path / "kept")
    draw([result(preset="/../../outside")], tmp_path / "kept")
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]
    assert len(list((tmp_path / "kept").iterdir())) == 3


def test_a_link_in_a_run_of_a_folder_is_not_copied_into_the_results(tmp_path, run_config):
    run = create_run(tmp_path / "runs" / "a", run_config(["a", "b"], kind=BenchmarkRun))
    run.predictions_file.touch()
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    (run.folder / "label_distribution.png").symlink_to(tmp_path / "thesis.txt")
    with pytest.raises(UserError, match=r"label_distribution\.png in the folder a is a link"):
        runs_at(tmp_path / "runs")


def test_figures_are_drawn_for_each_setting(tmp_path):
    count = draw([result(), result("moon"), result("moon", changed={"tau": 0.3})], tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "cifar10-cnn-b0.1-quick-accuracy-by-round.png",
        "cifar10-cnn-b0.1-quick-rounds-to-reach-fedavg.png",
        "cifar10-cnn-b0.1-quick-tau=0.3-accuracy-by-round.png",
        "cifar10-cnn-b0.1-quick-tau=0.3-worst-recall-by-round.png",
        "cifar10-cnn-b0.1-quick-worst-recall-by-round.png",
    ]
    assert count == 5


def test_a_curve_is_the_mean_of_its_seeds_with_their_range_around_it():
    runs = [result(curve=(10.0, 30.0)), result(seed=1, curve=(20.0, 50.0)), result("moon", curve=(5.0, 25.0))]
    (axes,) = curves(framed(runs), "accuracy_by_round", "Accuracy", "title").axes
    drawn = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}
    assert drawn == {"fedavg (40.0, 2 seeds)": ([1, 2], [15, 40]), "moon (25.0)": ([1, 2], [5, 25])}
    assert [{tuple(point) for point in path.vertices} for path in axes.collections[0].get_paths()] == [
        {(1, 10), (1, 20), (2, 30), (2, 50)}
    ]


def test_the_command_of_a_run_names_every_setting_that_was_changed():
    experiment = make_experiment("cifar10-cnn-b0.1", "quick", "fedpdc", seed=2, tau=0.3)
    method = make_method("fedpdc", correction="soft-accuracy", strength=1)
    assert command_of(experiment, method) == (
        "fedpdc benchmark run cifar10-cnn-b0.1 --method fedpdc --preset quick --seed 2 "
        "--set correction=soft-accuracy --set strength=1.0 --set tau=0.3"
    )
    assert run_name(experiment, method) == "cifar10-cnn-b0.1-fedpdc-soft-accuracy-strength=1-tau=0.3-quick-seed2"


def test_sharing_the_public_images_is_a_way_of_the_method_and_has_no_honest_score(tmp_path):
    experiment = make_experiment("digits", "quick", "data-sharing", rounds=1, public_split="shared")
    run = start(experiment, make_method("data-sharing"), None, False, tmp_path / "run", False, workers=1)
    found = result_of(run)
    assert (found.label, found.changed, found.score) == ("data-sharing shared", {"rounds": 1}, None)
    assert "--set public_split=shared" in found.command
