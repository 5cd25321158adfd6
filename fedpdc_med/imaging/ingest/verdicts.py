"""Verdicts that need all films of a site: duplicates, contradictions, the reference set, and the split."""

from collections import defaultdict

import pandas as pd

from fedpdc_med.imaging.duplicates import groups, overlap
from fedpdc_med.imaging.records import Outcome, Reason, Verdict
from fedpdc_med.imaging.splits import TRAIN_TEST, split_by_group


def final_verdicts(
    outcomes: dict[int, Outcome], reference: pd.DataFrame | None = None
) -> tuple[dict[int, Outcome], dict[int, int]]:
    """The final verdicts; of equal films the first in the sorted list is kept, whichever was read first.

    Also returns the group of every readable film, including copies: two patient ids with the same film are one patient,
    and this must still be known after one of the copies is removed.
    """
    settled = dict(sorted(outcomes.items()))
    readable = _accepted(settled)
    films = pd.DataFrame([settled[place].row for place in readable])
    group_of = {}
    if readable:
        numbers = groups(list(films["patient"]), list(films["perceptual_hash"]))
        group_of = {place: int(number) for place, number in zip(readable, numbers, strict=True)}
    for place, outcome in _contradictions(settled).items():
        settled[place] = outcome
    for place, outcome in _repetitions(settled).items():
        settled[place] = outcome
    if reference is not None and readable:
        shared = {group_of[readable[i]] for i in overlap(films, reference).films.nonzero()[0]}
        for place in _accepted(settled):
            if group_of[place] in shared:
                settled[place] = Outcome(Verdict.REJECTED, Reason.IN_REFERENCE)
    return settled, group_of


def with_splits(manifest: pd.DataFrame, group: list[int], seed: int) -> pd.DataFrame:
    return manifest.assign(split=split_by_group(list(manifest["label"]), group, TRAIN_TEST, seed))


def _accepted(outcomes: dict[int, Outcome]) -> list[int]:
    return [place for place, outcome in outcomes.items() if outcome.verdict == Verdict.ACCEPTED]


def _contradictions(outcomes: dict[int, Outcome]) -> dict[int, Outcome]:
    """The same pixels with two labels: it is not known which is right."""
    same = defaultdict(list)
    for place in _accepted(outcomes):
        same[outcomes[place].row["pixel_hash"]].append(place)
    return {
        place: Outcome(Verdict.QUARANTINED, Reason.TWO_LABELS, f"files {', '.join(map(str, places))}")
        for places in same.values()
        if len({outcomes[p].row["label"] for p in places}) > 1
        for place in places
    }


def _repetitions(outcomes: dict[int, Outcome]) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    pixels: dict[str, int] = {}
    films: dict[str, int] = {}
    for place in _accepted(outcomes):
        row = outcomes[place].row
        if (first := pixels.get(row["pixel_hash"])) is not None:
            found[place] = Outcome(Verdict.REJECTED, Reason.DUPLICATE, f"same as file {first}")
        elif (first := films.get(row["film"])) is not None:
            found[place] = Outcome(Verdict.QUARANTINED, Reason.SAME_UID, f"file {first}")
        else:
            pixels[row["pixel_hash"]] = films[row["film"]] = place
    return found
