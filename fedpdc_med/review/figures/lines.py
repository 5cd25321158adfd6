"""One number of every class or site over the rounds: lines, or a shaded matrix where lines would be a tangle."""

import pandas as pd
import plotly.graph_objects as go

from fedpdc_med.review.app import widgets as look

FEW = 10  # lines that can still be told apart


def over_rounds(wide: pd.DataFrame, title: str, kind: str, names: dict[str, str]) -> go.Figure:
    """`wide`: a row a round, a column a class or site (which of them, `kind` says)."""
    return _lines(wide, title, names) if len(wide.columns) <= FEW else _matrix(wide, title, kind, names)


def _lines(wide: pd.DataFrame, title: str, names: dict[str, str]) -> go.Figure:
    columns = list(wide.columns)
    colours, dashes = look.class_colours(columns), look.class_dashes(columns)
    figure = go.Figure()
    sizes = look.nested(wide)
    for i, column in enumerate(columns):
        figure.add_scatter(
            x=wide.index,
            y=wide[column],
            name=look.drawn(names[column], 32),
            mode="lines+markers",
            cliponaxis=False,
            line={"color": colours[column], "dash": dashes[column], "width": 2},
            marker={
                "symbol": look.SYMBOLS[i % len(look.SYMBOLS)],
                "size": sizes[column],
                "opacity": 1,  # plotly makes markers of many sizes see-through
                "line": {"color": "white", "width": 0.5},
            },
            hovertemplate="%{y:.3f}",
        )
    figure.update_xaxes(title="Round", dtick=_step(wide), ticklabelstandoff=6)  # markers at 0 reach below the axis
    figure.update_yaxes(title=title, rangemode="tozero")
    figure.update_layout(hovermode="x unified", legend={"itemsizing": "constant"})
    return look.finish(figure, 400 + 10 * len(columns))


def _step(wide: pd.DataFrame) -> int:
    """Whole rounds between two ticks, about ten of them: plotly itself would mark half rounds."""
    span = int(wide.index.max() - wide.index.min())
    return next(step for power in range(9) for step in (10**power, 2 * 10**power, 5 * 10**power) if span <= 10 * step)


def _matrix(wide: pd.DataFrame, title: str, kind: str, names: dict[str, str]) -> go.Figure:
    columns = list(wide.columns)
    figure = go.Figure(
        go.Heatmap(
            z=wide.to_numpy(dtype=float).T,
            x=list(wide.index),
            y=list(range(len(columns))),
            colorscale=[list(stop) for stop in look.SHADES],
            colorbar={"title": {"text": title, "side": "right"}, "thickness": 12},
            hovertemplate="round %{x}: %{z:.3f}<extra></extra>",
        )
    )
    figure.update_xaxes(title="Round", dtick=_step(wide), showgrid=False)
    figure.update_yaxes(
        title=kind,
        tickvals=list(range(len(columns))),
        ticktext=[look.drawn(names[column], 30) for column in columns],
        autorange="reversed",
        showgrid=False,
    )
    return look.finish(figure, 120 + 18 * len(columns))
