"""Several runs side by side, with numbers that can be checked on paper."""

import pytest

from fedpdc_med.simulation.compare import Found, beyond_chance, differences, mean_spread, site_table, summary

FOUND = [
    Found("fedavg", 0, {"normal": 0.8, "covid-19": 0.4}, {"a": 0.4, "b": 0.8}),
    Found("fedavg", 1, {"normal": 0.6, "covid-19": 0.4}, {"a": 0.4, "b": 0.6}),
    Found("fedpdc", 0, {"normal": 0.8, "covid-19": 0.6}, {"a": 0.6, "b": 0.8}),
    Found("fedpdc", 1, {"normal": 0.8, "covid-19": 0.4}, {"a": 0.4, "b": 0.8}),
]


def test_mean_and_spread_over_seeds_by_hand():
    table = summary(FOUND).set_index("method")
    assert table.loc["fedavg", "normal"] == "0.70 ± 0.14"  # 0.8 and 0.6
    assert table.loc["fedavg", "mean"] == "0.55 ± 0.07"  # 0.6 and 0.5
    assert table.loc["fedpdc", "worst"] == "0.50 ± 0.14"  # 0.6 and 0.4
    assert table.loc["fedavg", "rarest"] == "0.55 ± 0.07"  # 0.6 and 0.5


def test_differences_are_paired_by_seed():
    table = differences(FOUND)
    assert table["method"].tolist() == ["fedpdc"]
    assert table.loc[0, "mean"] == "+0.10 ± 0.00"  # 0.7 - 0.6 and 0.6 - 0.5
    assert table.loc[0, "worst"] == "+0.10 ± 0.14"  # 0.6 - 0.4 and 0.4 - 0.4


def test_each_sites_rarest_class_has_a_row():
    table = site_table(FOUND).set_index("site")
    assert table.loc["a", "fedpdc"] == "0.50 ± 0.14"


@pytest.mark.parametrize(
    ("deltas", "says"),
    [([0.1, 0.1], "too few seeds"), ([0.10, 0.11, 0.12], "yes (p = 0.003)"), ([0.1, -0.1, 0.02], "not significant")],
)
def test_only_what_chance_does_not_explain_is_called_a_difference(deltas, says):
    """0.10, 0.11, 0.12: mean 0.11, standard error 0.01 / sqrt(3), t = 19.05 with 2 degrees of freedom, p = 0.0027."""
    assert beyond_chance(deltas).startswith(says)


def test_one_seed_has_no_spread():
    assert mean_spread([0.5]) == "0.50"
    assert mean_spread([0.5], signed=True) == "+0.50"
