"""Public datasets in their published layouts. A collection is a function that yields film records in a fixed order.

To add one: write a reader that yields a FilmRecord for every film, with `problem` set where the collection's own table
says that a film does not qualify, and put it into COLLECTIONS with a test that recognises its layout.
"""

import csv
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.classes import class_of
from fedpdc_med.imaging.dicom.header import view_in
from fedpdc_med.imaging.ingest.published import DARKCOVIDNET_NAME, NIH_NAME, RADIOGRAPHY_NAME, is_covid_chestxray
from fedpdc_med.imaging.ingest.walk import files_below
from fedpdc_med.imaging.records import FilmRecord, Reason

MOST_UNPACKED = 20  # times the size of a .npz file; images do not compress that much
PICTURES = {".png", ".jpg", ".jpeg"}
COVID_CHESTXRAY = ("filename", "folder", "patientid", "finding", "view", "modality", "sex", "age", "url", "doi")
# Parts of a figure's name that distinguish its panels, days and views: "...fig2a", "...-day7", "...-PA", "...-002-b1".
_PANEL = re.compile(r"[-_](day-?\d+|\d+-(hours|days)|admission|left|right|pa|ap|[a-z]\d?)(?=[-_.]|$)|(?<=\d)[a-z]$")


def covid_chestxray(folder: Path) -> Iterator[FilmRecord]:
    """ieee8023/covid-chestxray-dataset: metadata.csv names every film, its patient, finding, view and modality."""
    for row in _covid_chestxray_rows(folder / "metadata.csv"):
        path = _inside(folder, row["folder"] or "images", row["filename"])
        finding, view = row["finding"], view_in(row["view"]) or "unknown"
        if row["view"].upper() in ("L", "L LATERAL"):
            view = "lateral"
        covid = "COVID-19" in finding.upper()
        label = "covid-19" if covid else class_of(finding.split("/")[0]) or ""
        yield FilmRecord(
            name=f"covid-chestxray-dataset:{row['filename']}",
            path=path or folder / "metadata.csv",
            source="covid-chestxray-dataset",
            published=is_covid_chestxray(row["patientid"], row["url"]),
            label=label,
            patient=f"covid-chestxray-dataset:{row['patientid']}" if row["patientid"] else "",
            view=view,
            sex=row["sex"] if row["sex"] in ("F", "M") else "",
            age=_number(row["age"]),
            problem=_covid_chestxray_problem(row, label) if path else (Reason.OUTSIDE, ""),
        )


def _covid_chestxray_rows(table: Path) -> Iterator[dict[str, str]]:
    with table.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.DictReader(file)
        try:
            for said in reader:
                row = {key: (said.get(key) or "").strip() for key in COVID_CHESTXRAY}  # rows may be short
                if row["filename"]:
                    yield row
        except csv.Error as error:
            raise UserError(
                f"metadata.csv: line {reader.line_num + 1} or an earlier line cannot be read: {error}; check for an "
                "unclosed quote"
            ) from None


def _inside(folder: Path, *said: str) -> Path | None:
    """The file that a table names, None if it is outside the folder; links are followed, because the user made them."""
    path = Path(*said)
    return None if path.is_absolute() or ".." in path.parts or "\0" in str(path) else folder / path


def _covid_chestxray_problem(row: dict[str, str], label: str) -> tuple[Reason, str] | None:
    if row["modality"].lower() != "x-ray":
        return Reason.MODALITY, row["modality"][:2]
    return None if label else (Reason.UNKNOWN_LABEL, "todo" if row["finding"].lower() == "todo" else "")


def darkcovidnet(folder: Path) -> Iterator[FilmRecord]:
    """muhammedtalo/COVID-19: NIH films, and COVID-19 films with their names from covid-chestxray-dataset."""
    for path, label in _class_folders(folder):
        if nih := NIH_NAME.fullmatch(path.stem):
            name, patient = f"nih:{path.stem}", f"nih:{nih[1]}"
        else:
            # The same film in covid-chestxray-dataset gets the same pseudonym, even if it was cropped differently.
            name, patient = f"covid-chestxray-dataset:{path.name}", f"darkcovidnet:{figure_of(path.stem)}"
        yield FilmRecord(
            name,
            path,
            source="darkcovidnet",
            published=True,
            label=label,
            patient=patient,
            view="frontal",
            problem=_class_problem(label),
        )


def figure_of(stem: str) -> str:
    """The figure or case that a film's name belongs to; its panels usually show one patient, so they stay together."""
    return stem if re.fullmatch(r"[0-9A-Fa-f-]{36}", stem) else _PANEL.sub("", stem.lower())


def radiography_database(folder: Path) -> Iterator[FilmRecord]:
    """The COVID-19 Radiography Database: one folder per class, in later versions with images/ in it; no patients."""
    for path, label in _class_folders(folder):
        name = f"covid-19-radiography-database:{path.relative_to(folder).parts[0]}/{path.stem}"
        yield FilmRecord(
            name,
            path,
            source="covid-19-radiography-database",
            published=True,
            label=label,
            patient=name,
            view="frontal",
            problem=_class_problem(label),
        )


def folder_per_class(folder: Path) -> Iterator[FilmRecord]:
    """Any PNG or JPEG films in class folders; they may not be public, so their pseudonyms use the site's key.

    The first folder below a class folder is a patient; a film that is in none counts as a separate patient, unless its
    name is in NIH's format.
    """
    for path, label in _class_folders(folder):
        yield _own_film(folder, path, label)


def _own_film(folder: Path, path: Path, label: str) -> FilmRecord:
    name = path.relative_to(folder).as_posix()
    below = path.relative_to(folder).parts[1:-1]
    if below and below[0].lower() == "images":
        below = below[1:]
    nih = NIH_NAME.fullmatch(path.stem)
    return FilmRecord(
        name,
        path,
        source="folder-per-class",
        label=label,
        patient=below[0] if below else f"nih:{nih[1]}" if nih else name,
        view="frontal",
        problem=_class_problem(label) or _picture_problem(path),
    )


def medmnist(file: Path) -> Iterator[FilmRecord]:
    """PneumoniaMNIST and ChestMNIST .npz: arrays only, no patients, so every image counts as a separate patient."""
    name = "pneumoniamnist" if "pneumonia" in file.name.lower() else "chestmnist"
    parts = _medmnist_parts(file)
    if not all(_is_medmnist(name, images, labels) for _, images, labels in parts):
        raise UserError(f"SOURCE does not contain the arrays of {name}: 8-bit images, and a row of labels for each")
    for part, images, labels in parts:
        for i, image in enumerate(images):
            label = _medmnist_class(name, labels[i])
            film = f"{name}:{part}:{i}"
            yield FilmRecord(
                film,
                file,
                image,
                source=name,
                published=True,
                label=label,
                patient=film,
                view="AP" if name == "pneumoniamnist" else "frontal",
                problem=_class_problem(label),
            )


def _medmnist_parts(file: Path) -> list[tuple[str, np.ndarray, np.ndarray]]:
    try:
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > MOST_UNPACKED * file.stat().st_size:
            raise UserError(f"SOURCE unpacks to {unpacked >> 20} MB, far more than its size; is it a MedMNIST file?")
        with np.load(file) as arrays:
            return [(part, arrays[f"{part}_images"], arrays[f"{part}_labels"]) for part in ("train", "val", "test")]
    except (ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error):
        raise UserError("SOURCE is corrupt or incomplete; download it again") from None


def _is_medmnist(name: str, images: np.ndarray, labels: np.ndarray) -> bool:
    findings = 1 if name == "pneumoniamnist" else 14
    return (
        images.dtype == np.uint8
        and images.ndim in (3, 4)
        and labels.shape == (len(images), findings)
        and bool(np.isin(labels, (0, 1)).all())
    )


def _medmnist_class(name: str, label: np.ndarray) -> str:
    if name == "pneumoniamnist":
        return "pneumonia" if label[0] else "normal"
    # ChestMNIST is multi-label; the seventh of its fourteen findings is pneumonia.
    return "normal" if not label.any() else "pneumonia" if label[6] else ""


def _class_folders(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file with the class of its folder, "" if it has none; masks next to images are not films."""
    for _, path in sorted(files_below(folder), key=lambda found: found[1].parts):
        top, *below = path.relative_to(folder).parts
        if len(below) > 1 and below[0] == "masks" and (folder / top / "images").is_dir():
            continue
        yield path, (class_of(top) or "") if below else ""


def _picture_problem(path: Path) -> tuple[Reason, str] | None:
    return None if path.suffix.lower() in PICTURES else (Reason.NOT_PICTURE, "neither PNG nor JPEG by its name")


def _class_problem(label: str) -> tuple[Reason, str] | None:
    return None if label else (Reason.UNKNOWN_LABEL, "not in a folder that is named after a class")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_covid_chestxray(source: Path) -> bool:
    table = source / "metadata.csv"
    if not table.is_file():
        return False
    with table.open(encoding="utf-8-sig", errors="replace") as file:
        return {"patientid", "finding", "filename", "modality"} <= set(file.readline().strip().split(","))


def _has_folders(source: Path, *names: str) -> bool:
    return all((source / name).is_dir() for name in names)


def _has_class_folders(source: Path) -> bool:
    return source.is_dir() and any(class_of(below.name) and below.is_dir() for below in source.iterdir())


@dataclass(frozen=True)
class Collection:
    recognises: Callable[[Path], bool]
    films: Callable[[Path], Iterator[FilmRecord]]
    layout: str
    names: re.Pattern[str] | None = None
    """Its films' published names, for a layout that a hospital's own films may have too."""
    published: bool = True


# In the order in which they are tried: the general layout comes last.
COLLECTIONS = {
    "covid-chestxray-dataset": Collection(
        _is_covid_chestxray, covid_chestxray, "a folder with metadata.csv and images/"
    ),
    "darkcovidnet": Collection(
        lambda s: _has_folders(s, "Covid-19", "No_findings", "Pneumonia"),
        darkcovidnet,
        "folders Covid-19, No_findings and Pneumonia",
        DARKCOVIDNET_NAME,
    ),
    "covid-19-radiography-database": Collection(
        lambda s: _has_folders(s, "COVID", "Viral Pneumonia"),
        radiography_database,
        "folders COVID, Viral Pneumonia and Normal",
        RADIOGRAPHY_NAME,
    ),
    "medmnist": Collection(
        lambda s: s.is_file() and bool(re.match(r"(pneumonia|chest)mnist.*\.npz$", s.name)),
        medmnist,
        "a file pneumoniamnist*.npz or chestmnist*.npz",
    ),
    "folder-per-class": Collection(
        _has_class_folders, folder_per_class, "a folder of PNG or JPEG films for each class", published=False
    ),
}


def recognise(source: Path, name: str | None = None) -> Collection | None:
    """The named collection, or the one whose layout the source has; None means a folder of DICOM files."""
    if name is None:
        return next((c for c in COLLECTIONS.values() if c.recognises(source)), None)
    if name not in COLLECTIONS:
        raise UserError(f"there is no collection {name!r}; known collections are {', '.join(COLLECTIONS)}")
    if not COLLECTIONS[name].recognises(source):
        raise UserError(f"SOURCE does not look like {name}: expected {COLLECTIONS[name].layout}")
    return COLLECTIONS[name]


def films_of(source: Path, collection: Collection, *, asked_for: bool) -> Iterator[FilmRecord]:
    """The films of a source. If only its layout was recognised, a film counts as published only if it looks published.

    Anyone may use such a layout, and names hashed with the key that everyone has could be guessed.
    """
    for film in collection.films(source):
        if asked_for:
            yield replace(film, published=collection.published)
        elif collection.names and not collection.names.fullmatch(film.path.stem):
            yield _own_film(source, film.path, film.label)
        else:
            yield film
