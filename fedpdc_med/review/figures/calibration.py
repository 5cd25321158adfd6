"""Reliability, ROC and precision-recall curves."""

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fedpdc_med.review.app.widgets import ACCENT, DASHES, FAINT, MUTED, PALETTE, class_colours, drawn, finish
from fedpdc_med.runs.predictions import spoken


def reliability_figure(curve: pd.DataFrame) -> go.Figure:
    """From `reliability`: what was promised against what came true, with intervals, and the films of each bin below."""
    filled = curve[curve["count"] > 0]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.74, 0.26], vertical_spacing=0.04)
    figure.add_trace(
        go.Scatter(
            x=[0, 1],
            y=[0, 1],
            mode="lines",
            line={"color": MUTED, "dash": "dot", "width": 1},
            name="as promised",
            hoverinfo="skip",
        ),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Scatter(
            x=filled["promised"],
            y=filled["observed"],
            mode="lines+markers",
            name="this model",
            line={"color": ACCENT, "width": 2},
            marker={"size": 9},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": filled["high"] - filled["observed"],
                "arrayminus": filled["observed"] - filled["low"],
                "color": ACCENT,
                "thickness": 1.5,
                "width": 4,
            },
            customdata=filled["count"],
            hovertemplate="promised %{x:.2f}<br>came true %{y:.2f}<br>%{customdata} films<extra></extra>",
        ),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Bar(
            x=(curve["from"] + curve["to"]) / 2,
            y=curve["count"],
            width=(curve["to"] - curve["from"]) * 0.9,
            marker={"color": FAINT, "line": {"color": MUTED, "width": 1}},
            text=curve["count"],
            textposition="outside",
            cliponaxis=False,
            showlegend=False,
            hovertemplate="%{y} films<extra></extra>",
        ),
        row=2,
        col=1,
    )
    figure = finish(figure, height=460)
    figure.update_xaxes(range=[0, 1])
    figure.update_xaxes(title="probability the model gave", row=2, col=1)
    figure.update_yaxes(title="share that came true", range=[-0.03, 1.03], row=1, col=1)
    figure.update_yaxes(title="films", range=[0, 1.35 * max(1, int(curve["count"].max()))], row=2, col=1)
    return figure


def curves_figure(
    curves: dict[str, pd.DataFrame], classes: list[str], x: str, y: str, titles: tuple[str, str], diagonal: bool
) -> go.Figure:
    """One line a class; `diagonal` draws what guessing gives on an ROC curve."""
    colours = class_colours(classes)
    # Lines cross, so colour alone is not enough; a class nine places on has the colour of another, not its dashes.
    dashes = {name: DASHES[(i + i // len(PALETTE)) % len(DASHES)] for i, name in enumerate(classes)}
    figure = go.Figure()
    if diagonal:
        figure.add_trace(
            go.Scatter(
                x=[0, 1],
                y=[0, 1],
                mode="lines",
                line={"color": MUTED, "dash": "dot", "width": 1},
                hoverinfo="skip",
                showlegend=False,
            )
        )
    for name, curve in curves.items():
        label = drawn(spoken(name))
        figure.add_trace(
            go.Scatter(
                x=curve[x],
                y=curve[y],
                name=label,
                mode="lines",
                line={"color": colours[name], "dash": dashes[name], "width": 2.5},
                hovertemplate=f"{titles[0]} %{{x:.2f}}<br>{titles[1]} %{{y:.2f}}<extra>{label}</extra>",
            )
        )
    figure = finish(figure, height=420)
    figure.update_xaxes(title=titles[0], range=[0, 1])
    figure.update_yaxes(title=titles[1], range=[0, 1.02])
    return figure.update_layout(legend={"y": -0.22, "yanchor": "top"}, margin={"t": 10})
