import numpy as np
import pytest
from scipy.stats import binomtest

from fedpdc_med.evaluation.intervals import clopper_pearson, effective_total, logit_interval, mover, wilson


def test_18_of_20_gives_the_wilson_interval_of_the_textbook():
    low, high = wilson(18, 20)
    assert (round(float(low), 3), round(float(high), 3)) == (0.699, 0.972)


@pytest.mark.parametrize(("ours", "theirs"), [(wilson, "wilson"), (clopper_pearson, "exact")])
def test_intervals_agree_with_scipy_for_every_count(ours, theirs):
    for total in (1, 7, 30):
        lows, highs = ours(np.arange(total + 1), total)
        for k in range(total + 1):
            expected = binomtest(k, total).proportion_ci(method=theirs)
            assert (lows[k], highs[k]) == pytest.approx((expected.low, expected.high), abs=1e-12)
        assert lows[0] == 0 and highs[-1] == 1


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_no_films_have_no_interval(interval):
    assert np.isnan(interval(0, 0)).all()


def test_ten_patients_with_two_equal_films_each_are_worth_nine_independent_films():
    # Half right: a patient has 0 or 2 of 2, so the sum of (h - 1)^2 is 10, times 10/9; 20^2 * 0.25 / (100/9) = 9.
    hits = np.repeat([1.0, 0.0], 10)
    assert effective_total(hits, np.repeat(np.arange(10), 2), np.ones(1)) == pytest.approx([9.0])


def test_films_of_different_patients_are_worth_their_number_and_films_that_agree_the_number_of_patients():
    assert effective_total(np.array([0.1, 0.9, 0.4]), np.arange(3), np.array([0.5])).tolist() == [3]
    assert effective_total(np.ones(6), np.array([0, 0, 0, 0, 1, 1]), np.ones(1)).tolist() == [2]


def test_worth_at_many_steps_is_the_definition_step_by_step():
    generator = np.random.default_rng(5)
    patients = generator.integers(40, size=150)
    scores = (generator.normal(size=40)[patients] + generator.normal(size=150)).round(1)
    steps = np.linspace(-2, 2, 9)
    people = np.unique(patients)
    for step, worth in zip(steps, effective_total(scores, patients, steps), strict=True):
        hits = scores >= step
        sums = [(hits[patients == p] - hits.mean()).sum() for p in people]
        variance = np.sum(np.square(sums)) * len(people) / (len(people) - 1) / 150**2
        expected = hits.mean() * (1 - hits.mean()) / variance
        assert worth == pytest.approx(min(expected, 150))


def test_difference_of_56_of_70_and_48_of_80_is_newcombes_published_interval():
    lows, highs = wilson([56, 48], [70, 80])
    assert mover([56 / 70, 48 / 80], lows, highs, [1, -1]) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


def test_mean_of_four_equal_estimates_has_half_their_width():
    value, low, high = mover([0.8] * 4, [0.6] * 4, [0.9] * 4, [0.25] * 4)
    assert (value, low, high) == pytest.approx((0.8, 0.7, 0.85))


def test_logit_interval_on_paper_and_inside_0_and_1():
    # odds 1, standard error 0.05 -> 0.2 on the log-odds scale; 1 / (1 + exp(0.392)) = 0.4032
    assert logit_interval(0.5, 0.05) == pytest.approx((0.4032, 0.5968), abs=1e-4)
    low, high = logit_interval(0.99, 0.05)
    assert 0 < low < 0.99 < high < 1
