"""The HTML report of a run: the app's pages on one page, for print. It needs no network and no script."""

from datetime import UTC, datetime
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedpdc_med import RESEARCH_USE_ONLY, __version__
from fedpdc_med.common.description import Section
from fedpdc_med.common.errors import UserError
from fedpdc_med.review import model_facts as facts
from fedpdc_med.review.sections import PAGES, Page, build, builder
from fedpdc_med.review.signoff import read_decisions
from fedpdc_med.review.svg_charts import picture
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, reported, unfinished
from fedpdc_med.runs.predictions import GLOBAL

FIRST = "Sign-off"  # whoever is handed a report asks first whether the model was accepted


class Chapter(NamedTuple):
    page: Page
    sections: list[Section]


def make_report(run: Run, choice: Choice | None = None, now: datetime | None = None) -> str:
    """The page as text; where a run has nothing to show, a sentence says so."""
    read_decisions(run.folder)  # a damaged file is an error, not an empty list
    choice = reported(run, choice or Choice())
    pages = sorted(PAGES, key=lambda page: page.title != FIRST)
    chapters = [chapter(page, run, choice) for page in pages]
    environment = Environment(
        loader=PackageLoader("fedpdc_med.review", "."), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["picture"] = picture
    return environment.get_template("report.html.j2").render(
        name=run.name,
        method=facts.method_of(run),
        banner=RESEARCH_USE_ONLY,
        version=__version__,
        made=(now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        why_not=why_not(run),
        chapters=[one for one in chapters if one.sections],
    )


def chapter(page: Page, run: Run, choice: Choice) -> Chapter:
    sections = []
    for name in page.sections:
        try:
            sections.append(build(builder(name), run, choice))
        except UserError:
            if not why_not(run):
                raise
    return Chapter(page, sections)


def why_not(run: Run) -> str:
    """Why a run has no results to report."""
    if run.predictions is None:
        return unfinished(run)
    if GLOBAL not in run.models:
        return f"The method of this run ({run.method}) shares no model, so there is no global model to report."
    return ""
