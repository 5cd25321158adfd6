"""Several runs side by side, with numbers that can be checked on paper."""

import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.across_runs import (
    RunNumbers,
    beyond_chance,
    differences,
    labelled_by_setting,
    mean_spread,
    site_table,
    summary,
)

FOUND = [
    RunNumbers("fedavg", 0, {"normal": 0.8, "covid-19": 0.4}, 0.4, {"a": 0.4, "b": 0.8}),
    RunNumbers("fedavg", 1, {"normal": 0.6, "covid-19": 0.4}, 0.4, {"a": 0.4, "b": 0.6}),
    RunNumbers("fedpdc", 0, {"normal": 0.8, "covid-19": 0.6}, 0.6, {"a": 0.6, "b": 0.8}),
    RunNumbers("fedpdc", 1, {"normal": 0.8, "covid-19": 0.4}, 0.4, {"a": 0.4, "b": 0.8}),
]


def test_mean_and_spread_over_seeds_by_hand():
    table = summary(FOUND).set_index("method")
    assert table.loc["fedavg", "normal"] == "0.70 ± 0.14"  # 0.8 and 0.6
    assert table.loc["fedavg", "macro recall"] == "0.55 ± 0.07"  # 0.6 and 0.5
    assert table.loc["fedpdc", "worst class"] == "0.50 ± 0.14"  # 0.6 and 0.4
    assert table.loc["fedavg", "rarest class"] == "0.55 ± 0.07"  # 0.6 and 0.5


def test_differences_are_paired_by_seed():
    table = differences(FOUND)
    assert table["method"].tolist() == ["fedpdc"]
    assert table.loc[0, "macro recall"] == "+0.10 ± 0.00"  # 0.7 - 0.6 and 0.6 - 0.5
    assert table.loc[0, "worst class"] == "+0.10 ± 0.14"  # 0.6 - 0.4 and 0.4 - 0.4


def test_each_sites_rarest_class_has_a_row():
    table = site_table(FOUND).set_index("site")
    assert table.loc["a", "fedpdc"] == "0.50 ± 0.14"


@pytest.mark.parametrize(
    ("deltas", "says"),
    [
        ([0.1, 0.1], "too few seeds"),
        ([0.10, 0.11, 0.12], "yes (p = 0.003)"),
        ([0.1, -0.1, 0.02], "not significant"),
        ([0.1, 0.2, float("nan")], "not estimable"),
    ],
)
def test_only_what_chance_does_not_explain_is_called_a_difference(deltas, says):
    """0.10, 0.11, 0.12: mean 0.11, standard error 0.01 / sqrt(3), t = 19.05 with 2 degrees of freedom, p = 0.0027."""
    (said,) = beyond_chance([deltas])
    assert said.startswith(says)


def test_of_many_comparisons_one_is_small_by_chance():
    alone, four = [0.10, 0.11, 0.12], [[0.1, -0.1, 0.02]] * 3
    assert beyond_chance([*four, alone])[-1] == "yes (p = 0.011)"  # Holm: the smallest of four, 4 * 0.0027
    nearly = [0.18, 0.24, 0.28]  # p = 0.016 taken alone
    assert beyond_chance([nearly])[0].startswith("yes")
    assert beyond_chance([*four, nearly])[-1].startswith("not significant (p = 0.06")


def of(method="fedavg", seed=0, settings=("rounds=20",), films=(("a", "1"),), classes=("normal", "covid-19")):
    return RunNumbers(
        method, seed, dict.fromkeys(classes, 0.5), 0.5, {}, settings, films, f"{method}-{seed}-{settings}"
    )


def test_a_run_with_other_settings_is_no_seed_of_the_same_method():
    found = labelled_by_setting([of(), of("fedpdc"), of(settings=("rounds=3",)), of("fedpdc", settings=("rounds=3",))])
    assert [one.method for one in found] == [
        "fedavg rounds=20",
        "fedpdc rounds=20",
        "fedavg rounds=3",
        "fedpdc rounds=3",
    ]
    assert differences(found)["method"].tolist() == ["fedpdc rounds=20", "fedpdc rounds=3"]
    assert [one.method for one in labelled_by_setting([of(), of("fedpdc")])] == ["fedavg", "fedpdc"]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (of(), "same method and seed"),
        (of("fedpdc", films=(("a", "2"),)), "different films or classes"),
        (of("fedpdc", classes=("normal", "pneumonia")), "different films or classes"),
    ],
)
def test_runs_that_cannot_stand_in_one_table_are_refused(other, says):
    with pytest.raises(UserError, match=says):
        labelled_by_setting([of(), other])


def test_one_seed_has_no_spread():
    assert mean_spread([0.5]) == "0.50"
    assert mean_spread([0.5], signed=True) == "+0.50"
