import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.evaluation.subgroups import subgroup_recall, suppress
from fedpdc_med.runs.predictions import classes_of


def test_large_cells_show_the_recall_of_their_films(random_frame):
    frame = random_frame(600)
    table = subgroup_recall(frame)
    assert not table["suppressed"].any()
    women = table[(table["attribute"] == "sex") & (table["value"] == "F")].set_index("class")
    alone = per_class_recall(frame[frame["sex"] == "F"]).set_index("class").loc[classes_of(frame)]
    assert women[["correct", "total", "recall", "low", "high"]].to_numpy() == pytest.approx(
        alone[["correct", "total", "recall", "low", "high"]].to_numpy(dtype=float)
    )
    assert table["attribute"].unique().tolist() == ["sex", "age_band", "view"]


def test_small_cell_and_what_would_give_it_away_are_hidden():
    # 5 women with the first class: from the totals 105, 62 and 67 any one further cell would give it away.
    patients = np.array([[5, 57], [100, 10]])
    assert suppress(patients).all()
    # 5, its partners 60 and 20, and 50 rather than the smaller 40, which would need partners of its own.
    patients = np.array([[5, 60, 70], [20, 50, 40], [90, 45, 30]])
    assert suppress(patients).tolist() == [[True, True, False], [True, True, False], [False, False, False]]


def test_nothing_small_hides_nothing_and_empty_cells_are_about_nobody():
    assert not suppress(np.array([[10, 0, 30], [40, 50, 60]])).any()
    assert suppress(np.array([[5, 0, 40], [50, 60, 70], [80, 90, 95]]))[0].tolist() == [True, False, True]


def test_two_small_cells_whose_sum_is_small_need_a_third():
    hidden = suppress(np.array([[1, 1, 40, 50], [60, 60, 60, 60], [70, 70, 70, 70]]))
    assert hidden.tolist() == [[True, True, True, False], [True, True, True, False], [False] * 4]


def test_empty_cells_hide_a_small_one_when_nothing_else_can():
    assert suppress(np.array([[5, 40], [0, 50]])).all()


@settings(max_examples=150, deadline=None)
@given(arrays(np.int64, array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.integers(0, 30)))
def test_no_line_ever_has_a_single_hidden_cell_beside_open_ones(patients):
    hidden = suppress(patients)
    assert hidden[(patients > 0) & (patients < 10)].all()
    for numbers, line in [*zip(patients, hidden, strict=True), *zip(patients.T, hidden.T, strict=True)]:
        if line.any() and not line.all():
            assert line.sum() >= 2 and numbers[line].sum() >= 10
    if min(patients.shape) > 1:
        assert not any(
            follows_from_totals(hidden, cell) for cell in np.argwhere(hidden & (patients > 0) & (patients < 10))
        )


def follows_from_totals(hidden, cell):
    """Row and column totals of the hidden cells fix this one if leaving it out leaves one equation less to solve."""
    cells = np.argwhere(hidden)
    equations = np.array(
        [[(line == i) for line in cells[:, axis]] for axis in (0, 1) for i in range(hidden.shape[axis])], dtype=float
    )
    others = (cells != cell).any(axis=1)
    return np.linalg.matrix_rank(equations[:, others]) < np.linalg.matrix_rank(equations)


def test_a_cell_between_two_hidden_blocks_is_not_left_to_be_worked_out():
    # The 2 x 2 blocks at both corners are safe; the 4 between them follows from the totals of the first two lines.
    patients = np.array([[5, 8, 4, 90], [8, 7, 90, 90], [90, 90, 6, 9], [90, 90, 9, 8]])
    plain = (patients > 0) & (patients < 10)
    assert follows_from_totals(plain, np.array([0, 2]))
    assert not follows_from_totals(suppress(patients), np.array([0, 2]))


def test_a_hidden_cell_shows_no_number_and_not_why(frame_of):
    labels = ["normal"] * 50 + ["covid-19"] * 35
    frame = frame_of(
        labels, labels, classes=("normal", "covid-19"), sex=["F"] * 20 + ["M"] * 30 + ["F"] * 5 + ["M"] * 30
    )
    table = subgroup_recall(frame)
    assert table["suppressed"].all()
    assert np.isnan(table[["correct", "total", "patients", "recall", "low", "high"]]).all(axis=None)
    assert table["note"].unique().tolist() == ["suppressed: fewer than 10 patients here or in a related cell"]


def test_twenty_films_of_one_patient_are_one_patient(frame_of):
    frame = frame_of(
        ["normal"] * 60,
        ["normal"] * 60,
        sex=["F"] * 20 + ["M"] * 40,
        patient=["same"] * 20 + [f"p{i}" for i in range(40)],
    )
    assert subgroup_recall(frame)["suppressed"].any()
    assert not subgroup_recall(frame.assign(patient=""))["suppressed"].any()


def test_unknown_values_are_a_group_of_their_own_and_unrecorded_attributes_absent(frame_of):
    table = subgroup_recall(frame_of(["normal"] * 40, ["normal"] * 40, sex=["F"] * 20 + [""] * 20))
    assert table["attribute"].unique().tolist() == ["sex"]
    assert table["value"].unique().tolist() == ["F", "unknown"]
    nothing = subgroup_recall(frame_of(["normal"], ["normal"]))
    assert nothing.empty and {"attribute", "value", "class", "suppressed"} <= set(nothing.columns)
