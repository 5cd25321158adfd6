import numpy as np
import pytest
from PIL import Image

from fedpdc_med.evaluation.confounding import Finding, source_by_label
from fedpdc_med.evaluation.shortcuts import (
    border_features,
    class_from_border,
    class_from_shape,
    shape_features,
    source_from_image,
    thumbnails,
    verdict_of,
)

ORDER = ("alarm", "watch", "fine", "not estimable")


def every_check(images, labels, sources, patients, shapes=None):
    """All of them, worst verdict first."""
    findings = [
        source_by_label(sources, labels),
        source_from_image(images, sources, labels, patients),
        class_from_border(images, labels, patients),
    ]
    findings += [] if shapes is None else [class_from_shape(shapes, labels, patients)]
    return sorted(findings, key=lambda finding: ORDER.index(finding.verdict))


@pytest.fixture
def noise():
    """240 films of noise, 120 patients, two classes and three sources that have nothing to do with the films."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (240, 1, 64, 64), dtype=np.uint8)
    patients = np.array([f"p{i // 2}" for i in range(240)])
    labels = generator.choice(["normal", "covid-19"], 120).repeat(2)
    return images, labels, generator.choice(["a", "b", "c"], 240), patients


def test_thumbnail_is_block_means():
    image = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    assert thumbnails(image, 2).tolist() == [[2.5, 4.5, 10.5, 12.5]]


def test_border_features_do_not_see_the_inside():
    generator = np.random.default_rng(1)
    first = generator.integers(0, 256, (3, 1, 64, 64), dtype=np.uint8)
    second = first.copy()
    second[:, :, 2:-2, 2:-2] = 7
    assert (border_features(first) == border_features(second)).all()
    second[0, 0, 0, 0] ^= 255
    assert (border_features(first)[0] != border_features(second)[0]).any()
    assert border_features(np.zeros((1, 1, 64, 64), dtype=np.uint8)).tolist() == [[0, 0, 1] * 4]


@pytest.mark.parametrize(
    ("auc", "low", "verdict"),
    [
        (0.9, 0.8, "alarm"),
        (0.9, np.nextafter(0.8, 0), "watch"),
        (0.7, 0.6, "watch"),
        (0.7, np.nextafter(0.6, 0), "not estimable"),
        (0.6, 0.5, "not estimable"),
        (np.nextafter(0.6, 0), 0.5, "fine"),
    ],
)
def test_a_verdict_changes_at_its_mark_and_not_before(auc, low, verdict):
    assert verdict_of(auc, low) == verdict


def test_shape_features_on_paper():
    square, tall = shape_features(np.array([[320, 320], [320, 160]]))
    assert square.tolist() == pytest.approx([0, 0, 1, 2 * np.log(320)])
    assert tall[:3].tolist() == pytest.approx([np.log(2), np.log(2), 0])


def test_noise_does_not_alarm(noise):
    images, labels, sources, patients = noise
    shapes = np.random.default_rng(2).integers(200, 400, (240, 2))
    assert [finding.verdict for finding in every_check(images, labels, sources, patients, shapes)] == ["fine"] * 4


def test_a_black_frame_around_one_class_alarms_at_the_border(noise):
    images, labels, _, patients = noise
    framed = np.zeros_like(images)
    framed[:, :, 3:-3, 3:-3] = images[:, :, 3:-3, 3:-3]
    marked = np.where((labels == "covid-19")[:, None, None, None], framed, images)
    finding = class_from_border(marked, labels, patients)
    assert finding.verdict == "alarm" and "without looking at the lung" in finding.sentence
    assert finding.table.loc[0, "auc"] == 1


def test_a_source_that_is_told_apart_alarms_only_where_it_tells_the_class(noise):
    images, labels, sources, patients = noise
    brighter = np.where((sources == "a")[:, None, None, None], images // 2 + 128, images // 2)
    harmless = source_from_image(brighter, sources, labels, patients)
    assert harmless.verdict == "watch" and "says little about the class" in harmless.sentence
    telling = source_from_image(brighter, sources, np.where(sources == "a", "covid-19", "normal"), patients)
    assert telling.verdict == "alarm" and "instead of the disease" in telling.sentence


def test_films_of_one_patient_do_not_teach_each_other():
    """Each patient has a picture of its own and a source by lot: known patients are remembered, new ones cannot be."""
    generator = np.random.default_rng(4)
    images = generator.integers(0, 256, (40, 1, 16, 16), dtype=np.uint8).repeat(10, axis=0)
    sources = generator.permutation(np.repeat(["a", "b"], 20)).repeat(10)
    labels = np.tile(["normal", "covid-19"], 200)
    assert source_from_image(images, sources, labels, np.arange(40).repeat(10).astype(str)).verdict == "fine"
    # The same films with every film called a patient of its own: what the grouping protects against.
    assert source_from_image(images, sources, labels, np.full(400, "")).table.loc[0, "auc"] > 0.9


def test_a_high_area_of_few_films_is_watched_and_of_many_an_alarm():
    def border_of(films: int) -> Finding:
        generator = np.random.default_rng(5)
        labels = np.tile(["normal", "covid-19"], films // 2)
        tone = np.clip(100 + 30 * generator.normal(size=films) + 45 * (labels == "covid-19"), 0, 255).astype(np.uint8)
        images = np.zeros((films, 1, 32, 32), dtype=np.uint8) + tone[:, None, None, None]
        return class_from_border(images, labels, np.arange(films).astype(str))

    few, many = border_of(24), border_of(800)
    assert few.table.loc[0, "auc"] > 0.8 > few.table.loc[0, "low"] and few.verdict == "watch"
    assert many.table.loc[0, "low"] > 0.8 and many.verdict == "alarm"


def test_a_wide_interval_is_no_all_clear():
    generator = np.random.default_rng(1)
    labels = np.repeat(["normal", "covid-19"], 12)
    height = np.where(labels == "covid-19", 1040, 1000) + generator.normal(scale=40, size=24)
    finding = class_from_shape(np.stack([height, np.full(24, 1000)], axis=1), labels, np.arange(24).astype(str))
    top = finding.table.iloc[0]
    assert top["low"] < 0.6 < top["auc"]
    assert finding.verdict == "not estimable" and "too few films to be sure" in finding.sentence


def test_groups_of_few_patients_are_left_out_and_said(noise):
    images, labels, sources, patients = noise
    sources = np.where(np.arange(240) < 6, "tiny", sources)
    finding = source_from_image(images, sources, labels, patients)
    assert "tiny" not in set(finding.table["target"]) and "Excluded (fewer than 10 patients): tiny" in finding.sentence
    alone = class_from_border(images, np.full(240, "normal"), patients)
    assert alone.verdict == "not estimable" and alone.table.empty


def test_twenty_films_are_enough_to_be_asked_and_too_few_to_alarm(noise):
    images, _, _, patients = (part[::2][:20] for part in noise)
    halves = np.tile(["normal", "covid-19"], 10)
    findings = every_check(images, halves, np.tile(["a", "a", "b", "b"], 5), patients)
    assert {finding.verdict for finding in findings} <= {"fine", "watch", "not estimable"}
    assert all(len(finding.table) == 2 for finding in findings)


def test_the_same_seed_gives_the_same_finding(noise):
    images, labels, _, patients = noise
    first, second = (class_from_border(images, labels, patients, seed=3).sentence for _ in range(2))
    assert first == second


@pytest.fixture(scope="module")
def darkcovidnet(real_data):
    films, labels, patients, shapes = [], [], [], []
    for path in sorted(real_data("darkcovidnet").glob("*/*")):
        with Image.open(path) as picture:
            shapes.append((picture.height, picture.width))
            films.append(np.asarray(picture.convert("L").resize((64, 64))))
        labels.append(path.parent.name)
        patients.append(path.stem if path.parent.name == "Covid-19" else path.stem.split("_")[0])
    return np.stack(films)[:, None], np.array(labels), np.array(patients), np.array(shapes)


def test_shape_alone_separates_the_covid_films_of_darkcovidnet(darkcovidnet):
    _, labels, patients, shapes = darkcovidnet
    finding = class_from_shape(shapes, labels, patients)
    assert finding.verdict == "alarm" and finding.table.loc[0, "target"] == "Covid-19"
    assert finding.table.loc[0, "auc"] > 0.95


def test_darkcovidnet_alarms_and_its_shuffled_labels_do_not(darkcovidnet):
    films, labels, patients, shapes = darkcovidnet
    sources = np.where(labels == "Covid-19", "case-reports", "nih")
    assert [f.verdict for f in every_check(films, labels, sources, patients, shapes)][:3] == ["alarm"] * 3
    generator = np.random.default_rng(0)
    shuffled = every_check(films, generator.permutation(labels), generator.permutation(sources), patients, shapes)
    assert [f.verdict for f in shuffled] == ["fine"] * 4
