"""The label table of a folder of films: a CSV with columns `film` and `label`, and `patient` for pictures."""

import csv
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

from fedpdc_med.errors import UserError
from fedpdc_med.imaging.classes import CLASSES, class_of
from fedpdc_med.imaging.records import Reason, Refused


@dataclass(frozen=True)
class Labels:
    """Labels by path below the source or SOP instance UID, or one class for every film."""

    rows: dict[str, tuple[str, int]]
    for_all: str = ""
    patients: dict[str, str] = field(default_factory=dict)  # of pictures, which do not say whose they are

    def names(self, name: str) -> bool:
        return _as_written(name) in self.rows

    def patient_of(self, name: str) -> str:
        return self.patients.get(_as_written(name), "")

    def of(self, *names: str) -> str:
        """The class of the film with one of these names; a label is never quoted, it may come from a wrong column."""
        if self.for_all:
            return self.for_all
        label, line = next((self.rows[name] for name in map(_as_written, names) if name in self.rows), ("", 0))
        if not label:
            raise Refused(Reason.NO_LABEL, f"line {line} of the label table" if line else "")
        if not (known := class_of(label)):
            raise Refused(Reason.UNKNOWN_LABEL, f"line {line} of the label table")
        return known

    def unused(self, names: Iterable[str]) -> int:
        """Rows that name none of these files; a row with a UID is known only when its film has been read."""
        there = set(map(_as_written, names))
        return sum(name not in there and not re.fullmatch(r"[0-9.]+", name) for name in self.rows)


def _as_written(name: str) -> str:
    """Accents are one character in a table and may be two in a file's name."""
    return unicodedata.normalize("NFC", name)


def one_label(label: str) -> Labels:
    known = class_of(label)
    if not known:
        raise UserError(f"--label {label!r} is not a class; known are {', '.join(CLASSES)}")
    return Labels({}, known)


def read_labels(table: Path) -> Labels:
    if not table.is_file():
        raise UserError("--labels: there is no such file")
    try:
        text = table.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("--labels: the file is not UTF-8 text; save the table as CSV with UTF-8") from None
    lines = text.splitlines()
    if lines and re.fullmatch(r"sep=.", lines[0].strip().lower()):  # a note that a spreadsheet leaves to itself
        lines = lines[1:]
    separator = next((mark for mark in ",;\t" if lines and mark in lines[0]), ",")
    reader = csv.DictReader(lines, delimiter=separator)
    columns = [name.strip().lower() for name in reader.fieldnames or []]
    if missing := {"film", "label"} - set(columns):
        raise UserError(
            f"--labels: no column {' and '.join(sorted(missing))}; the first line must name the columns film and label"
        )
    if twice := [name for name in ("film", "label") if columns.count(name) > 1]:
        raise UserError(f"--labels: there are two columns {twice[0]}; keep one")
    reader.fieldnames = columns
    rows: dict[str, tuple[str, int]] = {}
    patients: dict[str, str] = {}
    for row in reader:
        name = _as_written(PureWindowsPath((row["film"] or "").strip()).as_posix())
        label = (row["label"] or "").strip()
        if name in rows and class_of(rows[name][0]) != class_of(label):
            raise UserError(
                f"--labels: lines {rows[name][1]} and {reader.line_num} give the same film two labels; keep one"
            )
        rows[name] = label, reader.line_num
        patients[name] = (row.get("patient") or "").strip()
    return Labels(rows, patients=patients)
