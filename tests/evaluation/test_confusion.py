import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from fedpdc_med.evaluation.confusion import by_row, confusion, dangerous_cells, films_of_cell, normal_class
from fedpdc_med.evaluation.intervals import wilson
from fedpdc_med.runs.predictions import called_class, true_class


@pytest.fixture
def frame(frame_of):
    labels = ["covid-19"] * 5 + ["pneumonia"] * 4 + ["normal"] * 2
    called = (
        ["normal"] * 1 + ["pneumonia"] * 3 + ["covid-19"] + ["normal"] * 2 + ["pneumonia"] * 2 + ["covid-19", "normal"]
    )
    return frame_of(labels, called)


def test_confusion_counts_and_shares_on_paper(frame):
    counts = confusion(frame)
    assert counts.loc["covid-19"].tolist() == [1, 3, 1]
    assert counts.loc["normal", "covid-19"] == 1
    assert by_row(counts).loc["covid-19"].tolist() == [0.2, 0.6, 0.2]


def test_confusion_agrees_with_scikit_learn(random_frame):
    frame = random_frame(300)
    assert confusion(frame).to_numpy().tolist() == confusion_matrix(true_class(frame), called_class(frame)).tolist()


def test_a_class_without_films_has_no_shares(frame_of):
    assert np.isnan(by_row(confusion(frame_of(["normal"], ["normal"]))).loc["covid-19"]).all()


def test_diseases_called_normal_come_first_though_rarer(frame):
    cells = dangerous_cells(frame)
    assert cells["name"].tolist() == [
        "pneumonia predicted as normal",
        "COVID-19 predicted as normal",
        "COVID-19 predicted as pneumonia",
        "pneumonia predicted as COVID-19",
        "normal predicted as COVID-19",
        "normal predicted as pneumonia",
    ]
    assert cells["kind"].tolist() == ["disease missed"] * 2 + ["wrong disease"] * 2 + ["false alarm"] * 2
    assert cells["share"].tolist() == [0.5, 0.2, 0.6, 0, 0.5, 0]


def test_a_mistake_never_seen_still_has_an_upper_bound(frame):
    cell = dangerous_cells(frame).set_index("name").loc["pneumonia predicted as COVID-19"]
    assert (cell["count"], cell["total"], cell["low"]) == (0, 4, 0)
    assert cell["high"] == pytest.approx(0.490, abs=1e-3)  # Wilson, 0 of 4


def test_a_cell_counts_patients_as_recall_does(frame_of):
    patients = [f"p{i // 2}" for i in range(80)]
    cells = dangerous_cells(frame_of(["covid-19"] * 80, ["normal"] * 80, patient=patients)).set_index("called")
    assert cells.loc["normal", "low"] == pytest.approx(float(wilson(40, 40)[0]))


def test_classes_without_a_normal_are_plain_mistakes(frame_of):
    cells = dangerous_cells(frame_of(["cat", "dog"], ["dog", "dog"], classes=("cat", "dog")))
    assert cells["kind"].unique().tolist() == ["wrong class"]
    assert normal_class(["Pneumonia", "No_findings"]) == "No_findings"


def test_no_films_have_no_dangerous_cells(frame_of):
    assert len(dangerous_cells(frame_of([], []))) == 0


def test_films_of_a_cell_come_most_confident_first(frame_of):
    frame = frame_of(
        ["covid-19"] * 4 + ["normal"],
        ["normal", "normal", "covid-19", "normal", "normal"],
        confidence=[0.6, 0.9, 0.99, 0.6, 0.95],
    )
    films = films_of_cell(frame, "covid-19", "normal")
    assert films["film"].tolist() == ["film-00001", "film-00000", "film-00003"]
    assert films["confidence"].tolist() == pytest.approx([0.9, 0.6, 0.6])
    assert len(films_of_cell(frame, "normal", "pneumonia")) == 0
