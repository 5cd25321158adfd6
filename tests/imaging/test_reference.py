"""The reference set: balanced, split by patient, verified."""

import shutil

import numpy as np
import pandas as pd
import pytest

from fedpdc_med.cli.reference import widths
from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.duplicates import perceptual_hash
from fedpdc_med.imaging.ingest.labels import read_labels
from fedpdc_med.imaging.phantoms.films import write_films
from fedpdc_med.imaging.phantoms.scanners import Scanner
from fedpdc_med.imaging.reference import balanced_rows, build_reference, check_reference, read_reference
from fedpdc_med.imaging.store import read_store


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    labels = write_films(folder / "dicom", Scanner(), {"normal": 24, "covid-19": 16}, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDPDC_HOME", str(folder / "home"))
        return build_reference(
            folder / "dicom",
            folder / "set",
            provenance="phantoms",
            licence="Apache-2.0",
            version="1",
            per_class=None,
            labels=read_labels(labels),
            labels_file=labels,
            size=64,
            processes=2,
        )


def test_a_built_set_is_balanced_disjoint_and_says_where_it_came_from(built):
    counts = pd.crosstab(built.store.manifest["split"], built.store.manifest["label"])
    assert set(counts.index) == {"correction", "weighting", "holdout"}
    assert all(row.nunique() == 1 and row.min() > 0 for _, row in counts.iterrows())
    assert built.store.manifest.groupby("patient")["split"].nunique().max() == 1
    assert built.classes == ("normal", "covid-19")
    assert (built.facts["licence"], built.facts["provenance"]) == ("Apache-2.0", "phantoms")
    assert all(check.holds for check in check_reference(built, {}))


def test_a_set_is_for_its_owner_only(built):
    folder = built.store.folder
    assert not [entry.name for entry in (folder, *folder.iterdir()) if entry.stat().st_mode & 0o077]


def build_again(built, out, **more):
    source = built.store.folder.parent / "dicom"
    facts = {"provenance": "", "licence": "", "version": "2", "per_class": None, "replace": True}
    return build_reference(source, out, **facts, labels=read_labels(source / "labels.csv"), size=64, **more)


def test_replacing_a_set_leaves_other_files_of_its_folder(built, tmp_path, fedpdc_home):
    shutil.copytree(built.store.folder, tmp_path / "set")
    (tmp_path / "set" / "notes.txt").write_text("mine", encoding="utf-8")
    assert build_again(built, tmp_path / "set", processes=1).facts["version"] == "2"
    assert (tmp_path / "set" / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_folder_with_other_things_is_never_built_into(built, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(UserError, match="thesis contains files that are not a reference set"):
        build_again(built, tmp_path / "thesis")
    with pytest.raises(UserError, match="is a file"):
        build_again(built, tmp_path / "thesis" / "chapter.tex")
    assert (tmp_path / "thesis" / "chapter.tex").read_text(encoding="utf-8") == "years of work"


@pytest.mark.parametrize("out", ["dicom", "dicom/reference", "."])
def test_a_set_is_not_built_into_or_around_its_films(built, out):
    with pytest.raises(UserError, match="overlap"):
        build_again(built, built.store.folder.parent / out)


def test_a_changed_pixel_is_found(built, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(built.store.folder, copy)
    films = np.load(copy / "films.npy")
    films[3, 0, 5, 5] ^= 1
    np.save(copy / "films.npy", films)
    failed = [check for check in check_reference(read_reference(copy), {}) if not check.holds]
    assert [check.what for check in failed] == ["checksums"]
    assert "1 changed" in failed[0].found


def test_a_site_that_holds_a_film_of_the_reference_is_found(built):
    theirs = built.store.manifest.head(2).assign(patient=["x", "y"], film=["f", "g"])
    found = {check.what: check for check in check_reference(built, {"harbor": theirs})}["no overlap with harbor"]
    assert not found.holds
    assert found.found == "2 of 2 films"


def test_interval_of_an_accuracy_is_wilsons(built):
    """Worked out from the formula: half-width = z * sqrt(p q / n + z^2 / 4 n^2) / (1 + z^2 / n)."""
    count, half = widths(built)["holdout"]
    p, z = round(0.8 * count) / count, 1.959964
    by_hand = z * np.sqrt(p * (1 - p) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    assert half == pytest.approx(by_hand, abs=1e-4)


def manifest(labels):
    rng = np.random.default_rng(0)
    films = rng.integers(0, 256, (len(labels), 1, 32, 32), dtype=np.uint8)
    return pd.DataFrame(
        {
            "label": labels,
            "patient": [f"p{i}" for i in range(len(labels))],
            "perceptual_hash": [perceptual_hash(film) for film in films],
        }
    )


def test_every_split_takes_as_many_films_as_its_rarest_class_has():
    rows = manifest(["normal"] * 60 + ["covid-19"] * 20)
    chosen = balanced_rows(rows, None, seed=0)
    counts = pd.crosstab(chosen, rows["label"]).drop("")
    assert counts.loc["correction"].tolist() == [6, 6]
    assert counts.loc["weighting"].tolist() == [6, 6]
    assert counts.loc["holdout"].tolist() == [8, 8]


def test_more_films_a_class_than_there_are_is_refused_with_the_class():
    with pytest.raises(UserError, match="covid-19 has 6"):
        balanced_rows(manifest(["normal"] * 60 + ["covid-19"] * 20), 40, seed=0)


def test_a_folder_without_a_set_says_how_to_make_one(tmp_path, built):
    with pytest.raises(UserError, match="fedpdc reference build"):
        read_reference(tmp_path)
    assert len(read_store(built.store.folder).manifest) == built.facts["films"]


def test_a_stopped_build_is_continued(built, tmp_path, fedpdc_home):
    from fedpdc_med.imaging.ingest.journal import Journal
    from fedpdc_med.imaging.ingest.pipeline import ingest
    from fedpdc_med.imaging.records import Outcome, Reason, Verdict

    source = built.store.folder.parent / "dicom"
    labels = source / "labels.csv"
    how = {"labels": read_labels(labels), "labels_file": labels, "size": 64, "processes": 2}
    fingerprint = read_store(ingest(source, "reference", store=tmp_path / "other", **how).store).info["ingest"]
    with Journal(tmp_path / ".set.draft" / "all" / ".ingest", fingerprint, 64) as journal:
        journal.add([(1, Outcome(Verdict.REJECTED, Reason.BLANK))])  # what the stopped one is taken to have found
    again = build_reference(source, tmp_path / "set", provenance="", licence="", version="1", per_class=None, **how)
    assert "1,rejected,blank film," in (again.store.folder / "ingest_report.csv").read_text(encoding="utf-8")
    assert not (tmp_path / ".set.draft").exists()


@pytest.mark.parametrize("name", ["films.npy", "store.json", "reference.json"])
def test_a_set_that_was_not_copied_whole_is_an_error_in_one_line(built, tmp_path, name):
    shutil.copytree(built.store.folder, tmp_path / "set")
    whole = (tmp_path / "set" / name).read_bytes()
    for length in (0, 50, len(whole) // 2):
        (tmp_path / "set" / name).write_bytes(whole[:length])
        with pytest.raises(UserError, match=f"{name} of set is corrupt or incomplete"):
            read_reference(tmp_path / "set")
