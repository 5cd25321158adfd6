"""Synthetic chest films, made by code from a seed: no pixel comes from a person.

They let the whole software run without patients' films. A model's results on them say nothing about real films.
"""

import csv
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydicom.dataset import Dataset

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.common.processes import Lost, Workers
from fedpdc_med.common.progress import track
from fedpdc_med.imaging.classes import CLASSES
from fedpdc_med.imaging.phantoms.anatomy import AGE_BANDS, Anatomy, Picture, Rng, draw_anatomy, halves
from fedpdc_med.imaging.phantoms.lesions import incidental, opacity
from fedpdc_med.imaging.phantoms.scanners import Person, Scanner, scan, to_dicom
from fedpdc_med.imaging.phantoms.tissue import chest, leads

ADULT_MIX = {"0-19": 0.08, "20-39": 0.27, "40-59": 0.32, "60-79": 0.27, "80+": 0.06}
FAMILY_NAMES = ("Fauxley", "Mockridge", "Neverborn", "Pretendi", "Quillfeather", "Standinson", "Unreal", "Wouldbe")
GIVEN_NAMES = ("Ada", "Blaise", "Cato", "Dido", "Enzo", "Flora", "Galen", "Hedda", "Ivo", "Juno", "Klio", "Lucan")


def draw_film(label: str, rng: Rng, *, age_band: str = "40-59", sex: str = "F", size: int = 256) -> Picture:
    """A film of a new patient, float32 in [0, 1], bone bright; another label with the same seed is the same patient."""
    low, high = AGE_BANDS[age_band]
    body, film = rng.spawn(2)
    anatomy = draw_anatomy(body, int(body.integers(low, high + 1)), sex)
    return draw_chest(anatomy, label, film, size=size)


def draw_chest(anatomy: Anatomy, label: str, rng: Rng, *, view: str = "PA", size: int = 256) -> Picture:
    """One more film of a known patient: breath, severity and exposure change, the body does not."""
    pose, disease, chance, exposure = rng.spawn(4)
    a = _breathing(anatomy, view, pose)
    sides = halves(a, size)
    density = chest(a, sides, incidental(a, sides, size, chance) + opacity(label, a, sides, size, disease))
    if chance.random() < (0.35 if view == "AP" else 0.06):
        density += leads(a, size, chance)
    return _developed(density, exposure)


def _breathing(a: Anatomy, view: str, rng: Rng) -> Anatomy:
    """Lying patients (AP) breathe in less and are nearer to the tube: a higher diaphragm, a wider heart."""
    lying = view == "AP"
    shallow = max(0.0, rng.normal(0.0, 0.018)) + 0.02 * lying
    return replace(
        a,
        dome=a.dome - shallow,
        heart=a.heart * (1 + 2 * shallow),
        centre=a.centre + rng.normal(0, 0.004),
        clavicle=a.clavicle - 0.012 * lying,
        clavicle_rise=a.clavicle_rise - 0.012 * lying,
        vessels=a.vessels * rng.uniform(0.85, 1.15),
    )


def _developed(density: Picture, rng: Rng) -> Picture:
    """Density to grey on an S-shaped film curve whose speed and slope vary more than any lesion changes the mean."""
    gain, gamma = np.exp(rng.normal(0, 0.16)), np.exp(rng.normal(0.12, 0.16))
    top = np.tanh(1.35 * gain)
    grey = np.tanh(1.35 * gain * np.clip(density / 1.1, 0, None) ** gamma) / top
    black, white = rng.uniform(0, 0.06), rng.uniform(0.86, 1.0)
    return np.clip(black + (white - black) * grey, 0, 1).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """One film to be made: the patient, the disease, and the seed of everything random."""

    name: str
    label: str
    person: Person
    anatomy: Anatomy
    view: str
    taken: date
    seed: tuple[int, ...]


class Film(NamedTuple):
    name: str
    label: str
    dataset: Dataset


def plan_cases(
    scanner: Scanner, case_mix: Mapping[str, int], seed: int, hospital: str, ages: Mapping[str, float] = ADULT_MIX
) -> list[Case]:
    """Patients with one to three films until every class has its count, shuffled so that numbers reveal no label."""
    for label, count in case_mix.items():
        if label not in CLASSES or count < 0:
            raise UserError(f"Case mix of {hospital}: {label!r}: {count}; expected counts of {', '.join(CLASSES)}.")
    if unknown := set(ages) - set(AGE_BANDS):
        raise UserError(f"Ages of {hospital}: {sorted(unknown)} unknown; the bands are {', '.join(AGE_BANDS)}.")
    # Two hospitals with the same seed must not share a patient.
    root = (seed, crc32(hospital.encode()))
    rng = np.random.default_rng(root)
    cases = [case for label, count in case_mix.items() for case in _cases_of(label, count, scanner, ages, rng)]
    order = rng.permutation(len(cases))
    return [replace(cases[k], name=f"film-{place:05d}.dcm", seed=(*root, place)) for place, k in enumerate(order)]


def _cases_of(label: str, count: int, scanner: Scanner, ages: Mapping[str, float], rng: Rng) -> Iterator[Case]:
    bands, shares = list(ages), np.array(list(ages.values()))
    while count > 0:
        low, high = AGE_BANDS[str(rng.choice(bands, p=shares / shares.sum()))]
        anatomy = draw_anatomy(rng, int(rng.integers(low, high + 1)), "FM"[int(rng.integers(2))])
        taken = date(2020, 1, 1) + timedelta(days=int(rng.integers(1400)))
        person = _invented(anatomy, taken, rng)
        for visit in range(min(count, int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1])))):
            view = "AP" if rng.random() < scanner.ap_share else "PA"
            yield Case("", label, person, anatomy, view, taken + timedelta(days=2 * visit), ())
            count -= 1


def _invented(anatomy: Anatomy, taken: date, rng: Rng) -> Person:
    born = taken - timedelta(days=int(anatomy.age * 365.25 + rng.integers(10, 350)))
    name = f"{rng.choice(FAMILY_NAMES)}^{rng.choice(GIVEN_NAMES)}"
    return Person(name, f"PH{rng.integers(10**8):08d}", born, anatomy.sex, anatomy.age)


def make_film(case: Case, scanner: Scanner, hospital: str) -> Film:
    drawing, scanning = np.random.default_rng(case.seed).spawn(2)
    image = draw_chest(case.anatomy, case.label, drawing, view=case.view, size=max(scanner.rows, scanner.columns))
    pixels = scan(image, scanner, scanning)
    entropy = f"{hospital}:{case.seed}"
    return Film(
        case.name,
        case.label,
        to_dicom(pixels, scanner, case.person, view=case.view, taken=case.taken, hospital=hospital, entropy=entropy),
    )


def films(
    scanner: Scanner,
    case_mix: Mapping[str, int],
    seed: int,
    *,
    hospital: str = "Phantom Hospital",
    ages: Mapping[str, float] = ADULT_MIX,
) -> Iterator[Film]:
    """The films of `write_films`, in memory."""
    for case in plan_cases(scanner, case_mix, seed, hospital, ages):
        yield make_film(case, scanner, hospital)


def write_films(
    folder: Path,
    scanner: Scanner,
    case_mix: Mapping[str, int],
    seed: int,
    *,
    hospital: str = "Phantom Hospital",
    ages: Mapping[str, float] = ADULT_MIX,
    workers: int = 1,
) -> Path:
    """Write DICOM files, then `labels.csv` (film, label), whose path is returned; the same seed, the same bytes."""
    cases = plan_cases(scanner, case_mix, seed, hospital, ages)
    folder.mkdir(parents=True, exist_ok=True)
    write = partial(_write_film, folder, scanner, hospital)
    if workers == 1:
        deque(track(map(write, cases), "synthetic films", len(cases)), maxlen=0)
    else:
        with Workers[Case, None](workers, ahead=1) as pool:
            pool.open(partial, write)
            batches = [range(start, min(start + 16, len(cases))) for start in range(0, len(cases), 16)]
            for _, written in track(pool.stream(cases, batches), "synthetic films", len(cases)):
                if isinstance(written, Lost):
                    raise WorkFailed("a process that makes synthetic films died twice; is there enough memory?")
    table = folder / "labels.csv"
    with table.open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["film", "label"])
        rows.writerows((case.name, case.label) for case in cases)
    return table


def _write_film(folder: Path, scanner: Scanner, hospital: str, case: Case) -> None:
    make_film(case, scanner, hospital).dataset.save_as(folder / case.name, enforce_file_format=True)


def contact_sheet(
    images: Sequence[Picture | NDArray[np.uint8]], labels: Sequence[str], path: Path, columns: int = 6, tile: int = 256
) -> None:
    """One image of many films, [0, 1] or uint8, each above its label."""
    rows, line = -(-len(images) // columns), 20
    sheet = Image.new("L", (columns * tile, rows * (tile + line)))
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    for place, (image, label) in enumerate(zip(images, labels, strict=True)):
        x, y = place % columns * tile, place // columns * (tile + line)
        grey = image if image.dtype == np.uint8 else np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)
        shown = Image.fromarray(grey)
        shown.thumbnail((tile, tile), Image.Resampling.LANCZOS)
        sheet.paste(shown, (x + (tile - shown.width) // 2, y + (tile - shown.height) // 2))
        pen.text((x + 4, y + tile + 1), label, fill=230, font=font)
    sheet.save(path)
