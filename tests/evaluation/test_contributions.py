import numpy as np
import pytest

from fedpdc_med.evaluation.contributions import not_used, recall_rounds, site_rounds, site_shares, spans
from fedpdc_med.runs.schema import Round


def rounds_of(*records):
    return [Round(**{"seconds": 1.0, "accuracy": 0.5, "recall": {}, **record}) for record in records]


# Two sites count in round 1 with 30 and 10 films; in round 2 only a does, c is rejected throughout.
ROUNDS = rounds_of(
    {
        "round": 1,
        "accuracy": 0.5,
        "recall": {"normal": 0.4, "covid-19": None},
        "sites": {
            "a": {"status": "ok", "films": 30, "loss": 1.0, "score": 0.2, "weight": 0.4, "dissimilarity": 2.0},
            "b": {"status": "ok", "films": 10, "loss": 1.0, "score": 0.3, "weight": 0.6, "dissimilarity": None},
            "c": {"status": "rejected", "reason": "its training loss is not finite"},
        },
    },
    {
        "round": 2,
        "accuracy": 0.6,
        "recall": {"normal": 0.7},
        "sites": {
            "a": {"status": "ok", "films": 30, "loss": 0.9, "score": 0.4, "weight": 1.0, "dissimilarity": 1.5},
            "b": {"status": "absent", "reason": "not sampled"},
            "c": {"status": "rejected", "reason": "its training loss is not finite"},
        },
    },
)


def test_fedavg_would_have_weighed_by_films_among_the_used_sites():
    table = site_rounds(ROUNDS).set_index(["round", "site"])
    assert table.loc[(1, "a"), "fedavg"] == pytest.approx(0.75)
    assert table.loc[(1, "b"), "fedavg"] == pytest.approx(0.25)
    assert np.isnan(table.loc[(1, "c"), "fedavg"])
    assert table.loc[(2, "a"), "fedavg"] == 1.0


def test_a_site_that_was_not_used_adds_nothing_to_its_mean_weight():
    shares = site_shares(site_rounds(ROUNDS)).set_index("site")
    assert shares.index.tolist() == ["a", "b", "c"]
    assert shares.loc["a", "weight"] == pytest.approx(0.7)  # (0.4 + 1.0) / 2
    assert shares.loc["b", ["weight", "fedavg"]].tolist() == pytest.approx([0.3, 0.125])
    assert shares.loc["b", "ratio"] == pytest.approx(2.4)
    assert shares.loc["b", ["rounds", "used"]].tolist() == [2, 1]
    assert shares.loc["a", "score"] == pytest.approx(0.3)
    assert shares.loc["c", "weight"] == 0 and np.isnan(shares.loc["c", "ratio"])


def test_epsilon_is_the_one_of_the_last_round_and_unknown_without_noise():
    one = {"status": "ok", "films": 1, "weight": 0.5}
    rounds = rounds_of(*({"round": t, "sites": {"a": {**one, "epsilon": 2.0 * t}, "b": one}} for t in (1, 2)))
    shares = site_shares(site_rounds(rounds)).set_index("site")
    assert shares.loc["a", "epsilon"] == 4.0 and np.isnan(shares.loc["b", "epsilon"])


def test_absent_and_rejected_sites_are_listed_with_reason_and_rounds():
    table = not_used(site_rounds(ROUNDS))
    assert table.to_dict("records") == [
        {"site": "b", "status": "absent", "reason": "not sampled", "rounds": "2", "count": 1},
        {
            "site": "c",
            "status": "rejected",
            "reason": "its training loss is not finite",
            "rounds": "1-2",
            "count": 2,
        },
    ]


def test_rounds_are_written_as_spans():
    assert spans([7, 1, 3, 2, 9]) == "1-3, 7, 9"
    assert spans([]) == ""


def test_recall_over_rounds_is_nan_where_a_round_does_not_know_it():
    table = recall_rounds(ROUNDS, ["normal", "covid-19"])
    assert table["normal"].tolist() == [0.4, 0.7]
    assert table["covid-19"].isna().all()
    assert table["round"].tolist() == [1, 2]


def test_no_rounds_make_empty_tables():
    assert len(site_rounds([])) == 0
    assert len(site_shares(site_rounds([]))) == 0
    assert len(not_used(site_rounds([]))) == 0
    assert len(recall_rounds([], ["normal"])) == 0


def test_a_round_that_does_not_name_a_site_counts_as_nothing_from_it():
    one = {"status": "ok", "films": 10, "weight": 0.5}
    rounds = rounds_of(
        {"round": 1, "sites": {"a": one, "b": one}}, {"round": 2, "sites": {"a": {**one, "weight": 1.0}}}
    )
    shares = site_shares(site_rounds(rounds)).set_index("site")
    assert shares.loc["b", ["weight", "fedavg"]].tolist() == [0.25, 0.25]
    assert shares.loc["a", ["weight", "fedavg"]].tolist() == [0.75, 0.75]
