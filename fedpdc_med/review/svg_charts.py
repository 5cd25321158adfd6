"""Still pictures of the report, as data addresses of SVG files: no network, no script, sharp in print."""

import base64
import io
import math
import threading
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedpdc_med.evaluation.confusion import by_row
from fedpdc_med.review.app.widgets import ACCENT, FAINT, INK, MUTED, PALETTE, nested
from fedpdc_med.runs.predictions import spoken

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
MOST_NAMED = 25
_one_at_a_time = threading.Lock()  # matplotlib's settings belong to the whole process


def name_of(label: str, longest: int = 24) -> str:
    words = " ".join(spoken(label).split())
    return words if len(words) <= longest else words[: longest - 1] + "…"


def _drawn(width: float, height: float, draw: Callable[[Figure], None]) -> str:
    with _one_at_a_time, matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()


def recall_picture(table: pd.DataFrame) -> str:
    """From `per_class_recall`: a point and its interval for each class, worst on top."""
    shown = table.iloc[::-1].reset_index(drop=True)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        known = shown[shown["recall"].notna()]
        spread = np.abs(np.stack([known["recall"] - known["low"], known["high"] - known["recall"]]))
        axes.errorbar(known["recall"], known.index, xerr=spread, fmt="o", color=ACCENT, capsize=3, markersize=6)
        labels = [f"{name_of(name)} ({n} of {of})" for name, n, of in shown[["class", "correct", "total"]].to_numpy()]
        axes.set_yticks(range(len(shown)), labels)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        _share_axis(axes, "x", "recall, with its 95 % interval")

    return _drawn(7, 1.0 + 0.32 * len(shown), draw)


def rounds_picture(rounds: list[dict[str, Any]], classes: list[str]) -> str:
    """Recall of each class over the rounds; their mean in black."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        number = [record["round"] for record in rounds]
        values = {name: [_float(record.get("recall", {}).get(name)) for record in rounds] for name in classes}
        if len(classes) <= 10:
            sizes = nested(pd.DataFrame(values), 3.5)
            for place, name in enumerate(classes):
                style = DASHES[(place // len(PALETTE)) % len(DASHES)]
                colour = PALETTE[place % len(PALETTE)]
                axes.plot(number, values[name], style, color=colour, lw=1.3, label=name_of(name))
                axes.scatter(number, values[name], sizes[name] ** 2, color=colour, zorder=2 + place / 100)
        table = np.array(list(values.values()), dtype=float)
        known = ~np.isnan(table).all(axis=0)
        mean = np.full(len(number), np.nan)
        mean[known] = np.nanmean(table[:, known], axis=0)
        worst = np.full(len(number), np.nan)
        worst[known] = np.nanmin(table[:, known], axis=0)
        axes.plot(number, mean, "-", color="black", lw=2.4, label="mean of classes")
        if len(classes) > 10:
            axes.plot(number, worst, "--", color="black", lw=1.4, label="worst class")
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _share_axis(axes, "y", "recall")
        axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8)

    return _drawn(7, 3.2, draw)


def confusion_picture(counts: pd.DataFrame) -> str:
    """Shade is the share of the row; up to a dozen classes each cell says its films."""
    shares = by_row(counts).to_numpy(dtype=float)
    classes, number = [str(name) for name in counts.index], len(counts)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.imshow(np.nan_to_num(shares), cmap="Blues", vmin=0, vmax=1.15)
        if number <= 12:
            for row in range(number):
                for column in range(number):
                    share = shares[row, column]
                    text = str(counts.iat[row, column]) + ("" if math.isnan(share) else f"\n{share:.0%}")
                    colour = "white" if share > 0.7 else INK
                    axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
        names = [name_of(name, 16) for name in classes] if number <= MOST_NAMED else []
        axes.set_xticks(
            range(len(names)), names, rotation=45 if number > 4 else 0, ha="right" if number > 4 else "center"
        )
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("called by the model")
        axes.set_ylabel("true class")

    side = min(6.4, 1.9 + 0.62 * number)
    return _drawn(side + 0.8, side, draw)


def reliability_picture(curve: pd.DataFrame) -> str:
    """From `reliability`: promised against came true, and the films of each bin."""

    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        filled = curve[curve["count"] > 0]
        upper.plot([0, 1], [0, 1], ":", color=MUTED, lw=1)
        spread = np.abs(np.stack([filled["observed"] - filled["low"], filled["high"] - filled["observed"]]))
        upper.errorbar(filled["promised"], filled["observed"], yerr=spread, fmt="o-", color=ACCENT, capsize=3)
        _share_axis(upper, "y", "share that came true")
        middle, width = (curve["from"] + curve["to"]) / 2, (curve["to"] - curve["from"]) * 0.9
        bars = lower.bar(middle, curve["count"], width, color=FAINT, edgecolor=MUTED)
        lower.bar_label(bars, fontsize=7)
        lower.margins(y=0.3)
        lower.set_ylabel("films")
        lower.set_xlim(0, 1)
        lower.set_xlabel("probability of the called class")

    return _drawn(5.6, 4.2, draw)


def training_picture(training: pd.DataFrame, title_of: Callable[[str], str]) -> str:
    """Training films of each class, one bar a site; hatched, so that a print without colour can be read."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        sites = [name_of(title_of(str(site)), 30) for site in training.index]
        left = np.zeros(len(training))
        for place, name in enumerate(training.columns):
            number = training[name].to_numpy(dtype=float)
            colour, hatch = PALETTE[place % len(PALETTE)], HATCHES[(place + place // len(PALETTE)) % len(HATCHES)]
            axes.barh(
                range(len(sites)), number, left=left, color=colour, hatch=hatch, edgecolor="white", lw=0.5,
                label=name_of(str(name)),
            )  # fmt: skip
            left += number
        axes.set_yticks(range(len(sites)), sites)
        axes.invert_yaxis()
        axes.set_xlabel("training films")
        axes.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)

    return _drawn(7, min(8.5, 1.2 + 0.3 * len(training)), draw)


def _share_axis(axes: Axes, which: str, label: str) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xlim if which == "x" else axes.set_ylim)(-0.02, 1.02)
    axis.set_label_text(label)
    axes.grid(axis=which, color="#e6eaee", lw=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
