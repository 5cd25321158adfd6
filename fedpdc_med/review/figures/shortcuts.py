"""How well something can be told that should not be: areas with their intervals."""

import pandas as pd
import plotly.graph_objects as go

from fedpdc_med.evaluation.shortcuts import ALARM_AUC, WATCH_AUC
from fedpdc_med.review.app.widgets import ACCENT, MUTED, WARN, drawn, finish
from fedpdc_med.runs.predictions import spoken


def areas_figure(table: pd.DataFrame, most: int = 12) -> go.Figure:
    """From a finding's table (target, films, auc, low, high): one line a target, and the alarm mark."""
    shown = table.head(most).iloc[::-1]
    figure = go.Figure(
        go.Scatter(
            x=shown["auc"],
            y=[
                f"{drawn(spoken(str(name)), 28)} ({n})" for name, n in zip(shown["target"], shown["films"], strict=True)
            ],
            mode="markers",
            marker={"size": 11, "color": [WARN if low >= ALARM_AUC else ACCENT for low in shown["low"]]},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": shown["high"] - shown["auc"],
                "arrayminus": shown["auc"] - shown["low"],
                "thickness": 2,
                "width": 5,
                "color": MUTED,
            },
            hovertemplate="%{y}: %{x:.2f}<extra></extra>",
        )
    )
    # Words stand beside their lines, away from each other: in a narrow window the lines are close.
    for value, words, side in ((0.5, "nothing", "right"), (WATCH_AUC, "watch", "left"), (ALARM_AUC, "alarm", "left")):
        figure.add_vline(x=value, line={"color": WARN if words == "alarm" else MUTED, "dash": "dot", "width": 1})
        figure.add_annotation(
            x=value,
            y=1.0,
            yref="paper",
            yanchor="bottom",
            xanchor=side,
            text=words,
            showarrow=False,
            font={"size": 12, "color": MUTED},
        )
    figure = finish(figure, height=130 + 34 * len(shown))
    figure.update_xaxes(title="Area under the ROC curve", range=[0.3, 1.02])
    figure.update_yaxes(title="")
    return figure
