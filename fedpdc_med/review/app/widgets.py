"""How the app and the report look: colours, numbers, tables, and text from a run shown as text, never as markup."""

import html
import math
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

INK, MUTED, FAINT, GRID = "#1b2733", "#5b6770", "#c9d1d8", "#e6eaee"
ACCENT, SECOND, WARN = "#0b5c8a", "#b8602a", "#a4262c"
# Okabe and Ito's colours (without the yellow, too faint on white): told apart by colour-blind readers too.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00", "#1b2733", "#8c8c8c")
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "triangle-down", "star")
# Pale to dark blue, even in lightness, so that a grayscale print keeps the order.
SHADES = ((0.0, "#eef4f8"), (0.25, "#d6e6f0"), (0.5, "#a9cce2"), (0.75, "#6aa5cb"), (1.0, "#0b4a72"))
NOT_ESTIMABLE, NONE = "not estimable", "\u2013"
SPLITS = {
    "holdout": "reference films that nothing was trained or chosen on",
    "test": "the benchmark's test images",
    "external": "films of sites that took no part",
    "local": "each site's own test films",
    "weighting": "reference films that scored the sites and set their weights: numbers on them flatter",
}
LONG, BROAD = 25, 12  # rows and columns that still fit on a page
ROOMY = "roomy"  # a container whose columns stand below each other unless each has room for a figure
# For Streamlit's own elements. In a narrow window: smaller numbers on cards, no four cards in a row, and a narrower
# sidebar down to 768 pixels, where Streamlit puts it away.
LAYOUT = f"""
[data-testid=stMainBlockContainer] {{padding-top: 4.5rem; padding-bottom: 2rem}}
.st-key-{ROOMY} [data-testid=stColumn] {{min-width: min(18rem, 100%)}}
@media (max-width: 1000px) {{
  [data-testid=stColumn] [data-testid=stMarkdown] h3 {{font-size: 1.4rem}}
}}
@media (min-width: 769px) and (max-width: 1000px) {{
  [data-testid=stSidebar] {{width: 27vw !important}}
  [data-testid=stSidebarContent] {{padding-left: 0.5rem; padding-right: 0.5rem}}
  [data-testid=stSidebar] [data-testid=stSidebarNavLink] * {{white-space: normal}}
}}
@media (min-width: 641px) and (max-width: 1000px) {{
  [data-testid=stColumn]:nth-child(1):nth-last-child(4), [data-testid=stColumn]:nth-child(1):nth-last-child(4) ~ * {{
    min-width: calc(50% - 1rem)
  }}
}}
"""
PLOTLY = {"displayModeBar": False, "responsive": True}


def class_colours(classes: Sequence[str]) -> dict[str, str]:
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(classes)}


def class_dashes(classes: Sequence[str]) -> dict[str, str]:
    """A line style that changes where the colours begin again, so that 20 classes stay apart."""
    return {name: DASHES[(i // len(PALETTE)) % len(DASHES)] for i, name in enumerate(classes)}


def nested(lines: pd.DataFrame, smallest: float = 7) -> pd.DataFrame:
    """Sizes of the markers of lines (columns): larger for every later line that lies on a point, so that all show."""
    values = lines.to_numpy(dtype=float)
    near = 0.01 * np.nan_to_num(np.abs(values)).max(initial=0)
    later = [
        (np.abs(values[:, place + 1 :] - values[:, [place]]) <= near).sum(axis=1) for place in range(len(values.T))
    ]
    step = smallest * min(0.6, 2.5 / max(len(values.T) - 1, 1))
    return smallest + step * pd.DataFrame(dict(enumerate(later)), index=lines.index).set_axis(lines.columns, axis=1)


def plain(text: object) -> str:
    """Text for Streamlit's markdown, shown as it is: no markup, link, icon or formula can be made of it."""
    escaped = re.sub(r"([\\`*_{}\[\]()#+\-.!|~$<>:&=^\"'])", r"\\\1", " ".join(str(text).split()))
    # Links, mail addresses and icon names are looked for again after escapes are undone; an invisible joiner stops it.
    return re.sub(r"(\\:|@|www)(?=\S)", "\\1\u2060", escaped)


def drawn(text: object, longest: int = 40) -> str:
    """Text for a plotly figure, whose own small markup is switched off; long names are cut."""
    words = str(text)
    return html.escape(words if len(words) <= longest else words[: longest - 1] + "…", quote=False)


def share(value: float) -> str:
    return NOT_ESTIMABLE if value is None or math.isnan(value) else f"{value:.2f}"


def between(low: float, high: float) -> str:
    """An interval in two decimals, or three where it would seem to have no width."""
    if math.isnan(low) or math.isnan(high):
        return ""
    digits = 3 if high > low and f"{low:.2f}" == f"{high:.2f}" else 2
    return f"{low:.{digits}f} to {high:.{digits}f}"


def signed(value: float) -> str:
    return NOT_ESTIMABLE if math.isnan(value) else f"{round(value, 2) + 0.0:+.2f}"  # + 0.0: never -0.00


def p_value(value: float) -> str:
    if math.isnan(value):
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def count(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def films_of(split: str) -> str:
    """The chosen films in words."""
    return f"{split} ({SPLITS[split]})" if split in SPLITS else split


def finish(figure: go.Figure, height: int = 360) -> go.Figure:
    """The one look of all figures: white, thin grid, legend above, room for axis titles."""
    figure.update_layout(
        template="plotly_white",
        height=height,
        font={"family": "Source Sans Pro, Helvetica, Arial, sans-serif", "size": 14, "color": INK},
        margin={"l": 10, "r": 10, "t": 30, "b": 10},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0, "title": None, "traceorder": "normal"},
        hoverlabel={"font_size": 13},
        paper_bgcolor="white",
        plot_bgcolor="white",
    )
    figure.update_xaxes(gridcolor=GRID, zerolinecolor=FAINT, automargin=True)
    figure.update_yaxes(gridcolor=GRID, zeroline=False, automargin=True)
    return figure


def chart(figure: go.Figure, key: str, alt: str) -> None:
    st.plotly_chart(figure, theme=None, config=PLOTLY, key=key, alt=alt)


def table(frame: pd.DataFrame, empty: str = "Nothing to show.") -> None:
    """A table of text as HTML, which wraps, prints and is read aloud; a large one scrolls instead."""
    if frame.empty:
        st.caption(empty)
        return
    if len(frame) > LONG or len(frame.columns) > BROAD:
        st.dataframe(frame.astype(str), hide_index=True)
        return
    shown = frame.astype(object).map(plain)
    shown.columns = [plain(name) for name in frame.columns]
    st.table(shown, hide_index=True, border="horizontal")


def number(label: str, value: str, below: Sequence[str], warn: bool = False) -> None:
    """One big number with what it rests on below; unlike st.metric nothing is cut at tablet width."""
    with st.container(border=True, height="stretch"):
        st.caption(plain(label))
        st.markdown(f"### :red[{plain(value)}]" if warn else f"### {plain(value)}")
        st.markdown("  \n".join(plain(line) for line in below if line))
