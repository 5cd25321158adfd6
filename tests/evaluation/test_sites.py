import numpy as np
import pandas as pd
import pytest

from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.evaluation.sites import before_and_after, headline, recall_drop, site_by_class, untaught_classes
from fedpdc_med.runs.predictions import select
from fedpdc_med.runs.schema import SiteSummary


def test_matrix_has_every_site_and_class_with_counts(frame_of):
    labels = ["normal", "normal", "covid-19", "normal"]
    called = ["normal", "covid-19", "covid-19", "normal"]
    table = site_by_class(frame_of(labels, called, site=["b", "b", "b", "a"])).set_index(["site", "class"])
    assert len(table) == 6
    assert table.loc[("b", "normal"), ["correct", "total"]].tolist() == [1, 2]
    assert table.loc[("b", "covid-19"), ["correct", "total"]].tolist() == [1, 1]
    assert table.loc[("a", "covid-19"), "note"] == "not estimable: no films of this class"
    assert table.index.get_level_values("site").tolist() == ["a"] * 3 + ["b"] * 3


def test_each_row_of_the_matrix_is_the_recall_of_that_site_alone(random_frame):
    frame = random_frame(300, films_of_a_patient=2, sites=3)
    matrix = site_by_class(frame).set_index("class")
    for site in ("site-00", "site-02"):
        alone = per_class_recall(select(frame, site=site)).set_index("class")
        pd.testing.assert_frame_equal(matrix[matrix["site"] == site].loc[alone.index].drop(columns="site"), alone)


def test_no_films_make_an_empty_matrix(frame_of):
    table = site_by_class(frame_of([], []))
    assert len(table) == 0 and {"site", "class", "recall"} <= set(table.columns)


def two_models(frame_of, own_films):
    """Site a: its own model gets 1 of 3 normals right, the global one 2 of 3; it also met a film of site b."""
    shared = {"split": "local", "site": ["a", "a", "a", "b"], "film": ["1", "2", "3", "1"]}
    after = frame_of(["normal"] * 4, ["normal", "normal", "covid-19", "covid-19"], **shared)
    before = frame_of(["normal"] * 4, ["normal", "covid-19", "covid-19", "normal"], model="a", **shared)
    return pd.concat([after, before[before["film"].isin(own_films)]], ignore_index=True)


def test_own_and_global_model_are_compared_on_the_sites_own_films(frame_of):
    table = before_and_after(two_models(frame_of, ["1", "2", "3"])).set_index("class")
    assert table["site"].unique().tolist() == ["a"]
    assert table.loc["normal", ["own_correct", "global_correct", "total"]].tolist() == [1, 2, 3]
    assert table.loc["normal", "change"] == pytest.approx(1 / 3)
    assert table.loc["covid-19", "total"] == 0 and np.isnan(table.loc["covid-19", "own"])


def test_films_that_only_one_model_has_seen_are_left_out(frame_of):
    table = before_and_after(two_models(frame_of, ["1", "2"])).set_index("class")
    assert table.loc["normal", ["own_correct", "global_correct", "total"]].tolist() == [1, 2, 2]


def test_films_without_a_name_are_not_matched_with_each_other(frame_of):
    assert len(before_and_after(two_models(frame_of, ["1", "2", "3"]).assign(film=""))) == 0


def test_on_the_holdout_a_sites_model_meets_the_reference_films(frame_of):
    frame = pd.concat(
        [frame_of(["normal"] * 2, ["normal"] * 2), frame_of(["normal"] * 2, ["normal", "covid-19"], model="a")]
    )
    row = before_and_after(frame, "holdout").set_index("class").loc["normal"]
    assert (row["site"], row["own"], row["global"]) == ("a", 0.5, 1.0)


def test_a_run_without_site_models_has_no_before(frame_of):
    assert len(before_and_after(frame_of(["normal"], ["normal"], split="local"))) == 0


def test_drop_of_56_of_70_to_48_of_80_has_newcombes_interval(frame_of):
    inside = frame_of(["normal"] * 70, ["normal"] * 56 + ["covid-19"] * 14)
    outside = frame_of(["normal"] * 80, ["normal"] * 48 + ["covid-19"] * 32, split="external", site="far")
    drop = recall_drop(inside, outside)
    row = drop.by_class.set_index("class").loc["normal"]
    assert row[["drop", "low", "high"]].tolist() == pytest.approx([0.2, 0.0524, 0.3339], abs=5e-5)
    assert (drop.macro.value, drop.macro.low, drop.macro.high) == pytest.approx(tuple(row[["drop", "low", "high"]]))
    assert drop.macro.note == "without pneumonia, COVID-19: no films in one of the two"


def test_macro_drop_compares_only_classes_that_both_have(frame_of):
    inside = frame_of(["normal"] * 10 + ["covid-19"] * 10, ["normal"] * 15 + ["covid-19"] * 5)
    outside = frame_of(["normal"] * 10, ["normal"] * 9 + ["covid-19"], split="external")
    drop = recall_drop(inside, outside)
    assert drop.macro.value == pytest.approx(0.1)  # 1.0 to 0.9; COVID-19 (0.5 inside, no films outside) has no say
    assert drop.by_class.set_index("class").loc["covid-19", "note"] == "not estimable: no films outside"
    assert drop.by_class.set_index("class").loc["pneumonia", "note"] == "not estimable: no films inside and outside"


def test_headline_names_the_worst_class_and_the_outside_site_that_falls_most(frame_of):
    inside = frame_of(["normal"] * 10 + ["covid-19"] * 10, ["normal"] * 10 + ["covid-19"] * 8 + ["normal"] * 2)
    outside = frame_of(
        ["normal"] * 20, ["normal"] * 15 + ["covid-19"] * 5, split="external", site=["near"] * 10 + ["far"] * 10
    )
    numbers = headline(pd.concat([inside, outside]))
    assert (numbers.split, numbers.worst.name, numbers.worst.correct, numbers.worst.total) == (
        "holdout",
        "covid-19",
        8,
        10,
    )
    assert numbers.macro.value == pytest.approx(0.9)
    assert numbers.outside == "far" and numbers.drop is not None
    assert numbers.drop.macro.value == pytest.approx(0.5)


def test_headline_drop_is_the_one_of_recall_drop(random_frame):
    inside, outside = random_frame(300, 2), random_frame(200, 2, seed=1).assign(split="external", site="far")
    frame = pd.concat([inside, outside])
    drop = headline(frame).drop
    assert drop is not None and drop.macro == recall_drop(inside, outside).macro


def test_headline_without_an_outside_site(frame_of):
    numbers = headline(frame_of(["normal"] * 4, ["normal"] * 4))
    assert numbers.drop is None and numbers.outside == ""


def test_headline_of_another_model_and_split_is_of_those_films_alone(frame_of):
    of_global = frame_of(["normal"] * 4, ["normal"] * 4)
    own = frame_of(["normal"] * 4, ["normal", "normal", "normal", "covid-19"], model="a", split="local", site="a")
    numbers = headline(pd.concat([of_global, own]), model="a", split="local")
    assert (numbers.split, numbers.worst.correct, numbers.worst.total) == ("local", 3, 4)


def test_a_class_that_no_hospital_has_films_of_is_told():
    outside = SiteSummary(takes_part=False)
    sites = {"a": SiteSummary(training_films={"normal": 3, "covid-19": 0}), "outside": outside}
    classes = ["normal", "covid-19", "tuberculosis"]
    assert untaught_classes(sites, classes) == ["covid-19", "tuberculosis"]
    silent = SiteSummary()  # may have had every class
    assert untaught_classes({**sites, "silent": silent}, classes) == []
