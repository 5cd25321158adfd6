"""One self-contained HTML page about a run: facts, tables, pictures, decisions. No network, no script."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from fedpdc_med import RESEARCH_USE_ONLY, __version__
from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.calibration import calibration, reliability
from fedpdc_med.evaluation.confusion import confusion, dangerous_cells
from fedpdc_med.evaluation.contributions import site_rounds, site_shares
from fedpdc_med.evaluation.discrimination import discrimination
from fedpdc_med.evaluation.recall import Estimate, Method, per_class_recall
from fedpdc_med.evaluation.sites import Headline, headline, site_by_class
from fedpdc_med.evaluation.subgroups import ATTRIBUTES, FEWEST, subgroup_recall
from fedpdc_med.review import model_facts as facts
from fedpdc_med.review import svg_charts as drawings
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.app.shaped_page import as_text
from fedpdc_med.review.film_images import open_shelf
from fedpdc_med.review.sections import tables
from fedpdc_med.review.sections.shortcuts import Checked, check
from fedpdc_med.review.signoff import Decision, disputed, model_hash, read_decisions, standing
from fedpdc_med.runs.listing import RunView, unfinished
from fedpdc_med.runs.predictions import GLOBAL, reported_split, select, spoken

CHOOSING = ("weighting", "local")
MOST_MISTAKES = 15


@dataclass(frozen=True)
class Table:
    title: str
    frame: pd.DataFrame

    @property
    def header(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    @property
    def rows(self) -> list[list[str]]:
        return [[str(value) for value in row] for row in self.frame.to_numpy()]


@dataclass(frozen=True)
class Picture:
    address: str
    says: str


@dataclass
class Section:
    """A heading with sentences, pictures and tables below it, in this order."""

    title: str
    sentences: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def make_report(view: RunView, interval: Method = "auto", now: datetime | None = None) -> str:
    """The page as text; what a run does not have is left out with a sentence."""
    model = model_hash(view.folder)
    decisions = read_decisions(view.folder)
    frame, split, why_not = reported(view)
    numbers = headline(view.predictions, interval) if frame is not None and view.predictions is not None else None
    recall = per_class_recall(frame, interval) if frame is not None else None
    sections = [decided(view, decisions, model), about(view, model), training(view)]
    if frame is None or recall is None or view.predictions is None:
        sections.append(Section("Results", [why_not]))
    else:
        sections += results(view, view.predictions, frame, split, recall, interval)
    environment = Environment(
        loader=PackageLoader("fedpdc_med.review", "."), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("report.html.j2").render(
        name=view.name,
        method=facts.method_of(view),
        banner=RESEARCH_USE_ONLY,
        version=__version__,
        made=(now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        numbers=big_numbers(view, numbers, recall) if numbers is not None and recall is not None else [],
        split=look.films_of(split),
        intended=facts.intended_use(view),
        not_for=facts.not_to_use(view, numbers, recall),
        sections=sections,
    )


def reported(view: RunView) -> tuple[pd.DataFrame | None, str, str]:
    """Predictions of the global model on the films people are shown, or a sentence why there are none."""
    if view.predictions is None:
        return None, "", unfinished(view)
    try:
        split = reported_split(view.predictions)
    except UserError:
        return None, "", f"The method of this run ({view.method}) shares no model: there is no global model to report."
    return select(view.predictions, model=GLOBAL, split=split), split, ""


def big_numbers(view: RunView, numbers: Headline, recall: pd.DataFrame) -> list[tuple[str, str, str]]:
    """The three numbers that matter: a name, the value, what it rests on."""
    worst, macro = numbers.worst, numbers.macro
    named = facts.worst_named(worst, recall)
    shown = [
        (f"Worst-class recall: {named}", *_estimate(worst, f"{worst.correct} of {worst.total} films")),
        ("Macro recall", *_estimate(macro, "mean of the classes")),
    ]
    if numbers.drop is None:
        return [*shown, ("Macro recall at a site outside", look.NOT_ESTIMABLE, "no site stayed outside the training")]
    where, change = view.title_of(numbers.outside), facts.changed_by(numbers.drop.macro, numbers.split)
    note = numbers.drop.macro.note
    outside = (f"Macro recall at {where}, which took no part", look.share(numbers.drop.level))
    return [*shown, (*outside, "; ".join(part for part in (change, facts.worst_of(numbers), note) if part))]


def _estimate(estimate: Estimate, rests_on: str) -> tuple[str, str]:
    inside = look.between(estimate.low, estimate.high)
    words = [f"95 % interval {inside}", rests_on] if inside else []
    return look.share(estimate.value), "; ".join([*words, *([estimate.note] if estimate.note else [])])


def about(view: RunView, model: str | None) -> Section:
    rows = [*facts.model_facts(view), ("Model file, SHA-256", model or "none: the run has no global model")]
    section = Section("The model", tables=[Table("", pd.DataFrame(rows, columns=["fact", "value"]))])
    sites = facts.sites_table(view)
    if sites.empty:
        section.notes.append("The run names no sites.")
    else:
        section.tables.append(Table("Sites", sites))
    return section


def training(view: RunView) -> Section:
    section = Section("Training")
    films = facts.training_films(view)
    if len(films.columns):
        picture = drawings.training_picture(films, view.title_of)
        section.pictures.append(Picture(picture, "Training films of each class, one bar a site"))
    else:
        section.sentences.append("The run does not say how many training films of each class its sites have.")
    if view.rounds:
        picture = drawings.rounds_picture(view.rounds, view.classes)
        alone = view.predictions is not None and GLOBAL not in view.models
        whose = "the sites' own models, their mean," if alone else "the global model"
        section.pictures.append(
            Picture(picture, f"Recall of {whose} by round, on films that nothing was trained or chosen on")
        )
    else:
        section.sentences.append("No round is recorded.")
        return section
    rounds = site_rounds(view.rounds)
    shares = site_shares(rounds)
    if shares["weight"].any():
        titles = {site: view.title_of(site) for site in rounds["site"].unique()}
        section.tables.append(Table("Who shaped the model: mean weight over the rounds", as_text(shares, titles)))
    else:
        section.notes.append("Nothing was shared in this run: every site trained alone, so no site has a weight.")
    return section


def decided(view: RunView, decisions: list[Decision], model: str | None) -> Section:
    section = Section("Decisions")
    if not decisions:
        section.sentences.append("No reviewer has signed this model off.")
        return section
    rows, stands = [], standing(decisions, view.classes, model)
    if open_questions := disputed(stands):
        section.sentences.append(f"Reviewers disagree on: {', '.join(map(spoken, open_questions))}.")
    for stand in stands:
        last = stand.decision
        rows.append(
            {
                "class": spoken(stand.label),
                "decision": stand.words,
                "by": last.reviewer if last else "",
                "time": last.time.replace("T", " ").replace("+00:00", " UTC") if last else "",
                "had seen": last.seen if last else "",
                "comment": last.comment if last else "",
            }
        )
    section.tables.append(Table("", pd.DataFrame(rows)))
    if len(decisions) > sum(bool(row["by"]) for row in rows):
        section.tables.append(Table("All decisions, newest first", tables.history(decisions, model)))
    return section


def results(
    view: RunView, predictions: pd.DataFrame, frame: pd.DataFrame, split: str, recall: pd.DataFrame, interval: Method
) -> list[Section]:
    return [
        recall_section(view, predictions, recall, interval),
        errors_section(frame),
        operating_section(view, predictions, frame, split),
        calibration_section(frame),
        shortcuts_section(view, predictions),
        subgroups_section(view, frame, interval),
    ]


def recall_section(view: RunView, predictions: pd.DataFrame, recall: pd.DataFrame, interval: Method) -> Section:
    section = Section(
        "Recall of each class", ["Worst first. Recall is the share of a class's films that the model finds."]
    )
    section.pictures.append(Picture(drawings.recall_picture(recall), "Recall of each class with its 95 % interval"))
    section.tables.append(Table("", tables.recall(recall)))
    outside = select(predictions, model=GLOBAL, split="external")
    local = select(predictions, model=GLOBAL, split="local")
    for title, rows in (("At sites that took no part", outside), ("On each site's own test films", local)):
        if len(rows):
            section.tables.append(
                Table(title, tables.by_site(site_by_class(rows, interval), view.classes, view.title_of))
            )
    if outside.empty and local.empty:
        section.notes.append("The run has no films of single sites, so there is no table by site.")
    return section


def errors_section(frame: pd.DataFrame) -> Section:
    cells = dangerous_cells(frame)
    shown, rest = tables.dangers(cells, MOST_MISTAKES)
    section = Section(
        "Errors", ["Rows are true classes, columns what the model called them; shade is the share of the row."]
    )
    section.pictures.append(Picture(drawings.confusion_picture(confusion(frame)), "Confusion matrix"))
    section.tables.append(Table(tables.dangers_title(cells), shown))
    if rest:
        section.notes.append(f"{look.count(rest, 'further mistake')} not listed.")
    return section


def operating_section(view: RunView, predictions: pd.DataFrame, frame: pd.DataFrame, split: str) -> Section:
    mine = select(predictions, model=GLOBAL)
    found = next((name for name in CHOOSING if name != split and (mine["split"] == name).any()), None)
    section = Section("Operating points")
    if found is None:
        section.sentences.append(
            "The run has no films beside the reported ones, so no threshold could be chosen fairly."
        )
        return section
    section.sentences.append(
        f"Thresholds with the best sum of sensitivity and specificity on the {found} films; the numbers are of the "
        f"{split} films, on which nothing was trained or chosen."
    )
    section.tables.append(Table("", tables.operating(frame, select(mine, split=found), view.classes)))
    return section


def calibration_section(frame: pd.DataFrame) -> Section:
    found = calibration(frame)
    sentence = (
        f"Brier score {found.brier:.3f} (0 is best, 2 worst; knowing only the shares of the classes gives "
        f"{found.brier_of_prevalence:.3f}), expected calibration error {found.ece:.3f}."
    )
    section = Section("Calibration and discrimination", [sentence])
    picture = drawings.reliability_picture(reliability(frame))
    section.pictures.append(
        Picture(picture, "Promised probability against the share that came true, with films per bin")
    )
    section.tables.append(Table("Each class against the rest", tables.areas(discrimination(frame))))
    return section


def shortcuts_section(view: RunView, predictions: pd.DataFrame) -> Section:
    shelf = open_shelf(view) if facts.is_medical(view) else None
    found: Checked = check(shelf, predictions, view.classes, view.sites)
    section = Section("Shortcuts")
    if found.findings:
        section.sentences.append(f"Looked for in {look.count(found.films, 'film')} of {found.whose}.")
    words = {"alarm": "ALARM", "watch": "Watch", "fine": "Fine", "not estimable": "Not estimable"}
    for finding in found.findings:
        section.sentences.append(f"{words[finding.verdict]}: {finding.name}. {finding.sentence}")
        if "auc" not in finding.table:
            section.tables.append(
                Table("Films of each source and class", tables.source_counts(finding.table, view.classes))
            )
    section.notes += found.not_checked
    return section


def subgroups_section(view: RunView, frame: pd.DataFrame, interval: Method) -> Section:
    table = subgroup_recall(frame, interval)
    section = Section("Subgroups")
    absent = []
    for name in ATTRIBUTES:
        title = tables.ATTRIBUTE_NAMES[name]
        if not (table["attribute"] == name).any():
            absent.append(title)
            continue
        section.tables.append(Table(f"Recall by {title}", tables.subgroups(table, name, view.classes)))
    if section.tables:
        section.notes.append(f"Not shown: cells of fewer than {FEWEST} patients, and those that would give them away.")
    if absent:
        section.sentences.append(f"Not recorded for these films, so not checked: {', '.join(absent)}.")
    return section
