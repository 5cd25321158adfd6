"""The frame around every page: run, films, the research-use banner, and errors as sentences."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from traceback import format_exc
from typing import Literal, NamedTuple

import streamlit as st
from PIL import Image

from fedpdc_med import RESEARCH_USE_ONLY
from fedpdc_med.common import console as terminal
from fedpdc_med.common.errors import UserError
from fedpdc_med.review import model_facts as facts
from fedpdc_med.review.app.cache import kept, opened
from fedpdc_med.review.app.widgets import LAYOUT, plain, show
from fedpdc_med.review.sections import PAGES, Page, builder, meaning_of, option_of
from fedpdc_med.review.style import ACCENT
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import RUN, Choice, Listed, first_shown, list_runs, runs_folder, unfinished
from fedpdc_med.runs.predictions import GLOBAL

log = logging.getLogger(__name__)
NO_SECOND, NOBODY = "", "no second run"
INTERVALS = {"wilson": "by patient (recommended)", "exact": "exact (Clopper-Pearson), treats films as independent"}
WHERE = (
    "For recall on Overview, Per-class recall, subgroups and Sign-off. The CIs of other pages are always by patient."
)
REFRESH_SECONDS = 5.0


class Picked(NamedTuple):
    """What the sidebar says."""

    root: Path
    view: Run
    choice: Choice


def main() -> None:
    st.set_page_config(page_title="fedpdc review", page_icon=tab_icon(), layout="wide")
    st.html(f"<style>{LAYOUT}</style>")
    picked: list[Picked] = []
    pages = [
        st.Page(
            partial(draw, page, picked),
            title=page.title,
            icon=page.icon,
            url_path=page.name,
            default=page is PAGES[0],
        )
        for page in PAGES
    ]
    current = st.navigation(pages)
    # The sidebar is drawn outside the page, because Streamlit forgets a page's widgets when another page opens.
    picked += frame(next(page for page in PAGES if page.title == current.title))
    current.run()


def tab_icon() -> Image.Image:
    """Three white bars on blue, drawn here: a browser would fetch an icon that is only named from the web."""
    icon = Image.new("RGB", (32, 32), ACCENT)
    for left, top in ((5, 18), (13, 11), (21, 5)):
        icon.paste("white", (left, top, left + 6, 27))
    return icon


def show_page(number: int) -> None:
    """One page in its frame, without the navigation."""
    draw(PAGES[number], frame(PAGES[number]))


def frame(page: Page) -> list[Picked]:
    """Banner, title, question and sidebar; nothing is picked if there is no sound run to show."""
    st.warning(RESEARCH_USE_ONLY, icon=":material/science:")
    st.header(page.title, anchor=False)
    st.markdown(f"**{plain(page.question)}**")
    with sentences(page.title):
        root = runs_folder()
        name, others = choose_run(root)
        view = opened(root, name)
        choice = choose(root, view, others)
        st.markdown("  \n".join(plain(line) for line in said_of(view, choice.second)))
        return [Picked(root, view, choice)]
    return []


def draw(page: Page, picked: list[Picked]) -> None:
    for root, view, choice in picked:
        with sentences(page.title):
            if view.status == "finished":
                content(page, view, choice)
            else:
                st.fragment(partial(follow, page, root, view.name, choice), run_every=REFRESH_SECONDS)()


def content(page: Page, run: Run, choice: Choice) -> None:
    if page.widgets:
        import_module(f"fedpdc_med.review.app.{page.name}_page").page(run, choice)
        return
    for name in page.sections:
        with what_there_is(run):
            show(kept(builder(name), run, choice))


@contextmanager
def what_there_is(run: Run) -> Iterator[None]:
    """If a section lacks what it needs, a sentence says so; while the run is in progress, it is just left out."""
    try:
        yield
    except UserError as error:
        if str(error) != unfinished(run):
            st.info(plain(error))


@contextmanager
def sentences(title: str) -> Iterator[None]:
    """An error is one sentence on the page, never a stack trace."""
    try:
        yield
    except UserError as error:
        st.error(plain(error), icon=":material/error:")
    except Exception:
        log.error("the page %s could not be displayed\n%s", title, terminal.shown(format_exc()))
        st.error(
            "This page could not be displayed; see the terminal running the app for details.", icon=":material/error:"
        )


def follow(page: Page, root: Path, name: str, choice: Choice) -> None:
    """A page of a run in progress, drawn again every few seconds until the run ends."""
    with sentences(page.title):
        view = opened(root, name)
        if view.status == "finished":
            st.rerun()
        st.info(plain(f"{unfinished(view)}. This page refreshes itself."), icon=":material/hourglass_top:")
        with what_there_is(view):
            content(page, view, choice)


def choose_run(root: Path) -> tuple[str, list[Listed]]:
    """The run a reader chose; at first the one a link names, or the newest that is not a comparison."""
    listing = list_runs(root)
    if not listing:
        raise UserError(
            "There are no runs in the runs folder. Make one with: fedpdc simulate, or name another folder: "
            "fedpdc review RUNS"
        )
    names = [listed.name for listed in listing]
    if st.session_state.get("run") not in names:
        wanted = st.query_params.get("run") or os.environ.get(RUN)
        st.session_state["run"] = wanted if wanted in names else first_shown(root, listing)
        if wanted and wanted not in names:
            st.info("The run named in the link is not in the runs folder; another one is shown instead.")
    status = {listed.name: listed.status for listed in listing}
    name = st.sidebar.selectbox("Run", names, key="run", format_func=lambda one: labelled(one, status[one]))
    st.query_params["run"] = name
    return name, [listed for listed in listing if listed.name != name and listed.status == "finished"]


def labelled(name: str, status: str) -> str:
    note = {"running": " (in progress)", "no run": " (no run)"}.get(status, "")
    return f"{name}{note}"


def said_of(view: Run, second: Run | None) -> Iterator[str]:
    """The runs shown, each with its method, so that nobody mistakes a comparison for the model itself."""
    yield f"Run: {view.name}. Method: {facts.method_of(view)}."
    if second:
        yield f"Compared with: {second.name}. Method: {facts.method_of(second)}."


def choose(root: Path, view: Run, others: list[Listed]) -> Choice:
    st.sidebar.caption(plain(f"Method: {facts.method_of(view)}"))
    second = pick(
        "Compare with", [NO_SECOND, *(listed.name for listed in others)], "second", lambda name: name or NOBODY
    )
    split, model = "", GLOBAL
    if view.splits:
        split = pick("Evaluate on", view.splits, "split", option_of)
        st.sidebar.caption(plain(meaning_of(split)))
        models = view.models_on(split)
        model = models[0] if len(models) == 1 else pick("Model", models, "model", view.title_of)
    remember("interval", list(INTERVALS))
    interval: Literal["wilson", "exact"] = st.sidebar.radio(
        "95% CI", ("wilson", "exact"), key="interval", format_func=INTERVALS.__getitem__, help=WHERE
    )
    st.query_params["interval"] = interval
    return Choice(second_run(root, second), split, interval, model)


def second_run(root: Path, name: str) -> Run | None:
    """The run to compare with; a damaged one must not break the page of the first run."""
    if not name:
        return None
    try:
        return opened(root, name)
    except UserError as error:
        st.sidebar.error(plain(error), icon=":material/error:")
        return None


def pick(label: str, options: list[str], key: str, shown: Callable[[str], str]) -> str:
    remember(key, options)
    chosen = st.sidebar.selectbox(label, options, key=key, format_func=shown)
    st.query_params[key] = chosen
    return chosen


def remember(key: str, options: list[str]) -> None:
    """What was chosen, also before a reload, or the first option if this run does not have it."""
    if st.session_state.get(key) not in options:
        before = st.query_params.get(key)
        st.session_state[key] = before if before in options else options[0]
