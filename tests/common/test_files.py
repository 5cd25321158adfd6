"""Files that are whole or not there, and locks that one process at a time can hold."""

import errno
import fcntl
import os

import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import atomic_write, locked, read_json, sha256_of


def test_a_writer_that_fails_leaves_the_file_that_was_there_and_no_draft(tmp_path):
    (tmp_path / "store.json").write_text("before", encoding="utf-8")

    def half(file):
        file.write(b"hal")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        atomic_write(tmp_path / "store.json", half)
    assert (tmp_path / "store.json").read_text(encoding="utf-8") == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["store.json"]


@pytest.mark.parametrize("name", ["a.txt", ".a.txt.PID.partial"])
def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path, name):
    elsewhere, name = tmp_path / "thesis.txt", name.replace("PID", str(os.getpid()))
    elsewhere.write_text("years of work", encoding="utf-8")
    (tmp_path / name).symlink_to(elsewhere)
    atomic_write(tmp_path / "a.txt", lambda file: file.write(b"new"), fsync=True)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "new" and not (tmp_path / "a.txt").is_symlink()
    assert elsewhere.read_text(encoding="utf-8") == "years of work"


def test_a_lock_that_is_held_stops_with_the_words_for_it_and_is_free_again_after(tmp_path):
    with locked(tmp_path / "lock"), pytest.raises(UserError, match="come back later"):
        locked(tmp_path / "lock", "come back later").__enter__()
    with locked(tmp_path / "lock", "come back later"):
        pass


def test_where_a_share_knows_no_locks_the_work_goes_on(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    with locked(tmp_path / "lock"), locked(tmp_path / "lock", "come back later"):
        pass


def test_the_sum_of_a_file_is_what_sha256sum_prints(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256_of(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"a": "\udcff"}'])
def test_a_damaged_file_is_told_by_its_name_and_folder(tmp_path, text):
    (tmp_path / "store.json").write_text(text, errors="surrogateescape", encoding="utf-8")
    with pytest.raises(UserError, match=rf"store\.json of {tmp_path.name} is corrupt or incomplete"):
        read_json(tmp_path / "store.json")
