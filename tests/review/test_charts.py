"""Figures over the rounds."""

from itertools import pairwise

import pandas as pd
import pytest

from fedpdc_med.review.figures.lines import over_rounds


def wide(rounds, columns):
    return pd.DataFrame({name: [0.5] * rounds for name in columns}, index=range(1, rounds + 1))


@pytest.mark.parametrize(("rounds", "step"), [(1, 1), (3, 1), (11, 1), (20, 2), (40, 5), (100, 10), (300, 50)])
@pytest.mark.parametrize("lines", [3, 12])  # lines, and a matrix
def test_ticks_are_whole_rounds(rounds, step, lines):
    names = {f"site {k}": f"site {k}" for k in range(lines)}
    assert over_rounds(wide(rounds, names), "Score", "Site", names).layout.xaxis.dtick == step


@pytest.mark.parametrize("lines", [2, 4, 10])
def test_lines_that_coincide_all_show(lines):
    names = {f"site {k}": f"site {k}" for k in range(lines)}
    sizes = [list(line.marker.size) for line in over_rounds(wide(3, names), "Score", "Site", names).data]
    for below, above in pairwise(sizes):  # a later line is drawn on the earlier ones
        assert all(large - small >= 1.5 for large, small in zip(below, above, strict=True))
    assert sizes[-1] == [7, 7, 7] and max(sizes[0]) <= 25


def test_points_that_stand_alone_are_all_of_one_size():
    names = {"a": "a", "b": "b", "c": "c"}
    lines = pd.DataFrame({"a": [0.1, 0.5], "b": [0.4, 0.5], "c": [0.9, None]}, index=[1, 2])
    sizes = [list(line.marker.size) for line in over_rounds(lines, "Score", "Site", names).data]
    assert sizes == [[7, pytest.approx(11.2)], [7, 7], [7, 7]]  # in round 2 b lies on a
