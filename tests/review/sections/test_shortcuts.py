"""The shortcut checks on film stores: the alarm that darkcovidnet must raise, and what could not be checked."""

import numpy as np
import pandas as pd

from fedpdc_med.imaging.ingest.pipeline import ingest
from fedpdc_med.imaging.store import COLUMNS, read_store, write_store
from fedpdc_med.review.film_images import RunImages, SiteImages
from fedpdc_med.review.html_report import make_report
from fedpdc_med.review.sections.shortcuts import check
from fedpdc_med.runs.listing import open_run

CLASSES = ["normal", "covid-19"]


def films(count: int = 120, seed: int = 0) -> SiteImages:
    """Noise of two classes, square and of one source: nothing to find."""
    generator = np.random.default_rng(seed)
    manifest = pd.DataFrame("", index=range(count), columns=list(COLUMNS)).assign(
        film=[f"{i:016x}" for i in range(count)],
        patient=[f"p{i}" for i in range(count)],
        label=np.tile(CLASSES, count // 2),
        source="dicom",
        height="512",
        width="512",
    )
    return SiteImages(generator.integers(0, 256, (count, 1, 48, 48), dtype=np.uint8), manifest)


def verdicts(images: RunImages) -> dict[str, str]:
    return {finding.name: finding.verdict for finding in check(images, pd.DataFrame(), CLASSES).findings}


def test_noise_raises_no_alarm():
    found = verdicts(RunImages({"a": films(), "b": films(seed=1)}, {}))
    assert set(found) == {"source by label", "site from the image", "class from the border", "class from the shape"}
    assert "alarm" not in found.values() and "watch" not in found.values()


def test_a_class_with_a_shape_of_its_own_alarms_first():
    held = films()
    covid = held.about["label"] == "covid-19"
    tall = SiteImages(held.images, held.about.assign(height=np.where(covid, "640", "512")))
    found = check(RunImages({"a": tall}, {}), pd.DataFrame(), CLASSES)
    assert (found.findings[0].name, found.findings[0].verdict) == ("class from the shape", "alarm")
    assert "COVID-19 can be predicted from height and width alone" in found.findings[0].sentence
    assert found.not_checked == [] and found.films == 120


def test_a_site_that_can_be_told_and_has_one_class_alarms():
    dark, bright = films(), films(seed=1)
    dark = SiteImages(dark.images // 2, dark.about.assign(label="normal"))
    bright = SiteImages(bright.images // 2 + 128, bright.about.assign(label="covid-19"))
    found = check(RunImages({"dark": dark, "bright": bright}, {}), pd.DataFrame(), CLASSES)
    site = next(finding for finding in found.findings if finding.name == "site from the image")
    assert site.verdict == "alarm" and "learn the site instead of the disease" in site.sentence


def test_what_could_not_be_checked_is_said():
    old = films()
    old = SiteImages(old.images, old.about.assign(height="", width=""))
    found = check(RunImages({"a": old}, {"harbor": "away"}), pd.DataFrame(), CLASSES)
    assert "class from the shape" not in {finding.name for finding in found.findings}
    assert "older version" in found.not_checked[0] and "harbor" in found.not_checked[1]
    half = RunImages({"a": old, "b": films(seed=1)}, {})
    assert "120 films of unknown height and width" in check(half, pd.DataFrame(), CLASSES).not_checked[0]


def test_there_is_no_all_clear_for_a_class_of_unknown_shape():
    held = films(180)
    about = held.about.assign(label=np.tile(["normal", "pneumonia", "covid-19"], 60))
    about.loc[about["label"] == "covid-19", ["height", "width"]] = ""
    images = RunImages({"a": SiteImages(held.images, about)}, {})
    found = check(images, pd.DataFrame(), ["normal", "pneumonia", "covid-19"])
    shape = next(finding for finding in found.findings if finding.name == "class from the shape")
    assert shape.verdict == "not estimable"
    assert shape.sentence.startswith("Too few films of known height and width: COVID-19.")


def test_without_films_sources_are_counted_among_predictions_and_benchmarks_are_not_checked():
    frame = pd.DataFrame(
        {"site": "a", "film": list("abcdabcd"), "source": ["x", "x", "y", "y"] * 2, "label": ["normal", "covid-19"] * 4}
    )
    found = check(RunImages({}, {"a": "away"}), frame, CLASSES)
    assert [finding.name for finding in found.findings] == ["source by label"]
    assert found.findings[0].table.to_numpy().sum() == 4  # a film that two models predicted counts once
    assert "not on this machine" in found.not_checked[0]
    assert "benchmark" in check(None, frame, CLASSES).not_checked[0]


def test_darkcovidnet_raises_the_alarm_on_the_page(tmp_path, monkeypatch, write_run, draw, real_data):
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path))
    store = read_store(ingest(real_data("darkcovidnet"), "darkcovidnet", size=64, processes=2).store)
    images = RunImages({"darkcovidnet": SiteImages(store.films, store.manifest)}, {})
    found = {finding.name: finding for finding in check(images, pd.DataFrame(), [*CLASSES, "pneumonia"]).findings}
    finding = found["class from the shape"]
    assert finding.verdict == "alarm" and finding.table.loc[0, "target"] == "covid-19"
    assert finding.table.loc[0, "auc"] > 0.95
    config = write_run(tmp_path / "runs" / "a", dict.fromkeys([*CLASSES, "pneumonia"], (9, 10))) / "config.toml"
    named = 'reference = "films of seed 0"', f'darkcovidnet = "{store.info["manifest_sha256"][:16]}"'
    config.write_text(config.read_text(encoding="utf-8").replace(*named), encoding="utf-8")
    alarms = [error.replace("**", "") for error in draw(tmp_path / "runs", "shortcuts").errors]
    shape = "High risk: class from the shape. COVID-19 can be predicted from height and width alone"
    assert any(shape in one for one in alarms)
    assert any("A model can score high on it without looking at the lung" in one for one in alarms)


def test_films_of_hospitals_elsewhere_are_not_said_to_be_looked_at():
    """A coordinator's run: it has the reference set, and no film of its sites."""
    found = check(RunImages({"reference": films()}, {}), pd.DataFrame(), CLASSES, ["harbor", "hill"])
    assert found.whose == "the public reference set"
    assert found.not_checked == ["Films of harbor, hill are not on this machine, so they were not checked."]
    two = RunImages({"reference": films(), "hill": films(seed=1)}, {})
    some = check(two, pd.DataFrame(), CLASSES, ["harbor", "hill"])
    assert some.whose == "hill and the public reference set" and "Films of harbor are" in some.not_checked[0]
    every = check(two, pd.DataFrame(), CLASSES, ["hill"])
    assert every.whose == "all sites and the public reference set" and every.not_checked == []


def test_the_page_and_the_report_of_a_federation_say_whose_films_were_looked_at(tmp_path, monkeypatch, write_run, draw):
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path))
    held = films()
    write_store(tmp_path / "reference", held.images, held.about, site="reference", size=48, processing={})
    store = read_store(tmp_path / "reference")
    config = write_run(tmp_path / "runs" / "a", dict.fromkeys(CLASSES, (9, 10))) / "config.toml"
    config.write_text(
        config.read_text(encoding="utf-8").replace("films of seed 0", store.info["manifest_sha256"][:16]),
        encoding="utf-8",
    )
    for text in (draw(tmp_path / "runs", "shortcuts").text, make_report(open_run(tmp_path / "runs", "a"))):
        assert "120 films of the public reference set" in text and "all sites" not in text
        assert "Films of harbor, hill are not on this machine, so they were not checked." in text
