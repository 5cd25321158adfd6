"""Recall as figures: classes with intervals, site by class, own model beside global."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from fedpdc_med.review.app import widgets as look
from fedpdc_med.runs.predictions import spoken

ROW = 34  # pixels of a class or site
# Pale enough for dark numbers in every cell.
FOUND: list[list[object]] = [[0, "#f3f7fa"], [0.5, "#bcd6e8"], [1, "#6fa8d0"]]
GAINED: list[list[object]] = [[0, "#e08e3c"], [0.5, "#ffffff"], [1, "#6fa8d0"]]
MANY = 12  # columns above which numbers no longer fit into cells


def class_intervals(table: pd.DataFrame) -> go.Figure:
    """One line a class, worst at the top: the share found, its 95 % interval, and n/N beside it."""
    rows = list(range(len(table)))
    known = table["total"] > 0
    figure = go.Figure()
    figure.add_scatter(
        x=table["recall"].where(known),
        y=rows,
        mode="markers",
        marker={
            "size": 11,
            "color": look.ACCENT,
            "symbol": ["circle-open" if small else "circle" for small in table["small"]],
            "line": {"width": 2, "color": look.ACCENT},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": (table["high"] - table["recall"]).where(known),
            "arrayminus": (table["recall"] - table["low"]).where(known),
            "color": look.INK,
            "thickness": 1.6,
            "width": 5,
        },
        customdata=np.stack([table["correct"], table["total"], table["low"], table["high"]], axis=1),
        hovertemplate="recall %{x:.2f} (%{customdata[2]:.2f} to %{customdata[3]:.2f})"
        "<br>%{customdata[0]} of %{customdata[1]} films<extra></extra>",
        showlegend=False,
    )
    for position, row in zip(rows, table.to_dict("records"), strict=True):
        text = f"{row['correct']}/{row['total']}" if row["total"] else look.NOT_ESTIMABLE
        figure.add_annotation(
            x=1.02, y=position, text=text, showarrow=False, xanchor="left", font={"color": look.MUTED}
        )
    figure.update_xaxes(title="Recall: share of its films found", range=[-0.01, 1.16])
    figure.update_xaxes(tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1])
    figure.update_yaxes(
        title="Class",
        tickvals=rows,
        ticktext=[look.drawn(spoken(name)) for name in table["class"]],
        autorange="reversed",
        showgrid=False,
    )
    return look.finish(figure, 110 + ROW * len(table))


def site_matrix(table: pd.DataFrame, classes: list[str], titles: dict[str, str]) -> go.Figure:
    """Recall by shade, n/N in the cell; an empty cell has no films of that class."""
    sites = list(dict.fromkeys(table["site"]))
    recall, correct, total = (
        table.pivot(index="site", columns="class", values=value).loc[sites, classes].to_numpy()
        for value in ("recall", "correct", "total")
    )
    text = np.where(total > 0, np.char.add(np.char.add(correct.astype(str), "/"), total.astype(str)), look.NONE)
    figure = _heat(recall, text, sites, classes, titles, (0, 1), FOUND)
    figure.data[0].update(
        customdata=np.stack([correct, total], axis=2),
        hovertemplate="%{y}, %{x}<br>recall %{z:.2f}: %{customdata[0]} of %{customdata[1]} films<extra></extra>",
        colorbar={"title": {"text": "Recall", "side": "right"}, "thickness": 12, "len": 0.9},
    )
    return figure


def own_beside_global(table: pd.DataFrame, classes: list[str], titles: dict[str, str]) -> go.Figure:
    """What a site's films gain by the global model: change of recall by shade, own to global as numbers."""
    sites = list(dict.fromkeys(table["site"]))
    own, after, change, total = (
        table.pivot(index="site", columns="class", values=value).loc[sites, classes].to_numpy()
        for value in ("own", "global", "change", "total")
    )
    text = np.array(
        [
            [f"{a:.2f} → {b:.2f}" if n else look.NONE for a, b, n in zip(*row, strict=True)]
            for row in zip(own, after, total, strict=True)
        ]
    )
    figure = _heat(change, text, sites, classes, titles, (-1, 1), GAINED)
    figure.data[0].update(
        customdata=np.stack([own, after, total], axis=2),
        hovertemplate="%{y}, %{x}<br>own model %{customdata[0]:.2f}, global %{customdata[1]:.2f} "
        "(%{customdata[2]} films)<extra></extra>",
        colorbar={"title": {"text": "Change", "side": "right"}, "thickness": 12, "len": 0.9, "tickformat": "+.1f"},
    )
    return figure


def _heat(
    values: np.ndarray,
    text: np.ndarray,
    sites: list[str],
    classes: list[str],
    titles: dict[str, str],
    span: tuple[float, float],
    scale: list[list[object]],
) -> go.Figure:
    # Positions are numbers and names are tick texts, so that two sites with one title stay two rows.
    figure = go.Figure(
        go.Heatmap(
            z=values.astype(float),
            x=list(range(len(classes))),
            y=list(range(len(sites))),
            text=text,
            texttemplate="%{text}" if len(classes) <= MANY else None,
            textfont={"color": look.INK},
            zmin=span[0],
            zmax=span[1],
            colorscale=scale,
            xgap=2,
            ygap=2,
        )
    )
    figure.update_xaxes(
        title="True class",
        tickvals=list(range(len(classes))),
        ticktext=[look.drawn(spoken(name), 22) for name in classes],
        side="top",
        showgrid=False,
        zeroline=False,
    )
    figure.update_yaxes(
        title="Site",
        tickvals=list(range(len(sites))),
        ticktext=[look.drawn(titles.get(site, site), 30) for site in sites],
        autorange="reversed",
        showgrid=False,
        zeroline=False,
    )
    height = 130 + max(ROW * len(sites) if len(sites) <= 20 else 18 * len(sites), 60)
    return look.finish(figure, height)
