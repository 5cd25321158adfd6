"""Weights of the sites beside FedAvg's."""

import pandas as pd
import plotly.graph_objects as go

from fedpdc_med.review.app import widgets as look


def weights(shares: pd.DataFrame, method: str, titles: dict[str, str]) -> go.Figure:
    """Mean weight of each site (filled) beside the one FedAvg would have given it (open), joined by a line."""
    rows = list(range(len(shares)))
    figure = go.Figure()
    for row, one in zip(rows, shares.to_dict("records"), strict=True):
        figure.add_shape(
            type="line",
            layer="below",
            x0=one["fedavg"],
            x1=one["weight"],
            y0=row,
            y1=row,
            line={"color": look.FAINT, "width": 3},
        )
    for column, name, symbol, colour in (
        ("fedavg", "FedAvg: by number of films", "circle-open", look.INK),
        ("weight", f"this run ({look.drawn(method)})", "circle", look.ACCENT),
    ):
        figure.add_scatter(
            x=shares[column],
            y=rows,
            mode="markers",
            name=name,
            marker={"symbol": symbol, "size": 11, "color": colour, "line": {"width": 2, "color": colour}},
            hovertemplate="%{x:.3f}",
        )
    figure.update_xaxes(title="Mean weight over the rounds", rangemode="tozero")
    figure.update_yaxes(
        title="Site",
        tickvals=rows,
        ticktext=[look.drawn(titles.get(site, site), 30) for site in shares["site"]],
        autorange="reversed",
        showgrid=False,
    )
    return look.finish(figure, 120 + (30 if len(shares) <= 20 else 18) * len(shares))
