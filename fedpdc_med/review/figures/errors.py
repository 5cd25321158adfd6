"""The confusion matrix, each cell of which can be clicked."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from fedpdc_med.evaluation.confusion import by_row, normal_class
from fedpdc_med.review.app.widgets import ACCENT, SHADES, WARN, drawn, finish
from fedpdc_med.runs.predictions import spoken

BESIDE = 6  # up to so many classes cells stay readable on half a page
BOTH, COUNTS = 12, 25  # up to so many classes a cell has room for count and share, or for the count


def confusion_figure(counts: pd.DataFrame, chosen: tuple[str, str] | None = None) -> go.Figure:
    """Rows are true classes, columns what the model called them; shade is the share of the row.

    A heat map reports no clicks to Streamlit, so invisible markers lie on its cells and answer for the whole cell.
    """
    classes = [str(name) for name in counts.index]
    shares, number = by_row(counts), len(classes)
    places = np.arange(number)
    figure = go.Figure(
        go.Heatmap(
            z=shares.to_numpy(),
            x=places,
            y=places,
            zmin=0,
            zmax=1,
            colorscale=SHADES,
            hoverinfo="skip",
            xgap=1,
            ygap=1,
            text=[
                [_in_cell(*cell, number) for cell in zip(*row, strict=True)]
                for row in zip(counts.to_numpy(), shares.to_numpy(), strict=True)
            ],
            texttemplate="%{text}" if number <= COUNTS else None,
            textfont={"size": 15 if number <= BESIDE else 11},
            showscale=number > COUNTS,
            colorbar={"title": {"text": "share of<br>the row"}, "thickness": 12, "tickformat": ".0%"},
        )
    )
    rows, columns = (axis.ravel() for axis in np.meshgrid(places, places, indexing="ij"))
    values, part = counts.to_numpy().ravel(), shares.to_numpy().ravel()
    figure.add_trace(
        go.Scatter(
            x=columns,
            y=rows,
            mode="markers",
            marker={"symbol": "square", "size": max(6, min(44, 300 // number)), "color": "rgba(0,0,0,0)"},
            selected={"marker": {"opacity": 0}},
            unselected={"marker": {"opacity": 0}},
            customdata=np.stack([rows, columns], axis=1).tolist(),
            hovertext=[
                f"{drawn(spoken(classes[row]))} called {drawn(spoken(classes[column]))}<br>{value} films, {_percent(p)}"
                for row, column, value, p in zip(rows, columns, values, part, strict=True)
            ],
            hoverinfo="text",
            showlegend=False,
        )
    )
    _outline_missed(figure, classes)
    if chosen is not None:
        _outline(figure, classes.index(chosen[0]), classes.index(chosen[1]), ACCENT, 4)
    names = [drawn(spoken(name), 18 if number > BOTH else 24) for name in classes]
    figure = finish(
        figure, height=max(340, min(900, 130 + (70 if number <= BESIDE else 54 if number <= BOTH else 32) * number))
    )
    figure.update_xaxes(
        title="called by the model",
        tickangle=-35 if number <= BOTH else -90,
        tickvals=places,
        ticktext=names,
        showgrid=False,
        range=[-0.5, number - 0.5],
        zeroline=False,
        fixedrange=True,
    )
    figure.update_yaxes(
        title="true class",
        tickvals=places,
        ticktext=names,
        showgrid=False,
        range=[number - 0.5, -0.5],
        zeroline=False,
        fixedrange=True,
    )
    if number > BOTH:
        figure.update_xaxes(tickfont={"size": 11}).update_yaxes(tickfont={"size": 11})
    return figure.update_layout(clickmode="event+select", dragmode=False, hovermode="closest", hoverdistance=200)


def _in_cell(value: int, share: float, number: int) -> str:
    if number > BOTH:
        return str(value) if value else ""
    if np.isnan(share):
        return str(value)
    return f"{value}<br>{_percent(share)}"


def _percent(share: float) -> str:
    return "no films of this class" if np.isnan(share) else f"{share:.0%}"


def _outline_missed(figure: go.Figure, classes: list[str]) -> None:
    """Diseases called normal have a red frame: the mistakes that send a patient home."""
    normal = normal_class(classes)
    if normal is not None:
        for row, name in enumerate(classes):
            if name != normal:
                _outline(figure, row, classes.index(normal), WARN, 2)


def _outline(figure: go.Figure, row: int, column: int, colour: str, width: int) -> None:
    line = {"color": colour, "width": width}
    edge = 0.5 if width > 2 else 0.44
    figure.add_shape(
        type="rect",
        x0=column - edge,
        x1=column + edge,
        y0=row - edge,
        y1=row + edge,
        line=line,
        fillcolor="rgba(0,0,0,0)",
    )
