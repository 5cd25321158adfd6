"""Imports a folder of films, or a public dataset, into a site's film store: every file gets a verdict."""

import csv
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedpdc_med.common.console import errors
from fedpdc_med.common.description import count
from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.paths import checked_name, key_file, owner_only, site_store
from fedpdc_med.common.processes import Lost, Workers, cores
from fedpdc_med.common.progress import progress
from fedpdc_med.imaging.classes import CHEST, FRONTAL, VIEWS, Fit
from fedpdc_med.imaging.dicom.deidentify import dicom_name, site_key
from fedpdc_med.imaging.ingest.journal import Journal
from fedpdc_med.imaging.ingest.labels import Labels
from fedpdc_med.imaging.ingest.sources import IngestOptions, batches_of, fingerprint_of, records_of
from fedpdc_med.imaging.ingest.verdicts import final_verdicts, with_splits
from fedpdc_med.imaging.records import FilmRecord, Outcome, Reason, Verdict
from fedpdc_med.imaging.store import read_store, write_report, write_store

MANY = 500  # files, from which their number and the disk they need are worth saying beforehand


@dataclass(frozen=True)
class IngestResult:
    """The result for every file; `seconds` counts from when the worker processes were ready.

    `replaced` counts worker processes that died or hung: a film may have succeeded on a second try, and this should be
    visible.
    """

    store: Path
    films: int
    report: list[tuple[int, str, str, str]]
    seconds: float
    replaced: int = 0
    groups: tuple[int, ...] = ()
    """A group number per film of the store (same patient or near-duplicates); known if they were read now."""
    read_again: bool = True

    @property
    def verdicts(self) -> Counter[tuple[str, str]]:
        return Counter((verdict, reason) for _, verdict, reason, _ in self.report)


@owner_only()
def ingest(
    source: Path,
    site: str,
    *,
    labels: Labels | None = None,
    labels_file: Path | None = None,
    collection: str | None = None,
    size: int = 128,
    fit: Fit = "pad",
    equalise: bool = False,
    views: tuple[str, ...] = FRONTAL,
    body_parts: tuple[str, ...] = CHEST,
    without: Path | None = None,
    write_dicom: Path | None = None,
    provenance: str | None = None,
    store: Path | None = None,
    replace: bool = False,
    processes: int | None = None,
    seconds: float = 60,
    seed: int = 0,
) -> IngestResult:
    """Ingest `source` into the store of `site` (or into the folder `store`); after an interruption, it continues.

    `labels_file` is the file `labels` came from, so that it is not treated as a film. `without` is a store, usually the
    reference set, whose films and patients are excluded.
    """
    checked_name(site)
    records = records_of(source, collection, labels, labels_file)
    if unknown := set(views) - set(VIEWS):
        raise UserError(f"--views: unknown view {', '.join(sorted(unknown))}; choose from {', '.join(VIEWS)}")
    if write_dicom and write_dicom.resolve().is_relative_to(source.resolve()):
        raise UserError("--write-dicom: the folder is inside SOURCE, where the next ingest would read it again")
    if write_dicom and any(record.source != "dicom" for record in records.values()):
        raise UserError("--write-dicom: SOURCE has PNG or JPEG files or arrays, not DICOM files; remove the option")
    options = IngestOptions(
        labels or Labels({}), site_key(key_file(site)), size, fit, equalise, views, body_parts, write_dicom, provenance
    )
    folder = store or site_store(site)
    fingerprint = fingerprint_of(records, options, without, seed)
    if not replace and (folder / "store.json").is_file():
        return _finished(folder, fingerprint)
    with Journal(folder / ".ingest", fingerprint, size) as journal:
        began, replaced = _examine_all(records, journal, options, processes or cores(), seconds)
        outcomes, group_of = final_verdicts(journal.outcomes, read_store(without).manifest if without else None)
        accepted = [place for place, outcome in outcomes.items() if outcome.verdict == Verdict.ACCEPTED]
        groups = [group_of[place] for place in accepted]
        if write_dicom:
            _remove_unaccepted(write_dicom, journal.outcomes, outcomes)
        _write(folder, site, journal, outcomes, groups, options, seed, fingerprint)
        journal.discard()
    return IngestResult(
        folder,
        len(accepted),
        _report(outcomes),
        time.perf_counter() - began,
        replaced,
        tuple(groups),
    )


def temporary(reason: str, detail: str) -> bool:
    """A refusal that may be temporary: the network share returns, a decoder is installed, there is more time."""
    return reason in (Reason.UNREADABLE, Reason.TIMED_OUT, Reason.CRASHED) or ": needs " in detail


HINTS = {
    str(Reason.NOT_DICOM): (
        ", and PNG or JPEG films need a row in the label table, or a folder per class; archives must be unpacked first"
    ),
    str(Reason.NOT_PICTURE): ", and DICOM films need --labels FILE or --label CLASS, even in folders per class",
    str(Reason.NO_LABEL): ", and the column film must contain paths below SOURCE, or SOP instance UIDs",
}


def check_rejects(result: IngestResult, most: float) -> None:
    """Too many refused files usually mean a wrong folder or a wrong label table."""
    if not result.report:
        raise WorkFailed("SOURCE has no files")
    asked_for = result.verdicts.get((Verdict.REJECTED, Reason.IN_REFERENCE), 0)  # excluded by --exclude
    refused = len(result.report) - result.films - asked_for
    if result.films == 0 or refused > most * len(result.report):
        (_, reason), number = max(
            ((v, n) for v, n in result.verdicts.items() if v[0] != Verdict.ACCEPTED), key=lambda item: item[1]
        )
        what = (
            "nothing was stored" if result.films == 0 else f"the {result.films} accepted films were stored nevertheless"
        )
        raise WorkFailed(
            f"{refused + asked_for} of {len(result.report)} files were not accepted, more than --max-rejects {most:g} "
            f"allows; the most frequent reason is: {reason} ({number}){HINTS.get(reason, '')}; {what}"
        )


def _finished(folder: Path, fingerprint: str) -> IngestResult:
    store = read_store(folder)
    if store.info["ingest"] != fingerprint:
        raise UserError(
            f"{folder.name} already has a film store of {len(store.films)} films, from another source or with other "
            "options; use --overwrite to ingest it again, or choose another --site"
        )
    with (folder / "ingest_report.csv").open(newline="", encoding="utf-8") as file:
        rows = [(int(row["file"]), row["verdict"], row["reason"], row["detail"]) for row in csv.DictReader(file)]
    return IngestResult(folder, len(store.films), rows, 0.0, read_again=False)


def _examine_all(
    records: dict[int, FilmRecord], journal: Journal, options: IngestOptions, processes: int, seconds: float
) -> tuple[float, int]:
    """Fill the journal; returns the time when the workers were ready, and how many of them had to be replaced."""
    done = {place for place, o in journal.outcomes.items() if not temporary(str(o.reason or ""), o.detail)}
    todo = [place for place in records if place not in done]
    if not todo:
        return time.perf_counter(), 0
    tasks = [records[place] for place in todo]
    batches = batches_of(tasks)
    accepted = sum(outcome.verdict == Verdict.ACCEPTED for outcome in journal.outcomes.values())
    workers = Workers[FilmRecord, Outcome](min(processes, len(todo)), seconds, ahead=1)
    if len(todo) >= MANY:
        size = max(1, round(len(records) * options.size**2 / 1e6))
        errors.print(f"{count(len(todo), 'file')} to read; the film store takes up to {size:,} MB.", highlight=False)
    with workers, progress("reading films", len(records), len(done)) as step:
        workers.open(_start, options)
        began = time.perf_counter()
        for index, result in workers.stream(tasks, batches):
            outcome = _lost(result, seconds) if isinstance(result, Lost) else result
            accepted += outcome.verdict == Verdict.ACCEPTED
            journal.add([(todo[index], outcome)])
            step(1, f"{accepted} accepted")
    return began, workers.replaced


def _start(options: IngestOptions) -> Callable[[FilmRecord], Outcome]:
    # Imported in the workers only: the parent does not need MONAI, which is slow to import.
    from fedpdc_med.imaging.ingest.examine import start

    return start(options)


def _lost(lost: Lost, seconds: float) -> Outcome:
    if lost.timed_out:
        return Outcome(Verdict.REJECTED, Reason.TIMED_OUT, f"more than {seconds:g} s")
    return Outcome(Verdict.REJECTED, Reason.CRASHED)


def _remove_unaccepted(folder: Path, before: dict[int, Outcome], after: dict[int, Outcome]) -> None:
    """Duplicates are known only after all films have been read, when their DICOM files are already written."""
    kept = {dicom_name(outcome.row) for outcome in after.values() if outcome.verdict == Verdict.ACCEPTED}
    for outcome in before.values():
        if outcome.row and dicom_name(outcome.row) not in kept:
            (folder / dicom_name(outcome.row)).unlink(missing_ok=True)


def _write(
    folder: Path,
    site: str,
    journal: Journal,
    outcomes: dict[int, Outcome],
    groups: list[int],
    options: IngestOptions,
    seed: int,
    fingerprint: str,
) -> None:
    accepted = [place for place in sorted(outcomes) if outcomes[place].verdict == Verdict.ACCEPTED]
    if accepted or not (folder / "store.json").is_file():  # an existing store keeps the report of its own films
        write_report(folder, _report(outcomes))
    if not accepted:
        return
    manifest = with_splits(pd.DataFrame([outcomes[place].row for place in accepted]), groups, seed)
    write_store(
        folder,
        journal.films(accepted),
        manifest,
        site=site,
        size=options.size,
        ingest=fingerprint,
        processing={"fit": options.fit, "equalise": options.equalise, "views": list(options.views)},
    )


def _report(outcomes: dict[int, Outcome]) -> list[tuple[int, str, str, str]]:
    return [(place, str(o.verdict), str(o.reason or ""), o.detail) for place, o in sorted(outcomes.items())]
