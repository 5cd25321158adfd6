"""The film store on disk."""

import json

import numpy as np
import pandas as pd
import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.store import COLUMNS, original_shapes, read_store, write_store


def manifest(count: int) -> pd.DataFrame:
    rows = pd.DataFrame("", index=range(count), columns=list(COLUMNS))
    return rows.assign(
        film=[f"{i:016x}" for i in range(count)],
        label="normal",
        patient=[f"00000000000000{i // 2:02d}" for i in range(count)],
        split="train",
    )


def store(folder, count=3, size=4):
    films = np.arange(count * size * size, dtype=np.uint8).reshape(count, 1, size, size)
    write_store(folder, films, manifest(count), site="harbor", size=size, processing={"fit": "pad"})
    return films


def test_what_was_written_is_read_back_with_ids_as_text(tmp_path):
    films = store(tmp_path / "harbor")
    found = read_store(tmp_path / "harbor")
    assert np.array_equal(found.films, films) and found.films.flags.c_contiguous
    assert isinstance(found.films, np.memmap)
    # Ids of digits only, and empty sex or age, must not turn into numbers and NaN.
    assert list(found.manifest["patient"]) == ["0000000000000000", "0000000000000000", "0000000000000001"]
    assert list(found.manifest["sex"]) == ["", "", ""]
    assert found.info["counts"] == {
        "films": 3,
        "patients": 2,
        "splits": {"train": 3},
        "classes": {"normal": 3, "pneumonia": 0, "covid-19": 0, "tuberculosis": 0},
    }
    assert repr(found) == "FilmStore(harbor: 3 films, 2 patients; normal 3)"


def test_a_store_without_its_last_file_is_unfinished(tmp_path):
    store(tmp_path / "harbor")
    (tmp_path / "harbor" / "store.json").unlink()
    with pytest.raises(UserError, match="no finished film store; make it with: fedpdc ingest"):
        read_store(tmp_path / "harbor")


def test_a_changed_manifest_is_noticed(tmp_path):
    store(tmp_path / "harbor")
    table = tmp_path / "harbor" / "manifest.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("normal", "pneumonia", 1), encoding="utf-8")
    with pytest.raises(UserError, match="changed after ingest"):
        read_store(tmp_path / "harbor")


def test_films_that_do_not_fit_the_manifest_are_noticed(tmp_path):
    store(tmp_path / "harbor")
    np.save(tmp_path / "harbor" / "films.npy", np.zeros((2, 1, 4, 4), np.uint8))
    with pytest.raises(UserError, match="does not match its manifest"):
        read_store(tmp_path / "harbor")


@pytest.mark.parametrize("made", ["numbers of eight bytes", "objects", "an archive"])
def test_films_that_are_no_bytes_of_pixels_are_noticed(tmp_path, made):
    """A store may come from somebody else."""
    store(tmp_path / "harbor")
    with (tmp_path / "harbor" / "films.npy").open("wb") as file:
        if made == "an archive":
            np.savez(file, films=np.zeros((3, 1, 4, 4), np.uint8))
        else:
            np.save(file, np.zeros((3, 1, 4, 4), object if made == "objects" else np.int64), allow_pickle=True)
    with pytest.raises(UserError, match=r"films.npy of harbor (is corrupt|does not match)"):
        read_store(tmp_path / "harbor")


def test_a_store_of_another_format_says_so(tmp_path):
    store(tmp_path / "harbor")
    about = tmp_path / "harbor" / "store.json"
    about.write_text(json.dumps(json.loads(about.read_text(encoding="utf-8")) | {"format": 99}), encoding="utf-8")
    with pytest.raises(UserError, match="format 99"):
        read_store(tmp_path / "harbor")


def test_writing_leaves_no_drafts(tmp_path):
    store(tmp_path / "harbor")
    assert sorted(p.name for p in (tmp_path / "harbor").iterdir()) == ["films.npy", "manifest.csv", "store.json"]


def test_the_original_shape_is_kept_and_an_empty_one_is_unknown(tmp_path):
    table = manifest(3).assign(height=["1024", "320", ""], width=["1024", "256", ""])
    films = np.zeros((3, 1, 4, 4), np.uint8)
    write_store(tmp_path / "harbor", films, table, site="harbor", size=4, processing={})
    assert original_shapes(read_store(tmp_path / "harbor").manifest).tolist() == [[1024, 1024], [320, 256], [0, 0]]
