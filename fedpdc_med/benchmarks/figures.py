"""Figures of benchmark results: accuracy and worst-class recall by round, as in the paper's figures 3 to 8."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedpdc_med import methods as algorithms
from fedpdc_med.benchmarks.results import KeptResult, benchmark, file_name
from fedpdc_med.benchmarks.tables import SETTING, framed, table
from fedpdc_med.methods import METHODS
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.label_distribution import COLOURS

CURVES = {
    "accuracy_by_round": "accuracy on the test images, %",
    "worst_recall_by_round": "recall of the worst class, %",
}
STYLES = ("-", "--", ":", "-.")
PAPER, OURS = ({method.name for method in group} for group in (algorithms.PAPER, algorithms.OURS))
# The settings that decide which site has which images.
PARTITION = ("data", "partition", "beta", "sites", "public_per_class", "images")


def draw(results: Sequence[KeptResult], folder: Path) -> int:
    """Write PNGs for every setting (an experiment, a preset and the changes to them); returns their number."""
    frame, rows = framed(results), table(results)
    figures = {}
    for setting, group in frame.groupby(SETTING, sort=True):
        name = "-".join(str(part) for part in setting if part).replace(", ", "-")
        for key, title in CURVES.items():
            figures[f"{name}-{key.replace('_', '-')}"] = curves(group, key, title, name)
        compared = (rows["over_fedavg"].notna() | (rows["method"] == "fedavg")) & (rows["method"] != "solo")
        of_setting = rows[(rows[SETTING] == list(setting)).all(axis=1) & compared]
        if len(of_setting) > 1:
            figures[f"{name}-rounds-to-reach-fedavg"] = rounds_to_reach(of_setting, name)
    for name, figure in figures.items():
        figure.savefig(folder / file_name(name, ".png"), format="png", dpi=110)
    return len(figures)


def label_distributions(runs: Iterable[Run], folder: Path) -> int:
    """Copy the runs' figures of their label skew, one for each partition of the images; returns their number."""
    drawn = {}
    for run in runs:
        experiment = benchmark(run).experiment
        changed = {key: value for key, value in experiment.changes.items() if key in PARTITION}
        parts = [experiment.name, *(f"{key}={value}" for key, value in changed.items()), f"seed{experiment.seed}"]
        drawn["-".join(parts)] = run.folder
    for name, run_folder in drawn.items():
        shutil.copyfile(run_folder / "label_distribution.png", folder / file_name(name, "-label-distribution.png"))
    return len(drawn)


def curves(group: pd.DataFrame, key: str, axis: str, title: str) -> Figure:
    """One line per method: the mean over its seeds, with their range shaded. The paper's methods and other uses of the
    public set have separate panels; ours are in both.
    """
    methods = {str(method): by_round(rows[key]) for method, rows in group.groupby("method")}
    base = dict(zip(group["method"], group["base"], strict=True))
    ours = [name for name in methods if base[name] in OURS]
    of_paper = [name for name in methods if base[name] in PAPER]
    others = [name for name in methods if name not in ours and name not in of_paper]
    panels = {"the paper's methods" + (" and ours" if ours else ""): ours + of_paper}
    if others:
        fedavg = [name for name in methods if name == "fedavg"]
        panels["other uses of the public set, and bounds"] = ours + others + fedavg
    figure = Figure(figsize=(10, 6.6) if others else (7, 5), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    drawn, grid = styles(base), figure.subplots(1, len(panels), sharey=True, squeeze=False)
    for axes, (name, shown) in zip(grid[0], panels.items(), strict=True):
        for method in sorted(shown, key=lambda one: -methods[one][:, -1].mean()):
            _line(axes, method, methods[method], drawn[method], 2.4 if method in ours else 1.5)
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_tick_params(labelleft=True)
        _plain(axes, name if others else "")
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.12), frameon=False, fontsize=9, ncols=1 if others else 2)
    figure.axes[0].set_ylabel(axis)
    figure.axes[0].set_ylim(bottom=0, top=1.05 * max(max(values.max() for values in methods.values()), 1))
    return figure


def _line(axes: Axes, method: str, values: np.ndarray, drawn: tuple[str, str], width: float) -> None:
    rounds, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
    style, colour = drawn
    label = f"{method} ({mean[-1]:.1f}" + (f", {len(values)} seeds)" if len(values) > 1 else ")")
    axes.plot(rounds, mean, style, color=colour, label=label, linewidth=width)
    if len(values) > 1:
        axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.1, linewidth=0)


def styles(methods: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Line style and colour by label: a method has the same colour in every figure, its variants differ in style."""
    names = list(METHODS)
    drawn: dict[str, tuple[str, str]] = {}
    for method in sorted(methods):
        variant = sum(methods[other] == methods[method] for other in drawn)
        place = names.index(methods[method])
        dashed = place // len(COLOURS) + variant
        drawn[method] = (STYLES[dashed % len(STYLES)], COLOURS[place % len(COLOURS)])
    return drawn


def by_round(runs: Iterable[Sequence[float]]) -> np.ndarray:
    """One row per seed, cut to the number of rounds that all of them have."""
    runs = list(runs)
    return np.array([run[: min(map(len, runs))] for run in runs], dtype=float)


def rounds_to_reach(table: pd.DataFrame, title: str) -> Figure:
    """The paper's table IV as bars: rounds to FedAvg's final accuracy, fewest on top; pale: not reached in all runs."""
    table = table.assign(bar=table["to_reach_fedavg"].fillna(table["rounds"]), there=table["to_reach_fedavg"].notna())
    table = table.sort_values(["there", "bar", "seeds_that_reached"], ascending=[True, False, True])
    figure = Figure(figsize=(9, 1.2 + 0.32 * len(table)), layout="constrained")
    axes = figure.add_subplot()
    colours = [COLOURS[0] if there else "#d5dbe1" for there in table["there"]]
    bars = axes.barh(table["method"], table["bar"], color=colours, height=0.65)
    axes.bar_label(bars, [_reached(row) for row in table.to_dict("records")], padding=4, fontsize=9)
    axes.set_xlim(0, 1.15 * table["bar"].max())
    axes.set_xlabel("rounds to FedAvg's final accuracy, mean of the seeds")
    _plain(axes, title)
    axes.grid(visible=False, axis="y")
    return figure


def _reached(row: dict[Any, Any]) -> str:
    if row["there"]:
        return f"{row['bar']:.1f}".removesuffix(".0") + ("" if row["compared"] > 1 else ", one seed")
    return f"in {row['seeds_that_reached']} of {row['compared']} seeds" if row["seeds_that_reached"] else "never"


def _plain(axes: Axes, title: str) -> None:
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
