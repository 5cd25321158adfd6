from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.paired import compare, holm, mcnemar_exact, sign_flip_exact


def test_10_against_2_on_paper():
    assert mcnemar_exact(10, 2) == pytest.approx(2 * (1 + 12 + 66) / 4096)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (5, 5), (3, 14), (40, 21)])
def test_mcnemar_agrees_with_scipys_binomial_test(first, second):
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar_exact(first, second) == pytest.approx(expected)
    assert sign_flip_exact(np.repeat([1, -1, 0], [first, second, 7])) == pytest.approx(expected)


def test_sign_flips_on_paper_and_by_counting_all_of_them():
    assert sign_flip_exact(np.array([2, 1])) == pytest.approx(0.5)  # sums 3, 1, -1, -3: two of four are as far out
    differences = np.array([3, -1, 2, 2, 0, -1, 5, 1])
    sums = [np.dot(signs, np.abs(differences)) for signs in product((1, -1), repeat=8)]
    assert sign_flip_exact(differences) == pytest.approx(np.mean(np.abs(sums) >= abs(differences.sum())))


def test_holm_on_paper_and_around_classes_without_a_test():
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.4, 0.5, 0.6])) == pytest.approx([1, 1, 1])  # 3 x 0.4, never above 1
    corrected = holm(np.array([0.6, np.nan, 0.01]))
    assert corrected[[0, 2]] == pytest.approx([0.6, 0.02]) and np.isnan(corrected[1])


@pytest.fixture
def runs(frame_of):
    """98 COVID-19 films: 9 only the second finds, 1 only the first, 80 both, 8 none; and 4 normals both find."""
    labels = ["covid-19"] * 98 + ["normal"] * 4
    first = ["covid-19"] * 80 + ["normal"] * 9 + ["covid-19"] + ["normal"] * 8 + ["normal"] * 4
    second = ["covid-19"] * 80 + ["covid-19"] * 9 + ["normal"] + ["normal"] * 8 + ["normal"] * 4
    return frame_of(labels, first), frame_of(labels, second)


def test_classes_are_compared_on_their_own_films(runs):
    result = compare(*runs)
    row = result.by_class.set_index("class").loc["covid-19"]
    assert row[["total", "both_right", "only_first", "only_second", "both_wrong"]].tolist() == [98, 80, 1, 9, 8]
    assert row["p"] == pytest.approx(2 * 11 / 1024)
    assert row["p_holm"] == pytest.approx(2 * 2 * 11 / 1024)  # two classes have films
    assert row["difference"] == pytest.approx(8 / 98)
    # Bonett and Price: 10/100 and 2/100, 0.08 -/+ 1.96 sqrt((0.12 - 0.0064) / 100)
    assert row[["low", "high"]].tolist() == pytest.approx([0.0139, 0.1461], abs=1e-4)


def test_same_class_absent_class_and_all_films(runs):
    result = compare(*runs)
    table = result.by_class.set_index("class")
    assert (table.loc["normal", "p"], table.loc["normal", "note"]) == (1, "the models never differ")
    assert table.loc["pneumonia", "note"] == "not estimable: no films of this class" and np.isnan(
        table.loc["pneumonia", "p"]
    )
    assert result.overall.iloc[0][["class", "total", "only_first", "only_second"]].tolist() == ["all films", 102, 1, 9]
    assert (result.films, result.left_out_of_first, result.left_out_of_second, result.note) == (102, 0, 0, "")


def test_order_of_rows_does_not_matter_and_other_films_are_left_out(runs):
    first, second = runs
    result = compare(first.iloc[10:], second.sample(frac=1, random_state=1))
    assert (result.films, result.left_out_of_first, result.left_out_of_second) == (92, 0, 10)
    assert result.note == "0 films only in the first run and 10 only in the second are excluded"
    assert result.overall.iloc[0][["only_first", "only_second"]].tolist() == [1, 9]


def test_films_of_one_patient_are_one_piece_of_evidence(runs):
    first, second = runs
    first.loc[81:88, "patient"] = "shared"
    # The patients' sums are 1, 8 and -1: of the eight ways to flip them six add up to 8 or more, either way.
    row = compare(first, second).by_class.set_index("class").loc["covid-19"]
    assert row["p"] == pytest.approx(6 / 8)
    assert row["high"] - row["low"] > 1.5 * (0.1461 - 0.0139)
    assert "tests count patients" in compare(first, second).note


def test_what_cannot_be_paired_is_said(runs, frame_of):
    first, second = runs
    for other, says in (
        (second.assign(film=second["film"] + "x"), "no films in common"),
        (second.assign(film=""), "second run does not name its films"),
        (second.assign(label="normal"), "98 films have another label"),
        (second.rename(columns={"p:pneumonia": "p:flu"}), "different classes"),
        (second.assign(film="same"), "twice in the second run"),
    ):
        with pytest.raises(UserError, match=says):
            compare(first, other)
