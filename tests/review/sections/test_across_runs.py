"""What a simulation ends with, in words, from runs whose counts are known."""

import pytest

from fedpdc_med.review.sections.across_runs import closing
from fedpdc_med.runs.directory import read_run


@pytest.fixture
def runs(write_run, tmp_path):
    """fedpdc finds 18 of 20 and 10 of 20, fedavg 17 of 20 and 19 of 20."""
    ours = {"normal": (18, 20), "covid-19": (10, 20)}
    theirs = {"normal": (17, 20), "covid-19": (19, 20)}
    folders = {
        "fedpdc": write_run(tmp_path / "ours", ours, external=ours),
        "fedavg": write_run(tmp_path / "theirs", theirs, method="fedavg", external=theirs),
    }
    return {name: read_run(folder) for name, folder in folders.items()}


def test_the_worst_class_stands_first_and_macro_recall_last(runs):
    table = closing(runs, "fedpdc")[0].tables[0].frame.set_index("class (films)")
    assert list(table.index) == ["covid-19 (20)", "normal (20)", "macro recall"]
    assert table.loc["covid-19 (20)", "fedpdc"] == "0.50 (0.30-0.70)"  # Wilson's interval of 10 in 20
    assert table.loc["macro recall"].tolist() == ["0.70", "0.90"]  # (0.90 + 0.50) / 2 and (0.85 + 0.95) / 2


def test_it_says_where_a_compared_method_is_better_and_whether_that_may_be_chance(runs):
    """On covid-19 nine films more, and none fewer, are right: p = 2 / 2^9 = 0.004, doubled by Holm for two classes."""
    notes = " ".join(closing(runs, "fedpdc")[0].notes)
    assert "fedavg is better than fedpdc at: covid-19 (0.95 against 0.50, p = 0.008)." in notes
    other = " ".join(closing(runs, "fedavg")[0].notes)
    assert "fedpdc is better than fedavg at: normal (0.90 against 0.85, may be chance)." in other
    assert "is better" not in " ".join(closing({"fedpdc": runs["fedpdc"]}, "fedpdc")[0].notes)


def test_each_site_has_a_row_and_an_external_site_a_sentence(runs):
    _, sites, outside = closing(runs, "fedpdc")
    frame = sites.tables[0].frame
    assert frame["site"].tolist() == ["harbor", "hill"]
    assert frame["rarest class"].tolist() == ["normal (10)", "normal (10)"]
    assert frame["its recall"].tolist() == ["0.90", "0.90"]
    assert "External test at island (not used in training): covid-19 0.50 (0.30-0.70)" in outside.sentences[0]
