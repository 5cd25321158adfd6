"""The shortcut checks on the films of a run, and sentences about what could not be checked."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fedpdc_med.evaluation.confounding import Finding, source_by_label
from fedpdc_med.evaluation.shortcuts import class_from_border, class_from_shape, source_from_image
from fedpdc_med.review.film_images import Gathered, Shelf, gather
from fedpdc_med.runs.predictions import spoken

MOST_FILMS = 8000
MOST_NAMES = 3
REFERENCE = "reference"
ORDER = ("alarm", "watch", "fine", "not estimable")


@dataclass(frozen=True)
class Checked:
    """Findings, worst first; `films` is how many they rest on, `whose` says of whom, as in `all sites`."""

    findings: list[Finding]
    not_checked: list[str]
    films: int
    whose: str


def check(
    shelf: Shelf | None, frame: pd.DataFrame, classes: list[str], sites: Collection[str] = (), seed: int = 0
) -> Checked:
    """Every check that the films on this machine allow; predictions stand in where there are none.

    `sites` are those that the run names: a coordinator has no film of theirs. A benchmark has no shelf: its images are
    not films.
    """
    if shelf is None:
        return Checked([], ["Shortcuts are looked for in films; this run is a benchmark on everyday images."], 0, "")
    gathered = gather(shelf, classes, MOST_FILMS, seed)
    if gathered is None:
        films = frame.drop_duplicates(["site", "film"])
        finding = source_by_label(films["source"].to_numpy(str), films["label"].to_numpy(str))
        why = "The films of this run are not on this machine: site, border and shape could not be checked."
        not_checked = [why, "Sources are counted among the predicted films only."]
        return Checked([finding], not_checked, len(films), "the predictions")
    findings = [
        source_by_label(gathered.sources, gathered.labels),
        source_from_image(gathered.images, gathered.sites, gathered.labels, gathered.patients, seed, "site"),
        class_from_border(gathered.images, gathered.labels, gathered.patients, seed),
    ]
    shape, not_checked = _shape(gathered, seed)
    findings += shape
    unseen = sorted({*sites, *shelf.absent} - set(shelf.held))
    if unseen:
        not_checked.append(f"Films of {', '.join(unseen)} are not on this machine and were left out.")
    findings.sort(key=lambda finding: ORDER.index(finding.verdict))
    return Checked(findings, not_checked, len(gathered.labels), _whose(set(shelf.held), bool(unseen)))


def _whose(held: set[str], some_are_away: bool) -> str:
    hospitals = sorted(held - {REFERENCE})
    named = [f"{len(hospitals)} sites"] if len(hospitals) > MOST_NAMES else hospitals
    parts = named if some_are_away or not hospitals else ["all sites"]
    if REFERENCE in held:
        parts = [*parts, "the reference"]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _shape(films: Gathered, seed: int) -> tuple[list[Finding], list[str]]:
    known = np.flatnonzero((films.shapes > 0).all(axis=1))
    unknown = len(films.shapes) - len(known)
    if len(known) == 0:
        why = "the film stores come from an older version, which did not keep it; ingest the films again to check it"
        return [], [f"Class from the shape: the original height and width of the films are unknown ({why})."]
    finding = class_from_shape(films.shapes[known], films.labels[known], films.patients[known], seed)
    if not unknown:
        return [finding], []
    left_out = f"Class from the shape: {unknown} films of unknown height and width were left out; ingest them again."
    unseen = sorted(set(films.labels) - set(finding.table["target"]))
    if unseen and finding.verdict == "fine":  # no all-clear where a class could not be looked at
        names = ", ".join(map(spoken, unseen))
        sentence = f"Too few films of known height and width: {names}. {finding.sentence}"
        finding = replace(finding, verdict="not estimable", sentence=sentence)
    return [finding], [left_out]
