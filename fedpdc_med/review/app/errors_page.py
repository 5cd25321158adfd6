"""Errors: what is called what, and the films behind each cell with where the model looked."""

import numpy as np
import pandas as pd
import streamlit as st
from torch import nn

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.confusion import MISSED, confusion, dangerous_cells, films_of_cell, normal_class
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.figures.errors import BESIDE, confusion_figure
from fedpdc_med.review.film_images import Shelf, open_shelf
from fedpdc_med.review.gradcam import LABEL, load_model, maps, preparation_of, side_by_side
from fedpdc_med.review.sections import tables
from fedpdc_med.runs.listing import Choice, RunView, films
from fedpdc_med.runs.predictions import GLOBAL, spoken

FILMS_A_PAGE, ACROSS = 6, 2
MATRIX, CELL, PAGE = "errors_matrix", "errors_cell", "errors_page"
Cell = tuple[str, str]


@st.cache_data(max_entries=64, show_spinner=False)
def counted(mark: str, model: str, split: str, _frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    return confusion(_frame), dangerous_cells(_frame)


@st.cache_resource(max_entries=4, show_spinner="Looking for the films on this machine…")
def shelf_of(mark: str, _view: RunView) -> Shelf:
    return open_shelf(_view)


@st.cache_resource(max_entries=4, show_spinner=False)
def model_of(mark: str, channels: int, size: int, _view: RunView) -> nn.Module:
    return load_model(_view, channels, size)


@st.cache_data(max_entries=64, show_spinner="Working out where the model looked…")
def pictures_of(
    mark: str, places: tuple[tuple[str, str], ...], called: int, model: str, _view: RunView
) -> tuple[list[bytes | None], str]:
    """For each film (site, pseudonym) its picture beside its map, or None; and a sentence where there are no maps."""
    images = shelf_of(mark, _view).images([site for site, _ in places], [film for _, film in places])
    found = [image for image in images if image is not None]
    if not found:
        return [None] * len(images), ""
    heats: list[np.ndarray | None] = [None] * len(found)
    why = ""
    try:
        if model != GLOBAL:
            raise UserError("Maps of where a model looked are drawn for the global model only.")
        network = model_of(mark, found[0].shape[0], found[0].shape[-1], _view)
        heats = list(maps(network, preparation_of(_view), np.stack(found), [called] * len(found)))
    except UserError as error:
        why = str(error)
    sheets = iter([side_by_side(image, heat) for image, heat in zip(found, heats, strict=True)])
    return [None if image is None else next(sheets) for image in images], why


def page(view: RunView, choice: Choice) -> None:
    frame = films(view, choice)
    if frame.empty:
        raise UserError("This model has no predictions on these films; choose other films in the sidebar.")
    counts, cells = counted(view.fingerprint, choice.model, choice.split, frame)
    chosen = choose_cell(view, counts, cells)
    if len(view.classes) > BESIDE:  # a large matrix needs the whole width
        draw_matrix(view, counts, chosen)
        name_dangers(cells)
    else:
        left, right = st.container(key=look.ROOMY).columns([6, 5], gap="medium")
        with left:
            draw_matrix(view, counts, chosen)
        with right:
            name_dangers(cells)
    cell_films(view, choice, frame, counts, chosen)


def choose_cell(view: RunView, counts: pd.DataFrame, cells: pd.DataFrame) -> Cell:
    """The cell whose films are shown; the first time the worst mistake that happened."""
    mistakes = [(str(r.true), str(r.called)) for r in cells[cells["count"] > 0].itertuples()]
    options = mistakes + [(name, name) for name in view.classes]
    if st.session_state.get(CELL) not in options:
        clicked: object = st.session_state.get(CELL)
        if isinstance(clicked, tuple) and set(clicked) <= set(view.classes):
            options.append(clicked)  # a cell that no film is in
        else:
            st.session_state[CELL] = options[0]
    return st.selectbox(
        "Show the films of",
        options,
        key=CELL,
        format_func=lambda cell: in_words(cell, counts),
        help="Or click a cell of the matrix.",
    )


def in_words(cell: Cell, counts: pd.DataFrame) -> str:
    true, called = cell
    number, total = int(counts.at[true, called]), int(counts.loc[true].to_numpy().sum())  # type: ignore[arg-type]
    what = f"{spoken(true)} found" if true == called else f"{spoken(true)} called {spoken(called)}"
    return f"{what}: {number} of {total}"


def draw_matrix(view: RunView, counts: pd.DataFrame, chosen: Cell) -> None:
    def clicked() -> None:
        points = st.session_state[MATRIX].selection.points
        if points:
            row, column = points[0]["customdata"]
            st.session_state[CELL] = (view.classes[int(row)], view.classes[int(column)])

    st.plotly_chart(
        confusion_figure(counts, chosen),
        theme=None,
        config=look.PLOTLY,
        key=MATRIX,
        on_select=clicked,
        selection_mode="points",
        alt="Confusion matrix: films of each true class by what the model called them",
    )
    missed = "A red frame marks diseases called normal. " if normal_class(view.classes) else ""
    st.caption(
        f"Films, and their share of the row (the true class). {missed}The blue frame is the cell whose films are shown "
        "below; click another cell to see its films."
    )


def name_dangers(cells: pd.DataFrame, most: int = 12) -> None:
    st.subheader(tables.dangers_title(cells), anchor=False)
    shown, rest = tables.dangers(cells, most)
    inside = [f"{share} ({between})" for share, between in zip(shown["share"], shown["95 %"], strict=True)]
    look.table(shown[["mistake", "films"]].assign(**{"share (95 %)": inside}), "No film was called wrongly.")
    if rest > 0:
        st.caption(f"{look.count(rest, 'further mistake')} not listed; they are in the matrix.")
    if (cells["kind"] == MISSED).any():
        st.caption(
            "Diseases called normal stay in the list when they never happened: none among few is no proof of safety."
        )


@st.fragment
def cell_films(view: RunView, choice: Choice, frame: pd.DataFrame, counts: pd.DataFrame, chosen: Cell) -> None:
    true, called = chosen
    inside = films_of_cell(frame, true, called)
    st.subheader(look.plain(in_words(chosen, counts)), anchor=False)
    if inside.empty:
        st.caption("No film is in this cell.")
        return
    st.caption("Most confident first.")
    last = -(-len(inside) // FILMS_A_PAGE)
    number = 1
    if last > 1:
        number = int(st.number_input(f"Page (1 to {last})", 1, last, key=f"{PAGE} {choice.split} {true} {called}"))
    some = inside.iloc[(number - 1) * FILMS_A_PAGE : number * FILMS_A_PAGE]
    draw_films(view, choice, some, called)


def draw_films(view: RunView, choice: Choice, some: pd.DataFrame, called: str) -> None:
    places = tuple(zip(some["site"].astype(str), some["film"].astype(str), strict=True))
    pictures, why = pictures_of(view.fingerprint, places, view.classes.index(called), choice.model, view)
    if why:
        st.info(look.plain(why))
    elif any(pictures):
        st.caption(f"Beside each film a Grad-CAM map: {LABEL[0].lower()}{LABEL[1:]}")
    shelf = shelf_of(view.fingerprint, view)
    absent = {site for (site, _), picture in zip(places, pictures, strict=True) if picture is None}
    for site in sorted(absent):
        st.info(look.plain(shelf.why_not(site)))
    rows = list(zip(some.itertuples(), pictures, strict=True))
    for start in range(0, len(rows), ACROSS):
        for column, (row, picture) in zip(st.columns(ACROSS), rows[start : start + ACROSS], strict=False):
            with column.container(border=True):
                if picture is not None:
                    st.image(picture, width="stretch", alt=f"Film {row.film}, and where the model looked on it")
                site = str(row.site)
                facts = [view.title_of(site) if site else "", row.view, row.sex, row.age_band]
                st.markdown(look.plain(f"called {spoken(called)} with probability {row.confidence:.2f}"))
                about = ", ".join(str(fact) for fact in facts if fact)
                st.caption(look.plain(f"film {row.film}" + (f" · {about}" if about else "")))
