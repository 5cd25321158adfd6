import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import recall_score, roc_curve

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.intervals import wilson
from fedpdc_med.evaluation.operating_points import (
    choose_threshold,
    predictive_by_rest,
    predictive_values,
    threshold_table,
    with_predictive_values,
)


@pytest.fixture
def scored(frame_of):
    """COVID-19 films score 0.9, 0.8, 0.4; the others 0.6, 0.3, 0.2, 0.1."""
    frame = frame_of(
        ["covid-19"] * 3 + ["normal"] * 4, ["normal"] * 7, classes=("normal", "covid-19"), split="weighting"
    )
    scores = np.array([0.9, 0.8, 0.4, 0.6, 0.3, 0.2, 0.1], dtype=np.float32)
    return frame.assign(**{"p:covid-19": scores, "p:normal": 1 - scores})


def test_youdens_threshold_on_paper(scored):
    # at 0.8: 2/3 + 1 = 1.67; at 0.4: 1 + 3/4 = 1.75, the best
    chosen = choose_threshold(scored, "covid-19")
    assert (round(chosen.value, 4), chosen.sensitivity, chosen.specificity) == (0.4, 1, 0.75)
    assert (chosen.positives, chosen.negatives, chosen.note) == (3, 4, "chosen on only 3 films of COVID-19")


def test_a_wanted_sensitivity_takes_the_highest_threshold_that_reaches_it(scored):
    assert choose_threshold(scored, "covid-19", "sensitivity", 0.6).value == pytest.approx(0.8)
    assert choose_threshold(scored, "covid-19", "sensitivity", 0.7).value == pytest.approx(0.4)
    with pytest.raises(UserError, match="wanted sensitivity is 90"):
        choose_threshold(scored, "covid-19", "sensitivity", 90)


def test_youdens_threshold_is_the_best_of_scikit_learns_curve(random_frame):
    frame = random_frame(500).assign(split="weighting")
    chosen = choose_threshold(frame, "covid-19")
    false_rate, rate, _ = roc_curve(frame["label"] == "covid-19", frame["p:covid-19"])
    assert chosen.sensitivity + chosen.specificity - 1 == pytest.approx((rate - false_rate).max())


@pytest.mark.parametrize("split", ["holdout", "external", "test"])
def test_reported_films_may_not_choose(scored, split):
    with pytest.raises(UserError, match=rf"must not be chosen on the reported films \({split}\)"):
        choose_threshold(scored.assign(split=split), "covid-19")


def test_a_useless_score_still_gets_a_finite_threshold(scored):
    flat = scored.assign(**{"p:covid-19": np.float32(0.5)})
    assert choose_threshold(flat, "covid-19").value == 0.5


def test_a_class_without_films_has_no_threshold(scored):
    chosen = choose_threshold(scored[scored["label"] == "normal"], "covid-19")
    assert np.isnan(chosen.value) and chosen.note == "not estimable: no films of COVID-19 for choosing it"


def test_table_counts_on_paper(scored):
    row = threshold_table(scored, "covid-19", [0.5]).iloc[0]
    assert row[["tp", "fn", "fp", "tn"]].tolist() == [2, 1, 1, 3]
    assert (row["sensitivity"], row["specificity"]) == pytest.approx((2 / 3, 0.75))
    assert (row["sensitivity_low"], row["sensitivity_high"]) == pytest.approx(tuple(float(x) for x in wilson(2, 3)))
    assert (row["specificity_low"], row["specificity_high"]) == pytest.approx(tuple(float(x) for x in wilson(3, 4)))


def test_a_film_at_the_threshold_is_called(scored):
    at = float(np.float32(0.8))
    assert threshold_table(scored, "covid-19", [at, at + 1e-6])["tp"].tolist() == [2, 1]


def test_table_agrees_with_scikit_learn_at_every_step(random_frame):
    frame = random_frame(400)
    table = threshold_table(frame, "pneumonia")
    assert len(table) == 101
    truth = frame["label"] == "pneumonia"
    for step, found, spared in table[["threshold", "sensitivity", "specificity"]].iloc[5:80:15].to_numpy():
        called = frame["p:pneumonia"].astype(float) >= step
        assert found == pytest.approx(recall_score(truth, called))
        assert spared == pytest.approx(recall_score(~truth, ~called))


def test_several_films_a_patient_widen_both_intervals(random_frame):
    frame = random_frame(400, films_of_a_patient=4)
    grouped = threshold_table(frame, "covid-19", [0.4]).iloc[0]
    alone = threshold_table(frame.assign(patient=""), "covid-19", [0.4]).iloc[0]
    for name in ("sensitivity", "specificity"):
        assert grouped[name] == alone[name]
        assert grouped[f"{name}_high"] - grouped[f"{name}_low"] > 1.2 * (alone[f"{name}_high"] - alone[f"{name}_low"])


def test_one_in_ten_sick_and_ninety_percent_right_means_half_the_calls_are_false():
    ppv, npv = predictive_values(0.9, 0.9, 0.1)
    assert (float(ppv), float(npv)) == pytest.approx((0.5, 0.81 / 0.82))


def test_predictive_values_at_the_ends():
    assert predictive_values(0.9, 0.8, 0)[0] == 0 and predictive_values(0.9, 0.8, 1)[0] == 1
    assert np.isnan(predictive_values(0.0, 1.0, 0.3)[0])  # nobody is called
    with pytest.raises(UserError, match="prevalence is 30"):
        predictive_values(0.9, 0.9, 30)


def test_predictive_values_of_the_films_own_prevalence_are_plain_counts(scored):
    row = with_predictive_values(threshold_table(scored, "covid-19", [0.5]), 3 / 7).iloc[0]
    assert (row["ppv"], row["npv"]) == pytest.approx((2 / 3, 3 / 4))


def test_bounds_of_predictive_values_take_both_ends_at_once():
    ends = {"sensitivity": 0.8, "sensitivity_low": 0.6, "sensitivity_high": 0.9}
    ends |= {"specificity": 0.9, "specificity_low": 0.8, "specificity_high": 0.95}
    row = with_predictive_values(pd.DataFrame([ends]), 0.2).iloc[0]
    assert row["ppv"] == pytest.approx(0.16 / 0.24)
    assert row["ppv_low"] == pytest.approx(0.12 / 0.28) and row["ppv_high"] == pytest.approx(0.18 / 0.22)
    assert row["npv"] == pytest.approx(0.72 / 0.76)
    assert row["npv_low"] == pytest.approx(0.64 / 0.72) and row["npv_high"] == pytest.approx(0.76 / 0.78)


def test_no_films_make_a_table_without_numbers(frame_of):
    table = threshold_table(frame_of([], []), "covid-19", [0.5])
    assert np.isnan(table[["sensitivity", "specificity_low"]].to_numpy()).all()


def test_predictive_values_hang_on_which_other_class_the_others_have(frame_of):
    truth = ["covid-19"] * 10 + ["normal"] * 10 + ["pneumonia"] * 10
    called = ["covid-19"] * 10 + ["covid-19"] + ["normal"] * 9 + ["covid-19"] * 5 + ["pneumonia"] * 5
    rest = predictive_by_rest(frame_of(truth, called), "covid-19", 0.5, 0.1).set_index("class")
    assert rest.loc["normal", "ppv"] == pytest.approx(0.1 / (0.1 + 0.1 * 0.9))
    assert rest.loc["pneumonia", "ppv"] == pytest.approx(0.1 / (0.1 + 0.5 * 0.9))
    assert rest.index.tolist() == ["pneumonia", "normal"] and (rest["npv"] == 1).all()
