import numpy as np
import pytest
from scipy.special import logit
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from fedpdc_med.evaluation.discrimination import (
    auc_interval,
    average_precision_interval,
    discrimination,
    precision_recall,
    roc,
)
from fedpdc_med.evaluation.intervals import logit_interval, wilson

SCORES = np.array([0.9, 0.7, 0.4, 0.8, 0.4, 0.3, 0.2])
POSITIVE = np.array([True, True, True, False, False, False, False])


def test_area_on_paper_with_a_tie():
    # 0.9 beats all 4, 0.7 beats 3, 0.4 beats 2 and ties one: 9.5 of 12 pairs
    assert auc_interval(SCORES, POSITIVE, np.arange(7))[0] == pytest.approx(9.5 / 12)


def test_average_precision_on_paper_with_a_tie():
    # found at ranks 1 (1/1), 3 (2/3) and, called together with its tie, 5 (3/5)
    assert average_precision_interval(SCORES, POSITIVE, np.arange(7))[0] == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)


def test_areas_agree_with_scikit_learn(random_frame):
    frame = random_frame(400)
    frame["p:covid-19"] = frame["p:covid-19"].round(1)  # many ties
    table = discrimination(frame).set_index("class")
    for name in ("covid-19", "normal"):
        truth = frame["label"] == name
        assert table.loc[name, "auc"] == pytest.approx(roc_auc_score(truth, frame[f"p:{name}"]))
        assert table.loc[name, "ap"] == pytest.approx(average_precision_score(truth, frame[f"p:{name}"]))
        assert table.loc[name, "prevalence"] == pytest.approx(truth.mean())


def test_with_one_film_a_patient_the_interval_is_delongs():
    scores, positive = np.append(SCORES, SCORES + 0.01), np.tile(POSITIVE, 2)
    pairs = (scores[positive][:, None] > scores[~positive]) + 0.5 * (scores[positive][:, None] == scores[~positive])
    variance = pairs.mean(axis=1).var(ddof=1) / 6 + pairs.mean(axis=0).var(ddof=1) / 8
    assert auc_interval(scores, positive, np.arange(14))[1:] == pytest.approx(
        logit_interval(float(pairs.mean()), np.sqrt(variance))
    )


def test_delongs_standard_error_of_hanley_and_mcneils_films():
    """Hanley and McNeil 1982: 58 normal and 51 abnormal CT images, rated 1 to 5. Stata's `roctab` publishes 0.8932 with
    DeLong's standard error, 0.0307."""
    normal, abnormal = np.repeat(range(5), [33, 6, 6, 11, 2]), np.repeat(range(5), [3, 2, 2, 11, 33])
    scores, positive = np.concatenate([normal, abnormal]) / 4, np.arange(109) >= 58
    auc, low, high = auc_interval(scores, positive, np.arange(109))
    standard_error = (logit(high) - logit(low)) / (2 * 1.959964) * auc * (1 - auc)  # the interval is one of the logit
    assert (round(auc, 4), round(float(standard_error), 4)) == (0.8932, 0.0307)


@pytest.mark.parametrize("interval", [auc_interval, average_precision_interval])
def test_the_same_films_of_fewer_patients_have_a_wider_interval(interval):
    generator = np.random.default_rng(2)
    positive = np.arange(112) < 12
    scores = generator.normal(size=112) + 1.2 * positive
    widths = []
    for patients in (12, 4, 1):
        _, low, high = interval(scores, positive, np.append(np.arange(12) % patients, np.arange(100, 200)))
        widths.append(high - low)
    assert widths == sorted(widths)


@pytest.mark.parametrize(
    ("measure", "interval"), [(roc_auc_score, auc_interval), (average_precision_score, average_precision_interval)]
)
@pytest.mark.parametrize("films_of_a_patient", [1, 4])
def test_intervals_have_the_width_of_a_bootstrap_by_patient(random_frame, measure, interval, films_of_a_patient):
    frame = random_frame(600, films_of_a_patient, seed=2)
    truth, scores = (frame["label"] == "covid-19").to_numpy(), frame["p:covid-19"].to_numpy(dtype=float)
    patients = np.arange(600) // films_of_a_patient
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(600):
        weight = np.bincount(
            generator.integers(patients.max() + 1, size=patients.max() + 1), minlength=patients.max() + 1
        )
        drawn.append(measure(truth, scores, sample_weight=weight[patients]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    _, ours_low, ours_high = interval(scores, truth, patients)
    assert ours_high - ours_low == pytest.approx(high - low, rel=0.15)
    assert (ours_low, ours_high) == pytest.approx((low, high), abs=0.015)


def test_four_films_a_patient_make_a_wider_interval_than_four_patients(random_frame):
    frame = random_frame(600, 4)
    grouped, alone = discrimination(frame), discrimination(frame.assign(patient=""))
    assert (grouped["auc_high"] - grouped["auc_low"] > 1.3 * (alone["auc_high"] - alone["auc_low"])).all()
    assert (grouped["ap_high"] - grouped["ap_low"] > 1.3 * (alone["ap_high"] - alone["ap_low"])).all()


def test_a_perfect_area_keeps_a_lower_bound():
    scores = np.concatenate([np.linspace(0.6, 0.9, 20), np.linspace(0.1, 0.4, 20)])
    positive = np.arange(40) < 20
    # On paper, for 20 and 20 films: 1 - t = z² t (1 + 19 ((1 - t)/(2 - t) + t/(1 + t))) / 400 holds at t = 0.899.
    value, low, high = auc_interval(scores, positive, np.arange(40))
    assert (value, round(low, 3), high) == (1, 0.899, 1)
    assert auc_interval(-scores, positive, np.arange(40)) == pytest.approx((0, 0, 1 - low))
    assert average_precision_interval(scores, positive, np.arange(40)) == pytest.approx(
        (1, float(wilson(20, 20)[0]), 1)
    )


def test_one_film_of_a_class_has_a_very_wide_interval():
    _, low, high = auc_interval(np.array([0.5, 0.1, 0.6, 0.2]), np.array([True, False, False, False]), np.arange(4))
    assert low < 0.2 and high > 0.9


def test_a_class_without_films_is_not_estimable(frame_of):
    table = discrimination(frame_of(["normal"] * 3, ["normal"] * 3)).set_index("class")
    assert table.loc["covid-19", "note"] == "not estimable: no films of this class"
    assert table.loc["normal", "note"] == "not estimable: no films of any other class"
    assert np.isnan(table[["auc", "auc_low", "ap", "ap_high"]]).all(axis=None)
    assert discrimination(frame_of([], []))["note"].tolist() == ["not estimable: no films"] * 3


def test_curves_run_from_corner_to_corner_and_are_thinned(random_frame):
    frame = random_frame(4000)
    curve = roc(frame, "covid-19", points=200)
    assert len(curve) <= 200
    assert curve[["false_positive_rate", "sensitivity"]].iloc[[0, -1]].to_numpy().tolist() == [[0, 0], [1, 1]]
    full_x, full_y, _ = roc_curve(frame["label"] == "covid-19", frame["p:covid-19"])
    thinned = np.trapezoid(curve["sensitivity"], curve["false_positive_rate"])
    assert thinned == pytest.approx(np.trapezoid(full_y, full_x), abs=0.005)
    assert precision_recall(frame, "covid-19")["recall"].iloc[[0, -1]].tolist() == [1, 0]


def test_curves_of_absent_classes_are_empty(frame_of):
    frame = frame_of(["normal"] * 3, ["normal"] * 3)
    assert len(roc(frame, "covid-19")) == len(roc(frame, "normal")) == len(precision_recall(frame, "covid-19")) == 0
