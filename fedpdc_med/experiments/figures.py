"""Pictures of benchmark results: accuracy and worst-class recall by round, the paper's figures 3 to 8."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedpdc_med.experiments.picture import COLOURS
from fedpdc_med.experiments.results import as_text, table
from fedpdc_med.experiments.show import SETTING
from fedpdc_med.runs import Run

CURVES = {
    "accuracy_by_round": "accuracy on the test images, %",
    "worst_recall_by_round": "recall of the worst class, %",
}
STYLES = ("-", "--", ":", "-.")


def draw(results: Sequence[dict[str, Any]], folder: Path) -> int:
    """PNGs for every setting (an experiment, a preset and what was changed in it); how many there are."""
    frame, rows = pd.DataFrame(results), table(results)
    frame["changed"] = [as_text(one) for one in frame["changed"]]
    figures = {}
    for setting, group in frame.groupby(SETTING, sort=True):
        name = "-".join(str(part) for part in setting if part).replace(", ", "-")
        for key, title in CURVES.items():
            figures[f"{name}-{key.replace('_', '-')}"] = curves(group, key, title, name)
        of_setting = rows[(rows[SETTING] == list(setting)).all(axis=1) & rows["to_reach_fedavg"].notna()]
        if len(of_setting) > 1:
            figures[f"{name}-rounds-to-reach-fedavg"] = rounds_to_reach(of_setting, name)
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", format="png", dpi=110)
    return len(figures)


def label_distributions(runs: Iterable[Run], folder: Path) -> int:
    """The pictures that the runs drew of their skew, one an experiment and seed."""
    drawn = {f"{run.config['experiment']['name']}-seed{run.config['experiment']['seed']}": run.folder for run in runs}
    for name, run in drawn.items():
        shutil.copyfile(run / "label_distribution.png", folder / f"{name}-label-distribution.png")
    return len(drawn)


def curves(group: pd.DataFrame, key: str, axis: str, title: str) -> Figure:
    """A line a method, the mean of its seeds; the range of the seeds shaded; best at the end on top of the legend."""
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.add_subplot()
    by_method = {str(method): by_round(rows[key]) for method, rows in group.groupby("method")}
    best_first = sorted(by_method.items(), key=lambda pair: -pair[1][:, -1].mean())
    for i, (method, values) in enumerate(best_first):
        rounds, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
        colour, style = COLOURS[i % len(COLOURS)], STYLES[i // len(COLOURS) % len(STYLES)]
        label = f"{method} ({mean[-1]:.1f})" + (f", {len(values)} seeds" if len(values) > 1 else "")
        axes.plot(rounds, mean, style, color=colour, label=label, linewidth=1.7)
        if len(values) > 1:
            axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.12, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel(axis)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _plain(axes, title)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    return figure


def by_round(runs: Iterable[Sequence[float]]) -> np.ndarray:
    """A row a seed, as many rounds as all of them have."""
    runs = list(runs)
    return np.array([run[: min(map(len, runs))] for run in runs], dtype=float)


def rounds_to_reach(table: pd.DataFrame, title: str) -> Figure:
    """The paper's table IV as bars: rounds to FedAvg's final accuracy, fewest on top."""
    table = table.sort_values("to_reach_fedavg", ascending=False)
    figure = Figure(figsize=(9, 1.2 + 0.32 * len(table)), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.barh(table["method"], table["to_reach_fedavg"], color=COLOURS[0], height=0.65)
    axes.bar_label(
        bars, [f"{value:.1f}".removesuffix(".0") for value in table["to_reach_fedavg"]], padding=4, fontsize=9
    )
    axes.set_xlabel("rounds to FedAvg's final accuracy, mean of the seeds")
    _plain(axes, title)
    axes.grid(visible=False, axis="y")
    return figure


def _plain(axes: Axes, title: str) -> None:
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
