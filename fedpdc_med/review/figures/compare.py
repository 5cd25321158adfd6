"""Two runs on the same films: the difference in recall, class by class."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from fedpdc_med.review.app import widgets as look
from fedpdc_med.runs.predictions import spoken


def differences(table: pd.DataFrame) -> go.Figure:
    """Second run less first, with its 95 % interval; filled where Holm's p is below 0.05."""
    rows = list(range(len(table)))
    clear = (table["p_holm"] < 0.05).to_numpy()
    figure = go.Figure()
    figure.add_vline(x=0, line={"color": look.INK, "width": 1})
    figure.add_scatter(
        x=table["difference"],
        y=rows,
        mode="markers",
        marker={
            "size": 11,
            "color": look.ACCENT,
            "symbol": np.where(clear, "circle", "circle-open"),
            "line": {"width": 2, "color": look.ACCENT},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            # Bonett and Price's interval is centred on a shrunken difference; a bar never points the wrong way.
            "array": (table["high"] - table["difference"]).clip(lower=0),
            "arrayminus": (table["difference"] - table["low"]).clip(lower=0),
            "color": look.INK,
            "thickness": 1.6,
            "width": 5,
        },
        customdata=table[["low", "high"]].to_numpy(),
        hovertemplate="%{x:+.2f} (%{customdata[0]:+.2f} to %{customdata[1]:+.2f})<extra></extra>",
        showlegend=False,
    )
    reach = float(np.nanmax(np.abs(table[["low", "high"]].to_numpy()))) if table["low"].notna().any() else 1.0
    reach = min(1.05, reach * 1.15 + 0.02)
    figure.update_xaxes(title="← first finds more   Difference in recall   second finds more →")
    figure.update_xaxes(range=[-reach, reach], tickformat="+.2f")
    figure.update_yaxes(
        title="Class",
        tickvals=rows,
        ticktext=[look.drawn(spoken(name)) for name in table["class"]],
        autorange="reversed",
        showgrid=False,
    )
    return look.finish(figure, 110 + 36 * len(table))
