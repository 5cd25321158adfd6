"""Pages that read a whole run: overview, recall, who shaped the model, compare."""

import pytest

from fedpdc_med.evaluation.sites import headline
from fedpdc_med.review.html_report import make_report
from fedpdc_med.runs.listing import open_run

OUTSIDE = {"normal": (10, 20), "pneumonia": (8, 20), "covid-19": (9, 20), "tuberculosis": (2, 20)}
MINE = ("overview", "recall", "shaped", "comparison")


def test_overview_shows_the_numbers_that_evaluation_computes(tmp_path, write_run, draw):
    write_run(tmp_path / "a", external=OUTSIDE)
    numbers = headline(open_run(tmp_path, "a").predictions)
    text = draw(tmp_path, "overview").text
    assert (numbers.worst.name, numbers.worst.correct, numbers.worst.total) == ("tuberculosis", 5, 20)
    assert "### :red[0.25]" in text and "5 of 20 films classified correctly" in text
    assert "95% CI 0.11 to 0.47" in text  # Wilson, 5 of 20
    assert numbers.macro.value == pytest.approx((19 + 16 + 18 + 5) / 80)
    assert f"### {numbers.macro.value:.2f}" in text
    assert numbers.drop.macro.value == pytest.approx((58 - 29) / 80)
    assert numbers.drop.level == pytest.approx(29 / 80)
    assert "### :red[0.36]" in text and "at island, not used in training" in text
    assert "0.36 lower than on held-out test films" in text


def test_overview_says_what_it_is_for_and_when_not_to_use_it(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    text = draw(tmp_path, "overview").text
    assert "assigns each PA film to one of: normal, pneumonia, COVID-19, tuberculosis" in text
    assert "its reference films are synthetic" in text
    assert "may miss half the time (recall in brackets): tuberculosis (0.25)" in text
    assert "this run has no external site" in text


@pytest.fixture
def rewrite_training_films(edit_config):
    def rewrite(folder, films):
        """films: {site: {class: number}}."""
        edit_config(folder, lambda c: [c["sites"][site].update(training_films=films[site]) for site in films])

    return rewrite


def test_a_class_that_no_hospital_could_train_on_is_a_warning(tmp_path, write_run, draw, rewrite_training_films):
    folder = write_run(tmp_path / "a", external=OUTSIDE)
    assert "no participating site had training films" not in draw(tmp_path, "overview").text
    here, there = {"normal": 9, "covid-19": 3, "tuberculosis": 0}, {"normal": 4, "pneumonia": 1}
    rewrite_training_films(folder, {"harbor": here, "hill": there, "island": {"tuberculosis": 50}})
    warning = "For tuberculosis: no participating site had training films."
    assert warning in draw(tmp_path, "overview").text
    assert warning in make_report(open_run(tmp_path, "a"))


def test_a_hospital_that_does_not_say_what_it_had_may_have_had_every_class(
    tmp_path, write_run, draw, rewrite_training_films
):
    folder = write_run(tmp_path / "a")
    rewrite_training_films(folder, {"harbor": {"normal": 9}, "hill": {}})
    assert "no participating site had training films" not in draw(tmp_path, "overview").text


def test_classes_with_the_same_recall_as_the_worst_are_counted_with_it(tmp_path, write_run, draw):
    write_run(tmp_path / "a", {"normal": (4, 4), "pneumonia": (0, 4), "covid-19": (0, 4), "tuberculosis": (0, 8)})
    write_run(tmp_path / "b", {"normal": (4, 4), "pneumonia": (1, 4), "covid-19": (1, 4), "tuberculosis": (4, 8)})
    text = draw(tmp_path, "overview", run="a", second="b").text
    assert "pneumonia, tied with 2 other classes" in text
    assert "second run: 0.25 (pneumonia, tied with 1 other class)" in text
    assert "pneumonia, tied with 2 other classes" in make_report(open_run(tmp_path, "a"))
    write_run(tmp_path / "c")
    assert "tied" not in draw(tmp_path, "overview", run="c").text


def test_overview_shows_a_second_run_too(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    write_run(
        tmp_path / "b", {"normal": (20, 20), "pneumonia": (20, 20), "covid-19": (18, 20), "tuberculosis": (20, 20)}
    )
    text = draw(tmp_path, "overview", run="a", second="b").text
    assert "second run: 0.90 (COVID-19), 95% CI 0.70 to 0.97" in text


def test_recall_lists_classes_worst_first_with_counts_and_interval(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    table = draw(tmp_path, "recall").table("correct")
    assert table["class"].tolist() == ["tuberculosis", "pneumonia", "COVID-19", "normal"]
    assert table["correct"].tolist() == ["5/20", "16/20", "18/20", "19/20"]
    assert table.loc[2, "95% CI"] == "0.70 to 0.97"
    assert table["note"].unique().tolist() == ["only 20 films"]


def test_the_exact_interval_is_an_option(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    table = draw(tmp_path, "recall", interval="exact").table("correct")
    assert table.loc[2, "95% CI"] == "0.68 to 0.99"  # Clopper-Pearson, 18 of 20
    assert set(table["CI method"]) == {"exact"}


def test_recall_on_the_chosen_films(tmp_path, write_run, draw):
    write_run(tmp_path / "a", external=OUTSIDE)
    assert draw(tmp_path, "recall", split="external").table("correct").loc[0, "correct"] == "2/20"


def test_a_class_without_films_is_not_estimable(tmp_path, write_run, draw):
    write_run(tmp_path / "a", {"normal": (5, 10), "pneumonia": (9, 10), "covid-19": (0, 0)})
    page = draw(tmp_path, "recall")
    last = page.table("correct").iloc[-1]
    assert (last["class"], last["correct"], last["recall"]) == ("COVID-19", "0/0", "not estimable")
    for module in ("overview", "shaped"):
        assert draw(tmp_path, module).errors == []
    assert "For COVID-19: there were no films to test it on" in draw(tmp_path, "overview").text


def test_local_only_models_are_those_of_the_run_or_of_a_solo_run_next_to_it(tmp_path, write_run, draw):
    write_run(tmp_path / "one" / "a")
    assert "no local-only models to compare with" in draw(tmp_path / "one", "recall").text
    write_run(tmp_path / "two" / "a", own=dict.fromkeys(("normal", "pneumonia", "covid-19", "tuberculosis"), (0, 1)))
    for split in ("local", "holdout"):  # the own models have seen local films only, and are shown on these
        text = draw(tmp_path / "two", "recall", split=split).text
        assert "recall of the global model, on local test films. Blue: federated is better" in text
    write_run(tmp_path / "three" / "a")
    write_run(tmp_path / "three" / "solo", method="solo", share=False)
    assert "Blue: federated is better" in draw(tmp_path / "three", "recall", run="a").text


def test_a_run_without_a_global_model_shows_a_sites_own(tmp_path, write_run, draw):
    write_run(tmp_path / "solo", method="solo", share=False)
    for module in MINE:
        assert draw(tmp_path, module).errors == []
    assert "Model: harbor" in draw(tmp_path, "recall").text
    assert "every site trained its own model" in draw(tmp_path, "recall").text


def test_who_shaped_the_model_names_the_absent_and_the_rejected_with_reasons(tmp_path, write_run, draw):
    missing = {(2, "hill"): ("absent", "not sampled"), (3, "hill"): ("rejected", "its training loss is not finite")}
    write_run(tmp_path / "a", missing=missing)
    page = draw(tmp_path, "shaped")
    reasons = page.table("reason").set_index("status")
    assert reasons.loc["rejected", ["site", "reason", "rounds"]].tolist() == [
        "hill",
        "its training loss is not finite",
        "3",
    ]
    weights = page.table("mean weight").set_index("site")
    assert weights.loc["hill", ["rounds used", "mean weight", "FedAvg weight"]].tolist() == ["2 of 4", "0.250", "0.125"]


def test_compare_pairs_films_class_by_class(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    write_run(
        tmp_path / "b", {"normal": (19, 20), "pneumonia": (16, 20), "covid-19": (18, 20), "tuberculosis": (15, 20)}
    )
    page = draw(tmp_path, "comparison", run="a", second="b")
    row = page.table("only second right").set_index("class").loc["tuberculosis"]
    assert row[["first", "second", "difference", "only first right", "only second right"]].tolist() == [
        "0.25",
        "0.75",
        "+0.50",
        "0",
        "10",
    ]
    assert row["p"] == "0.002"  # 2 * 0.5 ** 10
    assert row["Holm-adjusted p"] == "0.008"  # times 4 classes
    assert "Recall is higher for: tuberculosis." in page.text


def test_compare_without_a_second_run_says_how_to_choose_one(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    assert "Choose a second run" in draw(tmp_path, "comparison").text


def test_compare_with_other_classes_is_a_sentence(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", {"cat": (1, 2), "dog": (1, 2)})
    assert "different classes" in draw(tmp_path, "comparison", run="a", second="b").errors[0]


@pytest.mark.parametrize("split", ["holdout", "local"])
def test_what_to_beware_of_does_not_change_with_the_films_that_are_looked_at(tmp_path, write_run, draw, split):
    write_run(tmp_path / "a")
    assert (
        "may miss half the time (recall in brackets): tuberculosis (0.25)"
        in draw(tmp_path, "overview", split=split).text
    )


def test_a_damaged_second_run_takes_nothing_of_the_first_away(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    (write_run(tmp_path / "b") / "predictions.parquet").write_bytes(b"no table")
    page = draw(tmp_path, "overview", run="a", second="b")
    assert "5 of 20 films classified correctly" in page.text
    assert ["predictions.parquet of b is corrupt" in error.replace("\\", "") for error in page.errors] == [True]


def test_what_was_chosen_outlives_a_reload(tmp_path, write_run, draw):
    write_run(tmp_path / "a")
    first = draw(tmp_path, "recall", split="weighting", interval="exact").test
    address = {key: first.query_params[key] for key in ("run", "split", "interval")}
    again = draw(tmp_path, "recall", query=address).test  # a new session
    assert (again.sidebar.selectbox[2].value, again.sidebar.radio[0].value) == ("weighting", "exact")


def test_a_second_run_is_compared_at_the_same_outside_site(tmp_path, write_run, draw, another_outside):
    """The second run does worst at another hospital, which is not what stands beside the first run's."""
    write_run(tmp_path / "a", external=OUTSIDE)
    another_outside(write_run(tmp_path / "b", external=OUTSIDE | {"normal": (18, 20)}), worse=True)
    text = draw(tmp_path, "overview", run="a", second="b").text
    level = headline(open_run(tmp_path, "b").predictions).drops["island"].level
    assert headline(open_run(tmp_path, "b").predictions).outside == "lake"
    assert f"second run at the same site: {level:.2f}" in text and "the worst of" not in text
    text = draw(tmp_path, "overview", run="b", second="a").text
    assert "the worst of 2 external sites" in text and "second run at island: 0.36" in text
