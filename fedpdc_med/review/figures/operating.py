"""Sensitivity and specificity against the threshold."""

import pandas as pd
import plotly.graph_objects as go

from fedpdc_med.review.app.widgets import ACCENT, INK, MUTED, SECOND, finish


def threshold_figure(table: pd.DataFrame, at: float, chosen: float | None, chosen_on: str) -> go.Figure:
    """From `threshold_table`: two curves with their 95 % bands, the reader's threshold and the one chosen before."""
    figure = go.Figure()
    for name, colour, dash in (("sensitivity", ACCENT, "solid"), ("specificity", SECOND, "dash")):
        known = table[table[name].notna()]
        x = known["threshold"]
        figure.add_trace(
            go.Scatter(
                x=pd.concat([x, x[::-1]]),
                y=pd.concat([known[f"{name}_high"], known[f"{name}_low"][::-1]]),
                fill="toself",
                fillcolor=colour,
                opacity=0.15,
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
            )
        )
        figure.add_trace(
            go.Scatter(
                x=x,
                y=known[name],
                name=name,
                line={"color": colour, "dash": dash, "width": 3},
                hovertemplate=f"threshold %{{x:.2f}}<br>{name} %{{y:.2f}}<extra></extra>",
            )
        )
    figure.add_vline(x=at, line={"color": INK, "width": 2})
    if chosen is not None:
        note = f"chosen on {chosen_on}"
        figure.add_vline(x=chosen, line={"color": MUTED, "width": 2, "dash": "dot"})
        side = "left" if chosen > 0.5 else "right"
        anchor = {"left": "right", "right": "left"}[side]
        figure.add_annotation(
            x=chosen,
            y=0.04,
            yanchor="bottom",
            text=note,
            showarrow=False,
            xanchor=anchor,
            xshift=4 if side == "right" else -4,
            font={"color": MUTED, "size": 13},
            bgcolor="rgba(255,255,255,0.6)",
        )
    figure = finish(figure, height=340)
    figure.update_xaxes(title="threshold: called at or above", range=[0, 1])
    figure.update_yaxes(title="share of films", range=[0, 1.02], tickformat=".1f")
    return figure
