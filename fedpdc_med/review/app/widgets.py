"""Sections as Streamlit shows them: text from a run as text, never as markup."""

import re
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from fedpdc_med.common.description import Chart, Number, Section, Table
from fedpdc_med.review.plotly_charts import figure

LONG, BROAD = 25, 12  # rows and columns that still fit on a page
ROOMY = "roomy"  # a container whose columns are stacked unless each has room for a figure
# For Streamlit's own elements. In a narrow window: smaller numbers on cards, no four cards in a row, and a narrower
# sidebar down to 768 pixels, where Streamlit puts it away.
LAYOUT = f"""
[data-testid=stMainBlockContainer] {{padding-top: 4.5rem; padding-bottom: 2rem}}
[class*=st-key-{ROOMY}] [data-testid=stColumn] {{min-width: min(18rem, 100%)}}
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
LEVELS = {
    "alarm": (st.error, ":material/warning:", "High risk"),
    "watch": (st.warning, ":material/visibility:", "Possible risk"),
    "fine": (st.success, ":material/check:", "None found"),
    "not estimable": (st.info, ":material/question_mark:", "Not estimable"),
}


def plain(text: object) -> str:
    """Text for Streamlit's markdown, shown as it is: no markup, link, icon or formula can be made of it."""
    escaped = re.sub(r"([\\`*_{}\[\]()#+\-.!|~$<>:&=^\"'])", r"\\\1", " ".join(str(text).split()))
    # Links, mail addresses and icon names are looked for again after escapes are undone; an invisible joiner stops it.
    return re.sub(r"(\\:|@|www)(?=\S)", "\\1\u2060", escaped)


def show(section: Section) -> None:
    if section.level in LEVELS:
        with st.container(border=True):
            verdict(section)
            body(section)
        return
    if section.title:
        st.subheader(plain(section.title), anchor=False)
    if section.level == "info":
        st.info("  \n".join(map(plain, section.sentences)))
    elif section.sentences:
        st.markdown("  \n".join(map(plain, section.sentences)))
    body(section)


def verdict(section: Section) -> None:
    box, icon, word = LEVELS[section.level]
    sentences = " ".join(map(plain, section.sentences))
    box(f"**{word}: {plain(section.title)}.** {sentences}" if section.title else sentences, icon=icon)


def body(section: Section) -> None:
    if section.bullets:
        st.markdown("\n".join(f"- {plain(one)}" for one in section.bullets))
    numbers(section.numbers)
    charts(section.charts)
    for one in section.tables:
        table(one)
    for note in section.notes:
        st.caption(plain(note))
    if section.parts and all(part.bullets and part.title for part in section.parts):  # short lists go side by side
        for column, part in zip(st.columns(len(section.parts)), section.parts, strict=True):
            with column:
                show(part)
        return
    for part in section.parts:
        show(part)


def numbers(all_of_them: Sequence[Number]) -> None:
    if not all_of_them:
        return
    for column, one in zip(st.columns(len(all_of_them)), all_of_them, strict=True):
        with column:
            number(one)


def number(one: Number) -> None:
    """One big number with its details below; unlike st.metric, nothing is cut off at tablet width."""
    with st.container(border=True, height="stretch"):
        st.caption(plain(one.label))
        st.markdown(f"### :red[{plain(one.value)}]" if one.warn else f"### {plain(one.value)}")
        st.markdown("  \n".join(map(plain, one.below)))


def charts(side_by_side: Sequence[Chart]) -> None:
    if len(side_by_side) < 2:
        for one in side_by_side:
            chart(one)
        return
    columns = st.container(key=f"{ROOMY} {side_by_side[0].says}").columns(len(side_by_side))
    for column, one in zip(columns, side_by_side, strict=True):
        with column:
            st.markdown(f"**{plain(one.says)}**")
            chart(one)


def chart(one: Chart) -> None:
    st.plotly_chart(figure(one), theme=None, config=PLOTLY, key=f"chart {one.says}", alt=one.says)


def table(one: Table) -> None:
    """A table of text as HTML, which wraps, prints and is read aloud; a large one scrolls instead."""
    if one.title:
        st.markdown(f"**{plain(one.title)}**")
    if one.frame.empty:
        st.caption(plain(one.empty))
    elif len(one.frame) > LONG or len(one.frame.columns) > BROAD:
        st.dataframe(one.frame.astype(str), hide_index=True)
    else:
        shown = one.frame.astype(object).map(plain)
        shown.columns = pd.Index([plain(name) for name in one.frame.columns])
        st.table(shown, hide_index=True, border="horizontal")
