"""Errors: the confusion matrix to click, and the films of each cell with their Grad-CAM maps."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.confusion import confusion, dangerous_cells, films_of_cell
from fedpdc_med.review.app import cache
from fedpdc_med.review.app.widgets import PLOTLY, ROOMY, plain, show
from fedpdc_med.review.film_images import REFERENCE
from fedpdc_med.review.gradcam import LABEL, maps, side_by_side
from fedpdc_med.review.plotly_charts import drawn, figure
from fedpdc_med.review.sections import chosen
from fedpdc_med.review.sections import confusion as described
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice
from fedpdc_med.runs.predictions import GLOBAL, display_name

BESIDE = 6  # classes up to which cells are readable on half a page
FILMS_A_PAGE, ACROSS = 6, 2
REFERENCE_SET = "public reference set"
MATRIX, CELL, PAGE = "confusion_matrix", "confusion_cell", "confusion_page"
Cell = tuple[str, str]


def page(run: Run, choice: Choice) -> None:
    frame = chosen(run, choice)
    counts, cells = cache.kept(counted, run, choice)
    cell = choose_cell(run, counts, cells)
    if len(run.classes) > BESIDE:  # a large matrix needs the whole width
        draw_matrix(run, counts, cell)
        show(cache.kept(described.mistakes, run, choice))
    else:
        left, right = st.container(key=ROOMY).columns([6, 5], gap="medium")
        with left:
            draw_matrix(run, counts, cell)
        with right:
            show(cache.kept(described.mistakes, run, choice))
    cell_films(run, choice, frame, counts, cell)


def counted(run: Run, choice: Choice) -> tuple[pd.DataFrame, pd.DataFrame]:
    frame = chosen(run, choice)
    return confusion(frame), dangerous_cells(frame)


def choose_cell(run: Run, counts: pd.DataFrame, cells: pd.DataFrame) -> Cell:
    """The cell whose films are shown; at first the worst error that happened."""
    mistakes = [(str(r.true), str(r.called)) for r in cells[cells["count"] > 0].itertuples()]
    options = mistakes + [(name, name) for name in run.classes]
    if st.session_state.get(CELL) not in options:
        clicked: object = st.session_state.get(CELL)
        if isinstance(clicked, tuple) and set(clicked) <= set(run.classes):
            options.append(clicked)  # a cell without films
        else:
            st.session_state[CELL] = options[0]
    return st.selectbox(
        "Show films for",
        options,
        key=CELL,
        format_func=lambda cell: in_words(cell, counts),
        help="You can also click a cell of the matrix.",
    )


def in_words(cell: Cell, counts: pd.DataFrame) -> str:
    true, called = cell
    number, total = int(counts.at[true, called]), int(counts.loc[true].to_numpy().sum())  # type: ignore[arg-type]
    what = (
        f"{display_name(true)} classified correctly"
        if true == called
        else f"{display_name(true)} predicted as {display_name(called)}"
    )
    return f"{what}: {number} of {total}"


def draw_matrix(run: Run, counts: pd.DataFrame, cell: Cell) -> None:
    def clicked() -> None:
        points = st.session_state[MATRIX].selection.points
        if points:
            row, column = points[0]["customdata"]
            st.session_state[CELL] = (run.classes[int(row)], run.classes[int(column)])

    chart = described.matrix_chart(counts, cell)
    st.plotly_chart(
        clickable(figure(chart), counts),
        theme=None,
        config=PLOTLY,
        key=MATRIX,
        on_select=clicked,
        selection_mode="points",
        alt=chart.says,
    )
    st.caption(
        f"{described.matrix_words(run.classes)} Blue frame: the cell shown below; click another cell to change it."
    )


def clickable(matrix: go.Figure, counts: pd.DataFrame) -> go.Figure:
    """A heat map reports no clicks to Streamlit, so invisible markers on its cells report them."""
    names, number, values = [drawn(display_name(str(name))) for name in counts.index], len(counts), counts.to_numpy()
    cells = [(row, column) for row in range(number) for column in range(number)]
    matrix.add_scatter(
        x=[column for _, column in cells],
        y=[row for row, _ in cells],
        mode="markers",
        marker={"symbol": "square", "size": max(6, min(44, 300 // number)), "color": "rgba(0,0,0,0)"},
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
        customdata=cells,
        hovertext=[
            f"{names[row]} predicted as {names[column]}<br>{int(values[row, column])} films" for row, column in cells
        ],
        hoverinfo="text",
        showlegend=False,
    )
    matrix.update_xaxes(fixedrange=True).update_yaxes(fixedrange=True)
    return matrix.update_layout(clickmode="event+select", dragmode=False, hovermode="closest", hoverdistance=200)


@st.fragment
def cell_films(run: Run, choice: Choice, frame: pd.DataFrame, counts: pd.DataFrame, cell: Cell) -> None:
    true, called = cell
    inside = films_of_cell(frame, true, called)
    st.subheader(plain(in_words(cell, counts)), anchor=False)
    if inside.empty:
        st.caption("There are no films in this cell.")
        return
    st.caption("Most confident first.")
    last = -(-len(inside) // FILMS_A_PAGE)
    number = 1
    if last > 1:
        number = int(st.number_input(f"Page (1 to {last})", 1, last, key=f"{PAGE} {choice.split} {true} {called}"))
    some = inside.iloc[(number - 1) * FILMS_A_PAGE : number * FILMS_A_PAGE]
    draw_films(run, choice, some, called)


def draw_films(run: Run, choice: Choice, some: pd.DataFrame, called: str) -> None:
    places = tuple(zip(some["site"].astype(str), some["film"].astype(str), strict=True))
    pictures, why = cache.kept(pictures_of, run, choice, places, called)
    if why:
        st.info(plain(why))
    elif any(pictures):
        st.caption(f"Right of each film, a Grad-CAM map: {LABEL[0].lower()}{LABEL[1:]}")
    absent = {site for (site, _), picture in zip(places, pictures, strict=True) if picture is None}
    for site in sorted(absent):
        st.info(plain(cache.images(run).why_not(site)))
    rows = list(zip(some.itertuples(), pictures, strict=True))
    for start in range(0, len(rows), ACROSS):
        for column, (row, picture) in zip(st.columns(ACROSS), rows[start : start + ACROSS], strict=False):
            with column.container(border=True):
                if picture is not None:
                    st.image(picture, width="stretch", alt=f"Film {row.film} and its Grad-CAM map")
                site = str(row.site)
                facts = [REFERENCE_SET if site == REFERENCE else run.title_of(site), row.view, row.sex, row.age_band]
                st.markdown(plain(f"Predicted as {display_name(called)} with probability {row.confidence:.2f}"))
                about = ", ".join(str(fact) for fact in facts if fact)
                st.caption(plain(f"Film {row.film}" + (f" · {about}" if about else "")))


def pictures_of(
    run: Run, choice: Choice, places: tuple[tuple[str, str], ...], called: str
) -> tuple[list[bytes | None], str]:
    """For each film (site, pseudonym) its picture next to its map, or None; and a sentence if there are no maps."""
    images = cache.images(run).images([site for site, _ in places], [film for _, film in places])
    found = [image for image in images if image is not None]
    if not found:
        return [None] * len(images), ""
    heats: list[np.ndarray | None] = [None] * len(found)
    why = ""
    try:
        if choice.model != GLOBAL:
            raise UserError("Grad-CAM maps are available for the global model only.")
        shown = [run.classes.index(called)] * len(found)
        heats = list(maps(cache.model(run), run.plan.preparation, np.stack(found), shown))
    except UserError as error:
        why = str(error)
    sheets = iter([side_by_side(image, heat) for image, heat in zip(found, heats, strict=True)])
    return [None if image is None else next(sheets) for image in images], why
