import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, recall_score

from fedpdc_med.evaluation.intervals import wilson
from fedpdc_med.evaluation.recall import macro_recall, per_class_recall, worst_class
from fedpdc_med.runs.predictions import called_class, classes_of, true_class


def test_18_of_20_is_shown_with_its_wilson_interval_and_flagged_as_few(frame_of):
    frame = frame_of(["covid-19"] * 20, ["covid-19"] * 18 + ["normal"] * 2)
    row = per_class_recall(frame).iloc[0]
    assert (row["class"], row["correct"], row["total"], row["method"]) == ("covid-19", 18, 20, "Wilson")
    assert (row["recall"], round(row["low"], 3), round(row["high"], 3)) == (0.9, 0.699, 0.972)
    assert row["small"] and row["note"] == "only 20 films"


def test_worst_class_comes_first_and_a_class_without_films_last(frame_of):
    frame = frame_of(["normal"] * 4 + ["pneumonia"] * 4, ["normal"] * 3 + ["covid-19"] + ["pneumonia"] + ["normal"] * 3)
    table = per_class_recall(frame)
    assert table["class"].tolist() == ["pneumonia", "normal", "covid-19"]
    assert np.isnan(table[["recall", "low", "high"]].iloc[2].astype(float)).all()
    assert table["note"].iloc[2] == "not estimable: no films of this class"
    worst = worst_class(table)
    assert (worst.name, worst.value, worst.correct, worst.total) == ("pneumonia", 0.25, 1, 4)


def test_recall_agrees_with_scikit_learn(random_frame):
    frame = random_frame(400, seed=4)
    truth, called = true_class(frame), called_class(frame)
    table = per_class_recall(frame)
    expected = recall_score(truth, called, average=None)
    assert table.set_index("class").loc[classes_of(frame), "recall"].tolist() == pytest.approx(expected)
    assert macro_recall(table).value == pytest.approx(balanced_accuracy_score(truth, called))


def test_exact_interval_on_request(frame_of):
    row = per_class_recall(frame_of(["normal"] * 10, ["normal"] * 10), "exact").iloc[0]
    assert row["low"] == pytest.approx(0.025 ** (1 / 10))  # the exact bound when all are right
    assert (row["high"], row["method"]) == (1, "exact")


def test_several_films_a_patient_widen_the_interval(frame_of):
    called = ["normal"] * 60 + ["covid-19"] * 20
    alone = per_class_recall(frame_of(["normal"] * 80, called)).iloc[0]
    # 40 patients whose two films are always called alike: 40 observations, not 80.
    paired = per_class_recall(frame_of(["normal"] * 80, called, patient=[f"p{i // 2}" for i in range(80)])).iloc[0]
    assert (alone["method"], paired["method"]) == ("Wilson", "Wilson, by patient")
    assert (alone["patients"], paired["patients"]) == (80, 40)
    forty = wilson(30, 40)
    assert paired["high"] - paired["low"] == pytest.approx(forty[1] - forty[0], rel=0.1)
    assert paired["high"] - paired["low"] > 1.25 * (alone["high"] - alone["low"])


def test_the_same_pseudonym_at_two_sites_is_two_patients(frame_of):
    frame = frame_of(["normal"] * 4, ["normal"] * 4, patient=["a", "a", "b", "b"], site=["x", "y", "x", "y"])
    assert per_class_recall(frame).iloc[0]["patients"] == 4


def test_all_films_right_keeps_a_width_that_counts_patients(frame_of):
    frame = frame_of(["normal"] * 80, ["normal"] * 80, patient=[f"p{i // 2}" for i in range(80)])
    row = per_class_recall(frame).iloc[0]
    assert (row["low"], row["high"]) == pytest.approx(tuple(float(x) for x in wilson(40, 40)))
    assert row["method"] == "Wilson, by patient"


@pytest.mark.parametrize("patients", [31, 40])
def test_a_missed_film_never_raises_the_lower_bound(frame_of, patients):
    people = [f"p{i % patients}" for i in range(45)]
    lows = []
    for missed in range(4):
        called = ["covid-19"] * missed + ["normal"] * (45 - missed)
        lows.append(per_class_recall(frame_of(["normal"] * 45, called, patient=people)).iloc[0]["low"])
    assert lows == sorted(lows, reverse=True)


def test_each_patient_counts_for_what_it_is_worth(frame_of):
    patients = [f"p{i // 5}" for i in range(50)]
    frame = frame_of(["normal"] * 50, ["normal"] * 40 + ["covid-19"] * 10, patient=patients)
    row = per_class_recall(frame).iloc[0]
    assert (row["method"], row["note"]) == ("Wilson, by patient", "only 50 films of 10 patients")
    # 8 of 10 patients all right: each patient is one observation, less the n - 1 of a sample: worth 9.
    assert (row["low"], row["high"]) == pytest.approx(tuple(float(x) for x in wilson(7.2, 9)))


def test_an_interval_by_patient_covers_what_it_says_where_one_by_film_does_not(frame_of):
    generator = np.random.default_rng(8)
    covered = {"wilson": 0, "exact": 0}
    for _ in range(200):
        rights = generator.random(40) < 0.75  # all four films of a patient are called alike
        called = np.where(np.repeat(rights, 4), "normal", "covid-19")
        frame = frame_of(["normal"] * 160, called, patient=[f"p{i // 4}" for i in range(160)])
        for interval in covered:
            row = per_class_recall(frame, interval).iloc[0]
            covered[interval] += row["low"] <= 0.75 <= row["high"]
    assert covered["wilson"] >= 180
    assert covered["exact"] <= 165


def test_wide_interval_is_flagged_and_many_films_are_not(frame_of):
    wide = per_class_recall(frame_of(["normal"] * 40, ["normal"] * 20 + ["covid-19"] * 20)).iloc[0]
    assert wide["small"] and wide["note"] == "wide interval: 40 films"
    many = per_class_recall(frame_of(["normal"] * 400, ["normal"] * 360 + ["covid-19"] * 40)).iloc[0]
    assert not many["small"] and many["note"] == ""


def test_macro_recall_counts_classes_equally_and_names_the_absent(frame_of):
    frame = frame_of(["normal"] * 90 + ["pneumonia"] * 10, ["normal"] * 90 + ["normal"] * 5 + ["pneumonia"] * 5)
    macro = macro_recall(per_class_recall(frame))
    assert macro.value == pytest.approx(0.75)
    assert macro.note == "without COVID-19: no films"
    # On paper: half of the distances to each class's own bounds, squared and added.
    (low_a, low_b), (high_a, high_b) = wilson([90, 5], [90, 10])
    assert macro.low == pytest.approx(0.75 - 0.5 * np.hypot(1 - low_a, 0.5 - low_b))
    assert macro.high == pytest.approx(0.75 + 0.5 * np.hypot(high_a - 1, high_b - 0.5))


def test_no_films_at_all_is_said_not_raised(frame_of):
    table = per_class_recall(frame_of([], []))
    assert table["note"].str.startswith("not estimable").all()
    assert np.isnan(worst_class(table).value)
    assert macro_recall(table).note == "not estimable: no films"


def test_mixed_models_are_refused(frame_of):
    with pytest.raises(ValueError, match="models mixed"):
        per_class_recall(frame_of(["normal"] * 2, ["normal"] * 2, model=["global", "a"]))
