"""Phantom films: reproducible, valid DICOM, true to their class and not given away by brightness."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pydicom
import pytest
from PIL import Image
from pydicom.pixels import apply_windowing
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.classes import CLASSES
from fedpdc_med.imaging.phantoms.anatomy import AGE_BANDS, draw_anatomy
from fedpdc_med.imaging.phantoms.films import contact_sheet, draw_film, films, plan_cases, write_films
from fedpdc_med.imaging.phantoms.scanners import Scanner, scan

SMALL = Scanner(rows=96, columns=96)
MIX = {"normal": 3, "pneumonia": 2, "covid-19": 2, "tuberculosis": 1}
SCANNERS = [
    Scanner(rows=96, columns=80, bits=8, window=False, marker="R"),
    Scanner(rows=80, columns=96, bits=10, modality="CR", grid=0.01, rescale=(2.0, -100.0)),
    Scanner(rows=96, columns=96, bits=12, photometric="MONOCHROME1", collimation=0.06, ap_share=1.0),
    Scanner(rows=96, columns=96, bits=16, shutter="white", collimation=0.06, compressed=True),
]


def read(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_seed_writes_the_same_bytes_with_any_number_of_workers(tmp_path):
    write_films(tmp_path / "one", SMALL, MIX, seed=7)
    write_films(tmp_path / "two", SMALL, MIX, seed=7, workers=2)
    assert read(tmp_path / "one") == read(tmp_path / "two")


def test_another_seed_or_hospital_shares_no_film_and_no_patient():
    def films_and_patients(seed, hospital):
        made = [film.dataset for film in films(SMALL, MIX, seed, hospital=hospital)]
        return {ds.PixelData for ds in made} | {ds.PatientID for ds in made} | {ds.SOPInstanceUID for ds in made}

    first = films_and_patients(1, "A")
    assert first.isdisjoint(films_and_patients(2, "A"))
    assert first.isdisjoint(films_and_patients(1, "B"))


def test_the_label_table_names_every_file_and_keeps_the_case_mix(tmp_path):
    table = pd.read_csv(write_films(tmp_path, SMALL, MIX, seed=1))
    assert list(table.columns) == ["film", "label"]
    assert table["label"].value_counts().to_dict() == MIX
    assert set(table["film"]) == {path.name for path in tmp_path.glob("*.dcm")}
    assert list(table["label"]) != sorted(table["label"])


@pytest.mark.parametrize("scanner", SCANNERS, ids=lambda s: f"{s.modality}-{s.bits}-{s.photometric}")
def test_every_file_reads_back_as_a_complete_chest_film(tmp_path, scanner):
    write_films(tmp_path, scanner, MIX, seed=3, hospital="Testham General")
    for path in tmp_path.glob("*.dcm"):
        ds = pydicom.dcmread(path)
        assert ds.pixel_array.shape == (scanner.rows, scanner.columns)
        assert ds.pixel_array.max() < 2**scanner.bits and ds.pixel_array.std() > 2**scanner.bits / 20
        assert (ds.Modality, ds.PhotometricInterpretation, ds.BitsStored) == (
            scanner.modality,
            scanner.photometric,
            scanner.bits,
        )
        assert (ds.BodyPartExamined, ds.PresentationIntentType) == ("CHEST", "FOR PRESENTATION")
        assert ds.ViewPosition == ("AP" if scanner.ap_share else "PA")
        assert (float(ds.RescaleSlope), float(ds.RescaleIntercept)) == scanner.rescale
        assert ("WindowCenter" in ds) == scanner.window
        assert ds.file_meta.TransferSyntaxUID.is_compressed == scanner.compressed
        assert ds.file_meta.MediaStorageSOPInstanceUID == ds.SOPInstanceUID and ds.SOPInstanceUID.is_valid
        assert ds.InstitutionName == "Testham General" and "^" in str(ds.PatientName) and ds.PatientSex in "FM"
        born, taken = pd.Timestamp(ds.PatientBirthDate), pd.Timestamp(ds.StudyDate)
        assert int(ds.PatientAge[:3]) == int((taken - born).days / 365.25)
        assert ds.QualityControlImage == "YES", "marks a phantom"


def test_films_of_one_patient_share_person_label_and_anatomy():
    cases = plan_cases(SMALL, {"normal": 60, "covid-19": 60}, seed=2, hospital="A")
    by_person: dict[str, list] = {}
    for case in cases:
        by_person.setdefault(case.person.identifier, []).append(case)
    assert any(len(group) > 1 for group in by_person.values())
    for group in by_person.values():
        assert len({(case.label, case.person, case.anatomy) for case in group}) == 1


def test_ages_follow_the_bands_asked_for():
    children = plan_cases(SMALL, {"normal": 40}, seed=2, hospital="A", ages={"0-19": 1.0})
    assert all(case.person.age <= 19 for case in children)
    everyone = plan_cases(SMALL, {"normal": 200}, seed=2, hospital="A")
    met = {band for case in everyone for band, (low, high) in AGE_BANDS.items() if low <= case.person.age <= high}
    assert met == set(AGE_BANDS)


def test_a_child_has_a_shorter_chest_and_a_larger_heart():
    rng = np.random.default_rng(0)
    child, adult = ([draw_anatomy(rng, age, "M") for _ in range(50)] for age in (3, 40))
    height = [np.mean([(a.dome - a.apex) / a.half_width for a in group]) for group in (child, adult)]
    heart = [np.mean([a.heart for a in group]) for group in (child, adult)]
    assert height[0] < 0.9 * height[1] and heart[0] > 1.1 * heart[1]


def test_the_heart_points_to_the_viewers_right_and_the_l_marker_is_on_that_side():
    film = np.mean([draw_film("normal", np.random.default_rng(seed), size=96) for seed in range(8)], axis=0)
    heart_rows, beside = slice(54, 64), 14
    assert film[heart_rows, 48 + beside].mean() > film[heart_rows, 48 - beside].mean() + 0.1
    black = np.zeros((96, 96), np.float32)
    marked = scan(black, replace(SMALL, noise=0, marker="L"), np.random.default_rng(0)).astype(int)
    row, column = np.unravel_index(np.argmax(marked), marked.shape)
    assert row < 24 and column > 72


def test_monochrome1_stores_the_complement():
    image = draw_film("normal", np.random.default_rng(1), size=96)
    one, two = (
        scan(image, replace(SMALL, photometric=p), np.random.default_rng(2)).astype(int)
        for p in ("MONOCHROME1", "MONOCHROME2")
    )
    assert np.array_equal(one + two, np.full_like(one, 4095))


def test_the_window_tags_show_the_same_picture_as_a_film_without_window():
    stored = {}
    for window in (True, False):
        scanner = replace(SMALL, window=window, rescale=(1.0, 0.0))
        [film] = films(scanner, {"normal": 1}, seed=4)
        shown = apply_windowing(film.dataset.pixel_array, film.dataset)
        stored[window] = shown.astype(float) / 4095
    assert np.abs(stored[True] - stored[False]).max() < 0.002


def test_a_scanner_adds_its_signature_without_changing_the_patient():
    quiet = replace(SMALL, noise=0, tilt=0, shift=0, marker="")
    image = draw_film("normal", np.random.default_rng(1), size=96)

    def stored(scanner):
        return scan(image, scanner, np.random.default_rng(2)).astype(int)

    plain = stored(quiet)
    assert stored(replace(quiet, exposure=0.1)).mean() > plain.mean()
    framed = stored(replace(quiet, collimation=0.1, shutter="white"))
    assert framed[:, 0].min() > plain[:, 0].mean() and np.array_equal(framed[30:60, 30:60], plain[30:60, 30:60])
    assert stored(replace(quiet, noise=0.03)).std() > plain.std()


@cache
def lesion(label, seed, size=96):
    """What the disease adds to the healthy film of the same patient."""
    band, sex = list(AGE_BANDS)[seed % 5], "FM"[seed % 2]

    def film(name):
        return draw_film(name, np.random.default_rng(seed), age_band=band, sex=sex, size=size)

    return film(label) - film("normal")


def shares(label):
    """Per film, of the added density: the share on its heavier side, and the share above the lungs' middle, row 42."""
    added = [np.clip(lesion(label, seed), 0, None) for seed in range(60)]
    total = np.array([a.sum() for a in added])
    right = np.array([a[:, :48].sum() for a in added]) / total
    upper = np.array([a[:42].sum() for a in added]) / total
    return np.maximum(right, 1 - right), upper


def test_pneumonia_is_mostly_one_sided():
    heavier, _ = shares("pneumonia")
    assert np.mean(heavier > 0.95) > 0.75


def test_covid_is_bilateral_and_low():
    heavier, upper = shares("covid-19")
    assert np.mean(heavier < 0.8) > 0.85
    assert np.mean(upper < 0.4) > 0.85


def test_covid_is_peripheral():
    added = np.mean([np.clip(lesion("covid-19", seed), 0, None) for seed in range(60)], axis=0)
    per_column = added[42:72].mean(axis=0)
    inner, outer = per_column[[30, 31, 32, 63, 64, 65]].mean(), per_column[[18, 19, 20, 75, 76, 77]].mean()
    assert outer > 1.5 * inner


def test_tuberculosis_sits_in_the_upper_zones():
    _, upper = shares("tuberculosis")
    assert np.mean(upper > 0.7) > 0.85


def test_tuberculosis_cavities_are_darker_than_the_healthy_lung_they_replace():
    hollow = [lesion("tuberculosis", seed).min() < -0.01 for seed in range(40)]
    assert 0.2 < np.mean(hollow) < 0.9
    assert not any(lesion("pneumonia", seed).min() < -0.01 for seed in range(40))


def test_disease_stays_inside_the_lungs():
    for label in CLASSES[1:]:
        added = np.abs(np.mean([lesion(label, seed) for seed in range(10)], axis=0))
        outside = np.concatenate([added[:6].ravel(), added[-6:].ravel(), added[:, :5].ravel(), added[:, -5:].ravel()])
        assert outside.max() < 1e-4


def test_severity_reaches_from_faint_to_florid():
    for label in CLASSES[1:]:
        amount = np.array([np.abs(lesion(label, seed)).mean() for seed in range(40)])
        assert amount.min() > 0 and amount.max() > 5 * amount.min()


def test_brightness_and_spread_alone_do_not_tell_the_classes_apart():
    made = list(films(replace(SMALL, collimation=0.05), dict.fromkeys(CLASSES, 60), seed=11))
    pixels = [film.dataset.pixel_array for film in made]
    features = [[p.mean(), p.std()] for p in pixels]
    model = make_pipeline(StandardScaler(), LogisticRegression())
    accuracy = cross_val_score(model, features, [f.label for f in made], cv=5, scoring="balanced_accuracy").mean()
    assert accuracy < 0.40, "chance is 0.25"


@pytest.mark.parametrize(
    ("mix", "ages", "said"),
    [
        ({"flu": 3}, {"20-39": 1.0}, "flu"),
        ({"normal": -1}, {"20-39": 1.0}, "-1"),
        ({"normal": 1}, {"young": 1.0}, "young"),
    ],
)
def test_a_wrong_case_mix_or_age_band_is_named(mix, ages, said):
    with pytest.raises(UserError, match=said):
        plan_cases(SMALL, mix, seed=1, hospital="Testham General", ages=ages)


@pytest.mark.parametrize(("field", "value"), [("bits", 9), ("photometric", "RGB"), ("ap_share", 1.5), ("rows", 3)])
def test_a_scanner_refuses_a_wrong_value_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        Scanner(**{field: value})


def test_a_contact_sheet_holds_all_films(tmp_path):
    images = [draw_film(label, np.random.default_rng(1), size=64) for label in CLASSES]
    contact_sheet(images, CLASSES, tmp_path / "sheet.png", columns=3, tile=64)
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert sheet.shape == (2 * (64 + 20), 3 * 64)
    assert sheet[84:148, :64].std() > 20 and sheet[84:148, 64:].max() == 0
