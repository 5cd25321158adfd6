"""A figure of the label skew: how many films, or images of a benchmark, each site has of each class."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure

MOST_SITES = 40
# Petroff's ten colours, which colour-blind readers can distinguish (arXiv 2107.02270).
COLOURS = (
    "#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd",
)  # fmt: skip


def label_distribution(
    counts: np.ndarray, sites: Sequence[str], classes: Sequence[str], path: Path, what: str = "films"
) -> None:
    """Write a PNG of counts (sites x classes): bars up to ten classes, a heat map above, at most 40 sites."""
    counts = np.asarray(counts)
    if counts.shape != (len(sites), len(classes)):
        raise ValueError(f"counts are {counts.shape}, expected {len(sites)} sites x {len(classes)} classes")
    shown = _largest(counts.sum(axis=1))
    height = 1.6 + 0.27 * len(shown)
    figure = Figure(figsize=(9, height), layout="constrained")
    axes = figure.add_subplot()
    draw = _bars if len(classes) <= len(COLOURS) else _heat_map
    draw(axes, counts[shown], classes, what)
    axes.set_yticks(range(len(shown)), [sites[i] for i in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)  # the first site on top
    axes.set_title(_title(counts, len(shown), what), loc="left", fontsize=11)
    figure.savefig(path, format="png", dpi=120)


def _largest(sizes: np.ndarray) -> np.ndarray:
    """All sites in their own order, or only the largest, largest first, if there are too many to read."""
    if len(sizes) <= MOST_SITES:
        return np.arange(len(sizes))
    return np.argsort(-sizes, kind="stable")[:MOST_SITES]


def _title(counts: np.ndarray, shown: int, what: str) -> str:
    total = f"{counts.sum():,} {what}, {counts.shape[1]} classes"
    if shown == len(counts):
        return f"Label distribution: {total}, {len(counts)} site{'s' if len(counts) > 1 else ''}"
    return f"Label distribution: the {shown} largest of {len(counts):,} sites ({total} in all)"


def _bars(axes: Axes, counts: np.ndarray, classes: Sequence[str], what: str) -> None:
    left = np.zeros(len(counts))
    for column, name in enumerate(classes):
        bars = axes.barh(
            range(len(counts)), counts[:, column], left=left, height=0.8, label=name,
            color=COLOURS[column], edgecolor="white", linewidth=0.5 * (counts[:, column] > 0),
        )  # fmt: skip
        left += counts[:, column]
    axes.bar_label(bars, [f"{total:,}" for total in counts.sum(axis=1)], padding=4, fontsize=8, color="#555555")
    axes.set_xlim(0, 1.1 * max(counts.sum(axis=1).max(), 1))  # room for the number of the longest bar
    axes.set_xlabel(what)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, borderaxespad=0)


def _heat_map(axes: Axes, counts: np.ndarray, classes: Sequence[str], what: str) -> None:
    """White means none; the scale is logarithmic, so that a rare class does not look like a missing one."""
    shades = ListedColormap(colormaps["Blues"](np.linspace(0.25, 1, 256)))
    scale = LogNorm(1, max(counts.max(), 2))
    image = axes.imshow(np.ma.masked_equal(counts, 0), cmap=shades, norm=scale, aspect="auto", interpolation="nearest")
    axes.set_xlabel(f"class number, 0 to {len(classes) - 1}")
    totals = axes.secondary_yaxis("right")
    totals.set_yticks(range(len(counts)), [f"{total:,}" for total in counts.sum(axis=1)])
    totals.set_ylabel(f"{what} at the site", labelpad=6)
    totals.tick_params(length=0, labelsize=8, labelcolor="#555555")
    ticks = [step * 10**power for power in range(7) for step in (1, 2, 5) if step * 10**power <= scale.vmax]
    bar = axes.figure.colorbar(image, ax=axes, aspect=max(12, 1.2 * len(counts)), ticks=ticks, format="{x:,.0f}")
    bar.set_label(f"{what} of one class (white: none)")
    bar.minorticks_off()
