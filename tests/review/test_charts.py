"""Every kind of chart shows the numbers of `evaluation`, the right way up, in the app and in the report."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from fedpdc_med.common.description import Chart
from fedpdc_med.evaluation.calibration import reliability
from fedpdc_med.evaluation.confusion import by_row, confusion
from fedpdc_med.evaluation.discrimination import roc
from fedpdc_med.evaluation.operating_points import threshold_table
from fedpdc_med.evaluation.paired import compare
from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.evaluation.sites import site_by_class
from fedpdc_med.review import plotly_charts, svg_charts
from fedpdc_med.review.sections import calibration, comparison, contributions, operating_points, overview, recall
from fedpdc_med.review.sections.confusion import matrix_chart
from fedpdc_med.review.style import roomier_sides
from fedpdc_med.runs.listing import Choice, open_run
from fedpdc_med.runs.predictions import display_name, select

HOLDOUT = Choice(split="holdout")


@pytest.fixture
def run(tmp_path, write_run):
    write_run(tmp_path / "a", local={"normal": (1, 2), "pneumonia": (4, 4), "covid-19": (0, 3), "tuberculosis": (1, 5)})
    return open_run(tmp_path, "a")


@pytest.fixture
def holdout(run):
    return select(run.predictions, model="global", split="holdout")


def app(chart: Chart):
    """The figure and its first trace."""
    figure = plotly_charts.figure(chart)
    return figure, figure.data[0]


def paper(chart: Chart) -> Axes:
    return svg_charts.figure(chart).axes[0]


def names(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def test_intervals_of_recall_are_those_of_evaluation_the_worst_on_top(run, holdout):
    (chart,) = recall.per_class(run, HOLDOUT).charts
    found = per_class_recall(holdout)
    figure, points = app(chart)
    assert list(points.x) == list(found["recall"]) and list(points.y) == [0, 1, 2, 3]
    assert list(points.x - points.error_x.arrayminus) == pytest.approx(found["low"])
    assert list(points.x + points.error_x.array) == pytest.approx(found["high"])
    assert list(figure.layout.yaxis.ticktext) == [display_name(name) for name in found["class"]]
    assert figure.layout.yaxis.range == (3.5, -0.5)  # the first row is at the top
    assert [note.text for note in figure.layout.annotations] == ["5/20", "16/20", "18/20", "19/20"]
    axes = paper(chart)
    assert [line.get_xydata()[0].tolist() for line in axes.lines if line.get_marker() == "o"] == [
        [value, row] for row, value in enumerate(found["recall"])
    ]
    ends = np.array(axes.containers[0].lines[2][0].get_segments())
    assert ends[:, :, 0] == pytest.approx(found[["low", "high"]].to_numpy())
    assert names(axes.yaxis)[0] == "tuberculosis (5/20)" and axes.get_ylim() == (3.5, -0.5)


def test_a_difference_is_second_less_first_and_open_where_it_may_be_chance(frame_of):
    labels = ["normal"] * 20 + ["pneumonia"] * 20
    first = frame_of(labels, ["normal"] * 20 + ["normal"] * 20)
    second = frame_of(labels, ["normal"] * 19 + ["pneumonia"] * 21)
    found = compare(first, second).by_class
    figure, points = app(comparison.differences(found))
    assert points.x[0] == pytest.approx(-0.05) and points.x[1] == 1.0
    assert list(points.marker.symbol[:2]) == ["circle-open", "circle"]
    low, high = figure.layout.xaxis.range
    assert low == -high and figure.layout.shapes[0].x0 == 0


def test_a_confusion_matrix_has_true_classes_in_rows_from_the_top(frame_of):
    # 3 normal films predicted as pneumonia, and none the other way.
    frame = frame_of(["normal"] * 4 + ["pneumonia"] * 2, ["pneumonia"] * 3 + ["normal"] + ["pneumonia"] * 2)
    counts = confusion(frame)
    chart = matrix_chart(counts, ("normal", "pneumonia"))
    figure, heat = app(chart)
    assert np.array(heat.z)[0, :2].tolist() == [0.25, 0.75] and np.array(heat.z)[1, :2].tolist() == [0, 1]
    assert heat.text[0][1] == "3<br>75%"
    assert list(figure.layout.yaxis.ticktext) == ["normal", "pneumonia", "COVID-19"]
    assert figure.layout.yaxis.range == (2.5, -0.5) and figure.layout.xaxis.range == (-0.5, 2.5)
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == chart.axes
    missed, _, shown = figure.layout.shapes  # pneumonia and COVID-19 predicted as normal; the cell that is looked at
    assert (missed.x0 < 0 < missed.x1, missed.y0 < 1 < missed.y1) == (True, True)
    assert (shown.x0, shown.x1, shown.y0, shown.y1) == (0.5, 1.5, -0.5, 0.5)
    axes = paper(chart)
    drawn = np.ma.filled(axes.images[0].get_array(), np.nan)
    assert np.array_equal(drawn, by_row(counts).to_numpy(), equal_nan=True)
    assert names(axes.yaxis) == ["normal", "pneumonia", "COVID-19"] and axes.get_ylim() == (2.5, -0.5)
    assert {(text.get_position(), text.get_text()) for text in axes.texts} >= {((1, 0), "3\n75%"), ((0, 1), "0\n0%")}


def test_a_matrix_of_sites_has_a_row_a_site(run):
    (part,) = recall.by_site(run, Choice(split="local")).parts
    found = site_by_class(select(run.predictions, model="global", split="local"))
    figure, heat = app(part.charts[0])
    assert np.array(heat.z).tolist() == [
        found.loc[found["site"] == site, "recall"].tolist() for site in ("harbor", "hill")
    ]
    assert list(heat.text[0]) == ["1/2", "4/4", "0/3", "1/5"]
    assert list(figure.layout.xaxis.ticktext) == ["normal", "pneumonia", "COVID-19", "tuberculosis"]
    assert list(figure.layout.yaxis.ticktext) == ["harbor", "hill"]


def test_own_and_global_is_blue_where_the_global_model_is_better(tmp_path, write_run):
    found = {"normal": (8, 10), "pneumonia": (1, 10)}
    write_run(tmp_path / "b", found, local=found, own={"normal": (4, 10), "pneumonia": (6, 10)})
    (chart,) = recall.own_and_global(open_run(tmp_path, "b"), Choice(split="local")).charts
    _, heat = app(chart)
    assert np.array(heat.z)[0].tolist() == pytest.approx([0.4, -0.5])
    assert list(heat.text[0]) == ["0.40 → 0.80", "0.60 → 0.10"]
    assert heat.colorscale[-1][1] == "#6fa8d0" and (heat.zmin, heat.zmax) == (-1, 1)


def test_lines_over_the_rounds_and_their_mean(run):
    (chart,) = recall.by_round(run).charts
    figure, first = app(chart)
    assert list(first.x) == [1, 2, 3, 4] and list(first.y) == [19 / 20] * 4
    mean = (19 + 16 + 18 + 5) / 80
    assert figure.data[-1].name == "macro recall" and list(figure.data[-1].y) == pytest.approx([mean] * 4)
    lines = paper(chart).lines
    assert [line.get_ydata()[0] for line in lines] == pytest.approx([0.95, 0.8, 0.9, 0.25, mean])
    bottom, top = paper(chart).get_ylim()
    assert bottom < top


def test_bars_stack_the_training_films_of_a_site(run):
    (chart,) = overview.sites(run).charts
    figure, _ = app(chart)
    assert figure.layout.barmode == "stack" and list(figure.layout.yaxis.ticktext) == ["harbor", "hill"]
    assert [list(bar.x) for bar in figure.data] == [[10, 10], [11, 11], [12, 12], [13, 13]]
    bars = paper(chart).patches
    assert [bar.get_width() for bar in bars[::2]] == [10, 11, 12, 13]
    assert [bar.get_x() for bar in bars[::2]] == [0, 10, 21, 33]  # of harbor, one after the other


def test_pairs_join_the_weight_of_fedavg_to_that_of_the_run(run):
    (chart,) = contributions.weights(run).charts
    figure, first = app(chart)
    assert list(figure.layout.yaxis.ticktext) == ["harbor", "hill"]
    # harbor has 30 of 40 films; all updates weighed the same.
    assert (list(first.x), first.marker.symbol) == ([0.75, 0.25], "circle-open")
    assert (list(figure.data[1].x), figure.data[1].marker.symbol) == ([0.5, 0.5], "circle")
    fedavg, weight = paper(chart).collections[1:]
    assert fedavg.get_offsets().tolist() == [[0.75, 0], [0.25, 1]]
    assert weight.get_offsets().tolist() == [[0.5, 0], [0.5, 1]]


def test_roc_curves_rise_from_false_alarms_to_the_right(run, random_frame, holdout):
    chart = calibration.ranking(run, HOLDOUT).charts[0]
    found = roc(holdout, "normal")
    figure, _ = app(chart)
    curve = next(line for line in figure.data if line.name == "normal")
    assert list(curve.x) == list(found["false_positive_rate"]) and list(curve.y) == list(found["sensitivity"])
    assert (figure.layout.xaxis.range, figure.layout.yaxis.range) == ((0, 1), (0, 1.02))
    axes = paper(chart)
    line = next(line for line in axes.lines if line.get_label() == "normal")
    assert line.get_xydata().tolist() == found[["false_positive_rate", "sensitivity"]].to_numpy().tolist()
    assert axes.get_ylim() == (0, 1.02)


def test_threshold_curves_have_their_bands_and_the_chosen_line(holdout):
    table = threshold_table(holdout, "pneumonia")
    section = operating_points.at_threshold(holdout, table, "pneumonia", 0.3, 10, 0.7, "other films")
    figure, band = app(section.charts[0])
    curves = {line.name: line for line in figure.data if line.name}
    assert list(curves["sensitivity"].y) == list(table["sensitivity"])
    assert list(curves["specificity"].y) == list(table["specificity"])
    assert list(band.y) == [*table["sensitivity_high"], *table["sensitivity_low"][::-1]]
    assert [shape.x0 for shape in figure.layout.shapes] == [0.3, 0.7]
    axes = paper(section.charts[0])
    assert axes.lines[0].get_ydata().tolist() == list(table["sensitivity"])
    assert [line.get_xdata()[0] for line in axes.lines[2:]] == [0.3, 0.7]


def test_reliability_has_the_predicted_probability_across_and_the_observed_upwards(run, holdout):
    (chart,) = calibration.probabilities(run, HOLDOUT).charts
    found = reliability(holdout)
    filled = found[found["count"] > 0]
    figure, _ = app(chart)
    model, bars = figure.data[1:]
    assert (list(model.x), list(model.y)) == (list(filled["predicted"]), list(filled["observed"]))
    assert list(bars.y) == list(found["count"])
    assert figure.layout.yaxis.range == (-0.03, 1.03)
    upper, lower = svg_charts.figure(chart).axes
    assert upper.lines[1].get_xydata().tolist() == filled[["predicted", "observed"]].to_numpy().tolist()
    assert [bar.get_height() for bar in lower.patches] == list(found["count"])
    assert upper.get_ylim() == (-0.02, 1.02)


def wide(rounds, columns):
    return pd.DataFrame({name: [0.5] * rounds for name in columns}, index=range(1, rounds + 1))


def over_rounds(frame):
    return Chart("lines", frame, ("Round", "Score"), "Score by round")


@pytest.mark.parametrize(("rounds", "step"), [(1, 1), (3, 1), (11, 1), (20, 2), (40, 5), (100, 10), (300, 50)])
def test_ticks_are_whole_rounds(rounds, step):
    few, many = (plotly_charts.figure(over_rounds(wide(rounds, range(lines)))) for lines in (3, 12))
    assert few.layout.xaxis.dtick == step
    assert [int(text) % step for text in many.layout.xaxis.ticktext] == [0] * (rounds // step)


@pytest.mark.parametrize("lines", [2, 4, 10])
def test_lines_that_coincide_all_show(lines):
    sizes = [list(line.marker.size) for line in plotly_charts.figure(over_rounds(wide(3, range(lines)))).data]
    for below, above in pairwise(sizes):  # a later line is drawn on the earlier ones
        assert all(large - small >= 1.5 for large, small in zip(below, above, strict=True))
    assert sizes[-1] == [7, 7, 7] and max(sizes[0]) <= 25


def test_points_that_stand_alone_are_all_of_one_size():
    lines = pd.DataFrame({"a": [0.1, 0.5], "b": [0.4, 0.5], "c": [0.9, None]}, index=[1, 2])
    sizes = [list(line.marker.size) for line in plotly_charts.figure(over_rounds(lines)).data]
    assert sizes == [[7, pytest.approx(11.2)], [7, 7], [7, 7]]  # in round 2 b lies on a


def test_a_great_many_lines_become_the_rows_of_a_matrix():
    frame = pd.DataFrame({f"site {k}": [0.0, k / 100] for k in range(20)}, index=[1, 2])
    _, heat = app(over_rounds(frame))
    assert np.array(heat.z)[:, 1].tolist() == [k / 100 for k in range(20)]
    assert paper(over_rounds(frame)).images[0].get_array()[19].tolist() == [0, 0.19]


def test_text_of_a_run_is_no_markup_in_a_figure_and_long_names_are_cut():
    assert plotly_charts.drawn("<b>x</b> & y") == "&lt;b&gt;x&lt;/b&gt; &amp; y"
    assert plotly_charts.drawn("a" * 50, 10) == "a" * 9 + "…"


def test_twenty_lines_have_twenty_looks():
    frame = wide(2, range(9))
    looks = {(line.line.color, line.line.dash) for line in plotly_charts.figure(over_rounds(frame)).data}
    assert len(looks) == 9


def test_words_at_lines_that_are_close_go_to_different_sides():
    sides = roomier_sides({"chance": 0.5, "possible risk": 0.6, "high risk": 0.8}, (0.3, 1.02))
    assert sides == {"chance": "left", "possible risk": "right", "high risk": "right"}
    assert roomier_sides({"": 0.25, "chosen": 0.3})["chosen"] == "right"
    assert roomier_sides({"chosen": 0.7}) == {"chosen": "left"}
