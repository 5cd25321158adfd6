"""The same charts as still pictures for the report: SVG, sharp in print, without network or script."""

import base64
import io
import threading
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from fedpdc_med.common.description import Chart
from fedpdc_med.review.style import (
    ACCENT,
    DIVERGING,
    FAINT,
    FEW,
    GRID,
    INK,
    MUTED,
    PALETTE,
    SHADES,
    WARN,
    colour_of,
    cut,
    nested,
    roomier_sides,
    round_of,
)

# Names come from runs: a dollar sign in one must not start a formula. Text becomes paths, so no font is needed.
STYLE: dict[Any, Any] = {
    "text.parse_math": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "fedpdc",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
DASHES = ("-", "--", ":", "-.")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
MOST_NAMED = 60
_one_at_a_time = threading.Lock()  # matplotlib's settings belong to the whole process


def picture(chart: Chart) -> str:
    """The chart as a `data:` address."""
    with _one_at_a_time, matplotlib.rc_context(STYLE):
        file = io.BytesIO()
        figure(chart).savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()


def figure(chart: Chart) -> Figure:
    draw, height = KINDS[chart.kind]
    one = Figure(figsize=(7, min(8.5, height(chart.frame))), layout="constrained")
    draw(chart, one)
    return one


def intervals(chart: Chart, one: Figure) -> None:
    frame, marks = chart.frame, chart.marks
    axes = _axes(chart, one)
    known = frame[frame["value"].notna()]
    rows = np.flatnonzero(frame["value"].notna())
    axes.errorbar(known["value"], rows, xerr=_errors(known, "value"), fmt="none", ecolor=INK, capsize=3)
    for row, (_, point) in zip(rows, known.iterrows(), strict=True):
        colour = WARN if point.get("warn") else ACCENT
        axes.plot(point["value"], row, "o", color=colour, mfc="white" if point.get("open") else colour, markersize=6)
    beside = [f" ({text})" for text in frame["beside"]] if "beside" in frame else [""] * len(frame)
    _named_rows(axes, [cut(name, 24) + text for name, text in zip(frame["name"], beside, strict=True)])
    _lines_across(axes, marks.get("lines", {}), marks.get("span", (0, 1)))
    if "span" in marks:
        axes.set_xlim(*marks["span"])
    axes.grid(axis="x", color=GRID, lw=0.8)


def matrix(chart: Chart, one: Figure) -> None:
    frame, marks = chart.frame, chart.marks
    axes = _axes(chart, one)
    values = frame.to_numpy(dtype=float)
    low, high = marks.get("span", (None, None))
    shades = DIVERGING if marks.get("diverging") else SHADES
    shown = axes.imshow(
        np.ma.masked_invalid(values), cmap=LinearSegmentedColormap.from_list("", shades), vmin=low, vmax=high,
        aspect="equal" if marks.get("square") else "auto", interpolation="nearest",
    )  # fmt: skip
    if marks.get("text") is None:
        one.colorbar(shown, ax=axes, label=marks.get("shade", ""))
    else:
        dark = Normalize(low, high)(values) > 0.8 if not marks.get("diverging") else np.zeros(values.shape, bool)
        for (row, column), text in np.ndenumerate(marks["text"].to_numpy()):
            colour = "white" if dark[row, column] else INK
            axes.text(column, row, str(text), ha="center", va="center", color=colour, fontsize=7)
    for row, column, kind in marks.get("outlined", ()):
        if kind != "chosen":
            axes.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=WARN, lw=1.2))
    if pd.api.types.is_numeric_dtype(frame.columns):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.xaxis.set_major_formatter(lambda place, _: _at(frame.columns, place))
    else:
        turned = len(frame.columns) > 4
        axes.set_xticks(range(len(frame.columns)), [cut(name, 16) for name in frame.columns])
        axes.tick_params(axis="x", rotation=45 if turned else 0)
    _named_rows(axes, [cut(name, 24) for name in frame.index])


def lines(chart: Chart, one: Figure) -> None:
    frame, bold = chart.frame, chart.marks.get("bold")
    if len(frame.columns) - (bold is not None) > FEW:
        return matrix(Chart("matrix", frame.T, (chart.axes[0], ""), chart.says, {"shade": chart.axes[1]}), one)
    axes = _axes(chart, one)
    sizes = nested(frame, 3.5)
    for place, name in enumerate(frame.columns):
        thick = name == bold
        colour, values = "black" if thick else colour_of(place), frame.iloc[:, place]
        style = DASHES[round_of(place) % len(DASHES)]
        axes.plot(frame.index, values, style, color=colour, lw=2.4 if thick else 1.3, label=cut(name, 24))
        axes.scatter(frame.index, values, sizes[:, place] ** 2, color=colour, zorder=2 + place / 100)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=GRID, lw=0.8)
    axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8)


def bars(chart: Chart, one: Figure) -> None:
    """Hatched, so that a print without colour is readable."""
    frame = chart.frame
    axes = _axes(chart, one)
    left = np.zeros(len(frame))
    for place, name in enumerate(frame.columns):
        number = frame.iloc[:, place].to_numpy(dtype=float)
        hatch = HATCHES[(place + round_of(place)) % len(HATCHES)]
        axes.barh(
            range(len(frame)), number, left=left, color=colour_of(place), hatch=hatch, edgecolor="white", lw=0.5,
            label=cut(name, 24),
        )  # fmt: skip
        left += number
    _named_rows(axes, [cut(name, 30) for name in frame.index])
    axes.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)


def pairs(chart: Chart, one: Figure) -> None:
    frame, rows = chart.frame, range(len(chart.frame))
    axes = _axes(chart, one)
    axes.hlines(rows, frame["first"], frame["second"], color=FAINT, lw=2, zorder=1)
    axes.scatter(frame["first"], rows, 36, facecolors="white", edgecolors=INK, label=cut(chart.marks["first"], 40))
    axes.scatter(frame["second"], rows, 36, color=ACCENT, label=cut(chart.marks["second"], 40))
    _named_rows(axes, [cut(name, 30) for name in frame["name"]])
    axes.set_xlim(left=0)
    axes.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)


def curves(chart: Chart, one: Figure) -> None:
    frame, marks = chart.frame, chart.marks
    axes = _axes(chart, one)
    if marks.get("diagonal"):
        axes.plot([0, 1], [0, 1], ":", color=MUTED, lw=1)
    order = list(marks.get("order", frame["name"].unique()))
    for name, curve in frame.groupby("name", sort=False):
        place = order.index(name)
        style = DASHES[(place + place // len(PALETTE)) % len(DASHES)]
        if "low" in curve:
            axes.fill_between(curve["x"], curve["low"], curve["high"], color=colour_of(place), alpha=0.15, lw=0)
        axes.plot(curve["x"], curve["y"], style, color=colour_of(place), lw=1.6, label=cut(name, 24))
    _lines_across(axes, marks.get("lines", {}), (0, 1))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.grid(color=GRID, lw=0.8)
    axes.legend(frameon=False, fontsize=8)


def reliability(chart: Chart, one: Figure) -> None:
    frame = chart.frame
    upper, lower = one.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    filled = frame[frame["count"] > 0]
    upper.plot([0, 1], [0, 1], ":", color=MUTED, lw=1)
    upper.errorbar(
        filled["predicted"], filled["observed"], yerr=_errors(filled, "observed"), fmt="o-", color=ACCENT, capsize=3
    )
    upper.set_ylim(-0.02, 1.02)
    upper.set_ylabel(chart.axes[1])
    upper.grid(axis="y", color=GRID, lw=0.8)
    middle, width = (frame["from"] + frame["to"]) / 2, (frame["to"] - frame["from"]) * 0.9
    found = lower.bar(middle, frame["count"], width, color=FAINT, edgecolor=MUTED)
    lower.bar_label(found, fontsize=7)
    lower.margins(y=0.3)
    lower.set_ylabel("Films")
    lower.set_xlim(0, 1)
    lower.set_xlabel(chart.axes[0])


Draw = Callable[[Chart, Figure], None]
Height = Callable[[pd.DataFrame], float]
KINDS: Mapping[str, tuple[Draw, Height]] = {
    "intervals": (intervals, lambda frame: 1.0 + 0.32 * len(frame)),
    "matrix": (matrix, lambda frame: 1.9 + 0.4 * len(frame)),
    "lines": (lines, lambda frame: 3.2 if len(frame.columns) <= FEW + 1 else 1.9 + 0.2 * len(frame.columns)),
    "bars": (bars, lambda frame: 1.2 + 0.3 * len(frame)),
    "pairs": (pairs, lambda frame: 1.2 + 0.3 * len(frame)),
    "curves": (curves, lambda frame: 4.2),
    "reliability": (reliability, lambda frame: 4.2),
}


def _axes(chart: Chart, one: Figure) -> Axes:
    axes = one.subplots()
    axes.set_xlabel(chart.axes[0])
    axes.set_ylabel(chart.axes[1])
    axes.set_axisbelow(True)
    return axes


def _named_rows(axes: Axes, names: list[str]) -> None:
    """The first row is at the top; a great many rows are not named."""
    axes.set_yticks(range(len(names)), names) if len(names) <= MOST_NAMED else axes.set_yticks([])
    axes.set_ylim(len(names) - 0.5, -0.5)


def _errors(frame: pd.DataFrame, value: str) -> np.ndarray:
    return np.stack([frame[value] - frame["low"], frame["high"] - frame[value]]).clip(min=0)


def _lines_across(axes: Axes, places: Mapping[str, float], span: tuple[float, float]) -> None:
    sides = roomier_sides(places, span)
    for word, place in places.items():
        axes.axvline(place, color=MUTED if word else INK, ls=":" if word else "-", lw=1)
        if word:
            axes.annotate(
                word, (place, 1), xycoords=("data", "axes fraction"), fontsize=7, color=MUTED, va="bottom",
                ha="right" if sides[word] == "left" else "left",
            )  # fmt: skip


def _at(names: pd.Index, place: float) -> str:
    return str(names[int(place)]) if 0 <= place < len(names) and place == int(place) else ""
