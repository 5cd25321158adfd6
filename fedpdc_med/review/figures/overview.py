"""Who holds what: training films of each class, one bar a site."""

import pandas as pd
import plotly.graph_objects as go

from fedpdc_med.review.app import widgets as look
from fedpdc_med.runs.predictions import spoken

PATTERNS = ("", "/", ".", "x")  # where the colours begin again


def training_bars(counts: pd.DataFrame, titles: dict[str, str]) -> go.Figure:
    """`counts`: a row a site, a column a class."""
    colours = look.class_colours(list(counts.columns))
    rows = list(range(len(counts)))
    figure = go.Figure()
    for i, name in enumerate(counts.columns):
        pattern = PATTERNS[(i // len(look.PALETTE)) % len(PATTERNS)]
        figure.add_bar(
            x=counts[name],
            y=rows,
            orientation="h",
            name=look.drawn(spoken(name)),
            marker={"color": colours[name], "line": {"color": "white", "width": 1}, "pattern": {"shape": pattern}},
            hovertemplate="%{x} films",
        )
    figure.update_layout(barmode="stack", hovermode="y unified", bargap=0.25)
    figure.update_xaxes(title="Training films")
    figure.update_yaxes(
        title="Site",
        tickvals=rows,
        ticktext=[look.drawn(titles.get(site, site), 30) for site in counts.index],
        autorange="reversed",
        showgrid=False,
    )
    return look.finish(figure, 120 + (34 if len(counts) <= 20 else 18) * len(counts))
