"""Every kind of chart as an interactive figure, for the app."""

import html
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from fedpdc_med.common.description import Chart
from fedpdc_med.review.style import (
    ACCENT,
    DASHES,
    DIVERGING,
    FAINT,
    FEW,
    GRID,
    INK,
    MUTED,
    SHADES,
    WARN,
    colour_of,
    cut,
    nested,
    roomier_sides,
    round_of,
    ticks,
)

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "triangle-down", "star")
PATTERNS = ("", "/", ".", "x")
MANY = 20  # rows above which they come closer together


def figure(chart: Chart) -> go.Figure:
    return KINDS[chart.kind](chart)


def drawn(text: object, longest: int = 40) -> str:
    """Text for a figure, whose own small markup is switched off; long names are cut."""
    return html.escape(cut(text, longest), quote=False)


def intervals(chart: Chart) -> go.Figure:
    """One line per row, the first at the top: a point and its interval; open circles mark a caveat."""
    frame, marks = chart.frame, chart.marks
    sign = "+" if marks.get("signed") else ""
    is_open, warn = _flag(frame, "open"), _flag(frame, "warn")
    colours = [WARN if one else ACCENT for one in warn]
    one = _empty(chart, 110 + 34 * len(frame))
    one.add_scatter(
        x=frame["value"],
        y=list(range(len(frame))),
        mode="markers",
        marker={
            "size": 11,
            "color": colours,
            "symbol": ["circle-open" if hollow else "circle" for hollow in is_open],
            "line": {"width": 2, "color": colours},
        },
        error_x=_errors(frame, "value", INK),
        customdata=frame[["low", "high"]].to_numpy(),
        hovertemplate=f"%{{x:{sign}.2f}} (%{{customdata[0]:{sign}.2f}} to %{{customdata[1]:{sign}.2f}})<extra></extra>",
        showlegend=False,
    )
    if "beside" in frame:
        for row, text in enumerate(frame["beside"]):
            one.add_annotation(
                x=1, xref="paper", y=row, text=drawn(text), showarrow=False, xanchor="left", font={"color": MUTED}
            )
        one.update_layout(margin={"r": 10 + 8 * max(map(len, frame["beside"]), default=0)})
    _lines_across(one, marks.get("lines", {}), marks.get("span", (0, 1)))
    one.update_xaxes(range=marks.get("span"), tickformat=f"{sign}.2~f" if sign else None)
    return _named_rows(one, frame["name"])


def matrix(chart: Chart) -> go.Figure:
    """Numbers as shades, the first row at the top; `text` is written in the cells."""
    frame, marks = chart.frame, chart.marks
    text = marks.get("text")
    span = marks.get("span", (None, None))
    rows, columns = frame.shape
    of_row = 18 if rows > MANY else 60 if text is not None and text.astype(str).stack().str.contains("\n").any() else 34
    one = _empty(chart, 130 + max(60, of_row * rows))
    # Positions are numbers and names are tick texts, so that two sites with one title stay two rows.
    one.add_heatmap(
        z=frame.to_numpy(dtype=float),
        x=list(range(columns)),
        y=list(range(rows)),
        zmin=span[0],
        zmax=span[1],
        colorscale=[list(stop) for stop in (DIVERGING if marks.get("diverging") else SHADES)],
        text=None if text is None else text.astype(str).map(lambda cell: html.escape(cell).replace("\n", "<br>")),
        texttemplate=None if text is None else "%{text}",
        xgap=1,
        ygap=1,
        customdata=[[f"{drawn(row)}, {drawn(column)}" for column in frame.columns] for row in frame.index],
        hovertemplate="%{customdata}: %{z:.2f}<extra></extra>",
        showscale=text is None or not marks.get("square"),  # the cells of a confusion matrix say it
        colorbar={"title": {"text": marks.get("shade", ""), "side": "right"}, "thickness": 12},
    )
    for row, column, kind in marks.get("outlined", ()):
        _outline(one, row, column, kind)
    if pd.api.types.is_numeric_dtype(frame.columns):
        step = ticks([float(value) for value in frame.columns])
        named = {place: str(value) for place, value in enumerate(frame.columns) if value % step == 0}
    else:
        named = {place: drawn(name, 22 if columns <= 12 else 18) for place, name in enumerate(frame.columns)}
        one.update_xaxes(side="top")
    one.update_xaxes(tickvals=list(named), ticktext=list(named.values()), showgrid=False, zeroline=False)
    one.update_xaxes(range=[-0.5, columns - 0.5])
    return _named_rows(one, frame.index)


def lines(chart: Chart) -> go.Figure:
    """One line per column; too many to distinguish become the rows of a matrix."""
    frame, bold = chart.frame, chart.marks.get("bold")
    if len(frame.columns) - (bold is not None) > FEW:
        marks = {"shade": chart.axes[1]}
        return matrix(Chart("matrix", frame.T, (chart.axes[0], ""), chart.says, marks))
    one = _empty(chart, 400 + 10 * len(frame.columns))
    sizes = nested(frame)
    for place, name in enumerate(frame.columns):
        thick = name == bold
        colour = INK if thick else colour_of(place)
        one.add_scatter(
            x=list(frame.index),
            y=frame.iloc[:, place],
            name=drawn(name, 32),
            mode="lines" if thick and len(frame) > 1 else "lines+markers",
            cliponaxis=False,
            line={"color": colour, "dash": DASHES[round_of(place) % len(DASHES)], "width": 4 if thick else 2},
            marker={
                "symbol": SYMBOLS[place % len(SYMBOLS)],
                "size": sizes[:, place],
                "opacity": 1,  # plotly makes markers of many sizes see-through
                "line": {"color": "white", "width": 0.5},
            },
            hovertemplate="%{y:.3f}",
        )
    one.update_xaxes(dtick=ticks(list(frame.index)), ticklabelstandoff=6)  # markers at 0 reach below the axis
    one.update_yaxes(rangemode="tozero")
    return one.update_layout(hovermode="x unified", legend={"itemsizing": "constant"})


def bars(chart: Chart) -> go.Figure:
    """One bar per row, the first at the top, with one part per column."""
    frame = chart.frame
    one = _empty(chart, 120 + (34 if len(frame) <= MANY else 18) * len(frame))
    for place, name in enumerate(frame.columns):
        one.add_bar(
            x=frame.iloc[:, place],
            y=list(range(len(frame))),
            orientation="h",
            name=drawn(name),
            marker={
                "color": colour_of(place),
                "line": {"color": "white", "width": 1},
                "pattern": {"shape": PATTERNS[round_of(place) % len(PATTERNS)]},
            },
            hovertemplate="%{x}",
        )
    one.update_layout(barmode="stack", hovermode="y unified", bargap=0.25)
    return _named_rows(one, frame.index)


def pairs(chart: Chart) -> go.Figure:
    """One line per row, the first at the top, from `first` (open circle) to `second` (filled)."""
    frame = chart.frame
    one = _empty(chart, 120 + (30 if len(frame) <= MANY else 18) * len(frame))
    for row, (first, second) in enumerate(zip(frame["first"], frame["second"], strict=True)):
        one.add_shape(
            type="line", layer="below", x0=first, x1=second, y0=row, y1=row, line={"color": FAINT, "width": 3}
        )
    for column, symbol, colour in (("first", "circle-open", INK), ("second", "circle", ACCENT)):
        one.add_scatter(
            x=frame[column],
            y=list(range(len(frame))),
            mode="markers",
            name=drawn(chart.marks[column]),
            marker={"symbol": symbol, "size": 11, "color": colour, "line": {"width": 2, "color": colour}},
            hovertemplate="%{x:.3f}",
        )
    one.update_xaxes(rangemode="tozero")
    return _named_rows(one, frame["name"])


def curves(chart: Chart) -> go.Figure:
    """Curves from 0 to 1, with their bands; dashes as well as colours, because lines cross."""
    frame, marks = chart.frame, chart.marks
    one = _empty(chart, 420)
    if marks.get("diagonal"):
        one.add_scatter(x=[0, 1], y=[0, 1], line=_dotted(), mode="lines", hoverinfo="skip", showlegend=False)
    order = list(marks.get("order", frame["name"].unique()))
    for name, curve in frame.groupby("name", sort=False):
        place = order.index(name)
        dash = DASHES[(place + round_of(place)) % len(DASHES)]
        if "low" in curve:
            one.add_scatter(
                x=pd.concat([curve["x"], curve["x"][::-1]]),
                y=pd.concat([curve["high"], curve["low"][::-1]]),
                fill="toself",
                fillcolor=colour_of(place),
                opacity=0.15,
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
            )
        one.add_scatter(
            x=curve["x"],
            y=curve["y"],
            name=drawn(name),
            mode="lines",
            line={"color": colour_of(place), "dash": dash, "width": 2.5},
            hovertemplate=f"{chart.axes[0]} %{{x:.2f}}<br>{chart.axes[1]} %{{y:.2f}}<extra>{drawn(name)}</extra>",
        )
    _lines_across(one, marks.get("lines", {}), (0, 1), at=0.04)
    one.update_xaxes(range=[0, 1])
    one.update_yaxes(range=[0, 1.02])
    return one.update_layout(legend={"y": -0.22, "yanchor": "top"}, margin={"t": 10})


def reliability(chart: Chart) -> go.Figure:
    """Predicted probability against observed frequency, with CIs; below, the number of films in each bin."""
    frame = chart.frame
    filled = frame[frame["count"] > 0]
    one = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.74, 0.26], vertical_spacing=0.04)
    one.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", line=_dotted(), name="perfect calibration", hoverinfo="skip", row=1, col=1
    )
    one.add_scatter(
        x=filled["predicted"],
        y=filled["observed"],
        mode="lines+markers",
        name="this model",
        line={"color": ACCENT, "width": 2},
        marker={"size": 9},
        error_y=_errors(filled, "observed", ACCENT),
        customdata=filled["count"],
        hovertemplate="predicted %{x:.2f}<br>observed %{y:.2f}<br>%{customdata} films<extra></extra>",
        row=1,
        col=1,
    )
    one.add_bar(
        x=(frame["from"] + frame["to"]) / 2,
        y=frame["count"],
        width=(frame["to"] - frame["from"]) * 0.9,
        marker={"color": FAINT, "line": {"color": MUTED, "width": 1}},
        text=frame["count"],
        textposition="outside",
        cliponaxis=False,
        showlegend=False,
        hovertemplate="%{y} films<extra></extra>",
        row=2,
        col=1,
    )
    _look(one, 460)
    one.update_xaxes(range=[0, 1])
    one.update_xaxes(title=chart.axes[0], row=2, col=1)
    one.update_yaxes(title=chart.axes[1], range=[-0.03, 1.03], row=1, col=1)
    one.update_yaxes(title="Films", range=[0, 1.35 * max(1, int(frame["count"].max()))], row=2, col=1)
    return one


KINDS: Mapping[str, Callable[[Chart], go.Figure]] = {
    "intervals": intervals,
    "matrix": matrix,
    "lines": lines,
    "bars": bars,
    "pairs": pairs,
    "curves": curves,
    "reliability": reliability,
}


def _empty(chart: Chart, height: int) -> go.Figure:
    one = _look(go.Figure(), height)
    one.update_xaxes(title=chart.axes[0])
    return one.update_yaxes(title=chart.axes[1])


def _look(one: go.Figure, height: int) -> go.Figure:
    """The look of all figures: white, thin grid, legend above, room for axis titles."""
    one.update_layout(
        template="plotly_white",
        height=height,
        font={"family": "Source Sans Pro, Helvetica, Arial, sans-serif", "size": 14, "color": INK},
        margin={"l": 10, "r": 10, "t": 30, "b": 10},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0, "title": None, "traceorder": "normal"},
        hoverlabel={"font_size": 13},
        paper_bgcolor="white",
        plot_bgcolor="white",
    )
    one.update_xaxes(gridcolor=GRID, zerolinecolor=FAINT, automargin=True)
    return one.update_yaxes(gridcolor=GRID, zeroline=False, automargin=True)


def _named_rows(one: go.Figure, names: Any) -> go.Figure:
    labels = [drawn(name, 30) for name in names]
    rows = len(labels)
    return one.update_yaxes(
        tickvals=list(range(rows)), ticktext=labels, range=[rows - 0.5, -0.5], showgrid=False, zeroline=False
    )


def _flag(frame: pd.DataFrame, name: str) -> list[bool]:
    return [bool(value) for value in frame[name]] if name in frame else [False] * len(frame)


def _errors(frame: pd.DataFrame, value: str, colour: str) -> dict[str, Any]:
    """Bars to both ends of an interval, never of negative length."""
    return {
        "type": "data",
        "symmetric": False,
        "array": (frame["high"] - frame[value]).clip(lower=0),
        "arrayminus": (frame[value] - frame["low"]).clip(lower=0),
        "color": colour,
        "thickness": 1.6,
        "width": 5,
    }


def _dotted() -> dict[str, Any]:
    return {"color": MUTED, "dash": "dot", "width": 1}


def _lines_across(one: go.Figure, places: Mapping[str, float], span: tuple[float, float], at: float = 1.0) -> None:
    """Upright lines: a full one without a word, dotted ones with their word on the side with more room."""
    sides = roomier_sides(places, span)
    for word, place in places.items():
        one.add_vline(x=place, line={"color": MUTED, "dash": "dot", "width": 2} if word else {"color": INK, "width": 2})
        if word:
            anchor = "right" if sides[word] == "left" else "left"
            one.add_annotation(
                x=place, y=at, yref="paper", yanchor="bottom", text=drawn(word), showarrow=False, xanchor=anchor,
                xshift=-4 if anchor == "right" else 4, font={"color": MUTED, "size": 12},
                bgcolor="rgba(255,255,255,0.6)",
            )  # fmt: skip


def _outline(one: go.Figure, row: int, column: int, kind: str) -> None:
    colour, width, edge = (ACCENT, 4, 0.5) if kind == "chosen" else (WARN, 2, 0.44)
    one.add_shape(
        type="rect", x0=column - edge, x1=column + edge, y0=row - edge, y1=row + edge,
        line={"color": colour, "width": width}, fillcolor="rgba(0,0,0,0)",
    )  # fmt: skip
