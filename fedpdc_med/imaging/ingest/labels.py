"""The label table of a folder of films: a CSV with columns `film`, `label`, and optionally `patient` and `view`."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.classes import CLASSES, class_of
from fedpdc_med.imaging.dicom.header import view_in
from fedpdc_med.imaging.records import Reason, Refused


@dataclass(frozen=True)
class Labels:
    """Labels by path below the source or SOP instance UID, or one class for every film."""

    rows: dict[str, tuple[str, int]]
    for_all: str = ""
    patients: dict[str, str] = field(default_factory=dict)  # DICOM headers may be wrong, other files have none
    views: dict[str, str] = field(default_factory=dict)  # of PNG and JPEG files

    def names(self, name: str) -> bool:
        return _as_written(name) in self.rows

    @property
    def names_patients(self) -> bool:
        """Whether the table names the patient of every film."""
        return bool(self.patients) and all(self.patients.values())

    def patient_of(self, *names: str) -> str:
        return next((said for name in names if (said := self.patients.get(_as_written(name)))), "")

    def view_of(self, name: str) -> str:
        """Frontal if the table does not say, because that is what people export."""
        said = self.views.get(_as_written(name), "")
        return (view_in(said) or "unknown") if said else "frontal"

    def of(self, *names: str) -> str:
        """The class of the film with one of these names; a label is never quoted, as it may be from a wrong column."""
        if self.for_all:
            return self.for_all
        label, line = next((self.rows[name] for name in map(_as_written, names) if name in self.rows), ("", 0))
        if not label:
            raise Refused(Reason.NO_LABEL, f"line {line} of the label table" if line else "")
        if not (known := class_of(label)):
            raise Refused(Reason.UNKNOWN_LABEL, f"line {line} of the label table")
        return known

    def unused(self, names: Iterable[str]) -> list[str]:
        """Names in the table that match none of these files; a UID is known only after its film has been read."""
        there = set(map(_as_written, names))
        return [name for name in self.rows if name not in there and not re.fullmatch(r"[0-9.]+", name)]


def _as_written(name: str) -> str:
    """An accented letter is one character in a table but may be two in a file name."""
    return unicodedata.normalize("NFC", name)


def one_label(label: str) -> Labels:
    known = class_of(label)
    if not known:
        raise UserError(f"--label {label!r} is not a class; known classes are {', '.join(CLASSES)}")
    return Labels({}, known)


def read_labels(table: Path) -> Labels:
    if not table.is_file():
        raise UserError("--labels: there is no such file")
    try:
        text = table.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("--labels: the file is not UTF-8 text; save the table as CSV with UTF-8") from None
    first, _, rest = text.partition("\n")
    above = 0
    if re.fullmatch(r"sep=.", first.strip().lower()):  # a line that spreadsheets add for themselves
        (first, _, _), text, above = rest.partition("\n"), rest, 1
    separator = next((mark for mark in ",;\t" if mark in first), ",")
    reader = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=separator != "\t"
    )
    try:
        return _labels_in(reader, above)
    except csv.Error as error:
        raise UserError(
            f"--labels: line {reader.reader.line_num + above} or an earlier line cannot be read: {error}; check for an "
            "unclosed quote"
        ) from None


def _labels_in(reader: "csv.DictReader[str]", above: int) -> Labels:
    columns = [name.strip().lower() for name in reader.fieldnames or []]
    if missing := {"film", "label"} - set(columns):
        raise UserError(
            f"--labels: no column {' and '.join(sorted(missing))}; the first line must name the columns film and "
            "label, separated by commas, semicolons or tabs"
        )
    if twice := [name for name in ("film", "label", "patient", "view") if columns.count(name) > 1]:
        raise UserError(f"--labels: there are two columns {twice[0]}; remove one")
    reader.fieldnames = columns
    rows: dict[str, tuple[str, int]] = {}
    patients: dict[str, str] = {}
    views: dict[str, str] = {}
    for row in reader:
        if not (film := (row["film"] or "").strip()):
            continue
        name, line = _as_written(PureWindowsPath(film).as_posix()), reader.line_num + above
        label, patient, view = ((row.get(column) or "").strip() for column in ("label", "patient", "view"))
        if name in rows:
            before = class_of(rows[name][0]), patients[name], views[name]
            said = zip(("labels", "patients", "views"), before, (class_of(label), patient, view), strict=True)
            if differing := [what for what, first, second in said if first != second]:
                raise UserError(
                    f"--labels: lines {rows[name][1]} and {line} give the same film two {differing[0]}; remove one"
                )
        rows[name], patients[name], views[name] = (label, line), patient, view
    return Labels(rows, patients=patients, views=views)
