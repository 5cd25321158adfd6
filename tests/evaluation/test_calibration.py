import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from fedpdc_med.evaluation.calibration import calibration, expected_calibration_error, reliability
from fedpdc_med.evaluation.intervals import wilson
from fedpdc_med.runs.predictions import classes_of, probabilities


def test_brier_and_ece_on_paper(frame_of):
    # Two films called with 0.8, one right: (0.2² + 2 * 0.1²) = 0.06 and (0.9² + 0.8² + 0.1²) = 1.46, mean 0.76.
    numbers = calibration(frame_of(["normal", "covid-19"], ["normal", "normal"]))
    assert numbers.brier == pytest.approx(0.76)
    assert numbers.ece == pytest.approx(0.3)  # predicted 0.8, half of them correct
    assert numbers.brier_of_prevalence == pytest.approx(0.5)  # two classes, half and half
    assert numbers.films == 2


@pytest.mark.filterwarnings("ignore:The y_prob values do not sum to one")  # float32 rounding
def test_brier_agrees_with_scikit_learn(random_frame):
    frame = random_frame(300)
    expected = brier_score_loss(
        frame["label"],
        probabilities(frame)[:, [2, 0, 1]],
        labels=["covid-19", "normal", "pneumonia"],
        scale_by_half=False,
    )
    assert classes_of(frame) == ["normal", "pneumonia", "covid-19"]
    assert calibration(frame).brier == pytest.approx(expected)


def test_curve_agrees_with_scikit_learn_and_counts_its_films(random_frame):
    frame = random_frame(500)
    curve = reliability(frame, "covid-19")
    observed, predicted = calibration_curve(frame["label"] == "covid-19", frame["p:covid-19"].astype(float), n_bins=10)
    filled = curve[curve["count"] > 0]
    assert filled["observed"].tolist() == pytest.approx(observed)
    assert filled["predicted"].tolist() == pytest.approx(predicted)
    assert curve["count"].sum() == 500


def test_bins_have_wilson_intervals_and_empty_ones_nothing(frame_of):
    curve = reliability(frame_of(["normal"] * 20, ["normal"] * 18 + ["covid-19"] * 2, confidence=0.85))
    full = curve[curve["count"] > 0]
    assert full[["from", "to", "count"]].to_numpy().tolist() == [pytest.approx([0.8, 0.9, 20])]
    assert full[["observed", "low", "high"]].to_numpy()[0].round(3).tolist() == [0.9, 0.699, 0.972]
    assert np.isnan(curve.loc[curve["count"] == 0, ["predicted", "observed", "low"]]).all(axis=None)


def test_bins_count_patients_where_they_have_several_films(frame_of):
    frame = frame_of(["normal"] * 80, ["normal"] * 80, patient=[f"p{i // 2}" for i in range(80)])
    row = reliability(frame).set_index("count").loc[80]
    assert row["low"] == pytest.approx(float(wilson(40, 40)[0]))


def test_ece_counts_bins_by_their_films(frame_of):
    # One film predicted with 0.75 and right (gap 0.25), three with 0.95 and wrong (gap 0.95): (0.25 + 3 * 0.95) / 4.
    frame = frame_of(["normal"] * 4, ["normal"] + ["covid-19"] * 3, confidence=[0.75, 0.95, 0.95, 0.95])
    assert calibration(frame).ece == pytest.approx(0.775)


def test_certainty_falls_into_the_last_bin(frame_of):
    curve = reliability(frame_of(["normal"], ["normal"], confidence=1.0))
    assert curve["count"].tolist() == [0] * 9 + [1]
    assert expected_calibration_error(curve) == 0


def test_no_films_are_not_estimable(frame_of):
    empty = frame_of([], [])
    assert calibration(empty).note == "not estimable: no films" and np.isnan(calibration(empty).brier)
    assert reliability(empty)["count"].sum() == 0 and np.isnan(expected_calibration_error(reliability(empty)))
