"""Can a class be guessed without looking at the lung? The checks on a run's films, and what was not checked."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fedpdc_med.common.description import Chart, Section, Table, count
from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.confounding import Finding, source_by_label
from fedpdc_med.evaluation.shortcuts import (
    ALARM_AUC,
    WATCH_AUC,
    class_from_border,
    class_from_shape,
    source_from_image,
)
from fedpdc_med.review.film_images import REFERENCE, ImageSample, RunImages, gather, images_of
from fedpdc_med.review.model_facts import is_medical
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import unfinished
from fedpdc_med.runs.predictions import display_name

MOST_FILMS = 8000
MOST_NAMES = 3
ORDER = ("alarm", "watch", "fine", "not estimable")
MOST_AREAS = 12


@dataclass(frozen=True)
class Checked:
    """Findings, worst first; `films` is how many were checked, `whose` says from where, as in `all sites`."""

    findings: list[Finding]
    not_checked: list[str]
    films: int
    whose: str


def without_the_lung(run: Run) -> Section:
    if run.predictions is None:
        raise UserError(unfinished(run))
    found = check(images_of(run) if is_medical(run) else None, run.predictions, run.classes, run.sites)
    sentence = (
        f"Simple checks on {count(found.films, 'film')} of {found.whose}, none of which sees more of the lung than a "
        "thumbnail of 16 by 16 pixels. A model can use the same shortcuts and then fail elsewhere. Verdicts use the "
        "lower end of each 95% CI."
    )
    parts = [describe(finding, run.classes) for finding in found.findings]
    if found.not_checked:
        parts.append(Section("Not checked", bullets=tuple(found.not_checked)))
    return Section(
        "Can a class be guessed without looking at the lung?",
        (sentence,) if found.findings else (),
        parts=tuple(parts),
    )


def describe(finding: Finding, classes: list[str]) -> Section:
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    if "auc" not in finding.table:
        tables = (Table("", source_counts(finding.table, classes)),)
    elif not finding.table.empty:
        charts = (areas(finding),)
    return Section(finding.name, (finding.sentence,), charts=charts, tables=tables, level=finding.verdict)


def areas(finding: Finding) -> Chart:
    shown = finding.table.head(MOST_AREAS)
    names = [f"{display_name(str(name))} ({n})" for name, n in zip(shown["target"], shown["films"], strict=True)]
    frame = pd.DataFrame({"name": names, "value": shown["auc"], **shown[["low", "high"]]})
    frame["warn"] = shown["low"] >= ALARM_AUC
    lines = {"chance": 0.5, "possible risk": WATCH_AUC, "high risk": ALARM_AUC}
    marks = {"span": (0.3, 1.02), "lines": lines}
    return Chart("intervals", frame, ("AUC, one-vs-rest (number of films)", ""), f"AUC: {finding.name}", marks)


def source_counts(table: pd.DataFrame, classes: list[str]) -> pd.DataFrame:
    """From `source_by_label`, in the order of the classes."""
    ordered = table[[name for name in classes if name in table.columns]]
    shown = ordered.rename(columns={name: display_name(str(name)) for name in table.columns}).reset_index()
    return shown.assign(source=[str(name) or "not recorded" for name in shown["source"]])


def check(
    images: RunImages | None, frame: pd.DataFrame, classes: list[str], sites: Collection[str] = (), seed: int = 0
) -> Checked:
    """Every check that is possible with the films on this machine; without films, only sources are counted.

    `sites` are those that the run names: a coordinator has none of their films. A benchmark has no `images`, because
    its images are not films.
    """
    if images is None:
        why = "Shortcuts are checked on chest X-ray films only; this run is a benchmark on everyday images."
        return Checked([], [why], 0, "")
    gathered = gather(images, classes, MOST_FILMS, seed)
    if gathered is None:
        films = frame.drop_duplicates(["site", "film"])
        finding = source_by_label(films["source"].to_numpy(str), films["label"].to_numpy(str))
        why = "The films of this run are not on this machine, so site, border and shape could not be checked."
        not_checked = [why, "Sources were counted on the predicted films only."]
        return Checked([finding], not_checked, len(films), "the predictions")
    findings = [
        source_by_label(gathered.sources, gathered.labels),
        source_from_image(gathered.images, gathered.sites, gathered.labels, gathered.patients, seed, "site"),
        class_from_border(gathered.images, gathered.labels, gathered.patients, seed),
    ]
    shape, not_checked = _shape(gathered, seed)
    findings += shape
    unseen = sorted({*sites, *images.absent} - set(images.held))
    if unseen:
        not_checked.append(f"Films of {', '.join(unseen)} are not on this machine, so they were not checked.")
    findings.sort(key=lambda finding: ORDER.index(finding.verdict))
    return Checked(findings, not_checked, len(gathered.labels), _whose(set(images.held), bool(unseen)))


def _whose(held: set[str], some_are_away: bool) -> str:
    hospitals = sorted(held - {REFERENCE})
    named = [f"{len(hospitals)} sites"] if len(hospitals) > MOST_NAMES else hospitals
    parts = named if some_are_away or not hospitals else ["all sites"]
    if REFERENCE in held:
        parts = [*parts, "the public reference set"]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _shape(films: ImageSample, seed: int) -> tuple[list[Finding], list[str]]:
    known = np.flatnonzero((films.shapes > 0).all(axis=1))
    unknown = len(films.shapes) - len(known)
    if len(known) == 0:
        why = "the film stores come from an older version that did not record them; ingest the films again"
        return [], [f"Class from the shape: the original height and width of the films are unknown ({why})."]
    finding = class_from_shape(films.shapes[known], films.labels[known], films.patients[known], seed)
    if not unknown:
        return [finding], []
    left_out = f"Class from the shape: {unknown} films of unknown height and width were not checked; ingest them again."
    unseen = sorted(set(films.labels) - set(finding.table["target"]))
    if unseen and finding.verdict == "fine":  # no all-clear where a class could not be looked at
        names = ", ".join(map(display_name, unseen))
        sentence = f"Too few films of known height and width: {names}. {finding.sentence}"
        finding = replace(finding, verdict="not estimable", sentence=sentence)
    return [finding], [left_out]
