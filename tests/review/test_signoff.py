"""Sign-off: decisions in the run directory; their list only grows, and each is for one model."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import pytest

from fedpdc_med.common.errors import UserError
from fedpdc_med.review.signoff import disputed, model_hash, read_decisions, sign, standing

CLASSES = ["normal", "covid-19"]
SHOWN = {name: f"recall of {name}" for name in CLASSES}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def accept(run, labels=("normal",), verdict="accept", reviewer="Dr. Ruth", comment=""):
    return sign(run, list(labels), verdict, reviewer, comment, SHOWN, model_hash(run))


def test_a_decision_is_stored_with_the_hash_of_the_model_and_the_time(run):
    accept(run, CLASSES, "accept with conditions", "  Dr. Ruth ", "adults only")
    stored = json.loads((run / "review.json").read_text(encoding="utf-8"))["decisions"]
    assert [one["label"] for one in stored] == CLASSES
    assert {one["reviewer"] for one in stored} == {"Dr. Ruth"} and stored[0]["comment"] == "adults only"
    assert stored[0]["model_sha256"] == sha256(b"weights").hexdigest()
    assert stored[0]["time"].endswith("+00:00")
    assert [one["seen"] for one in stored] == ["recall of normal", "recall of covid-19"]


def test_decisions_of_before_the_record_of_what_was_seen_are_still_read(run):
    accept(run)
    stored = json.loads((run / "review.json").read_text(encoding="utf-8"))
    del stored["decisions"][0]["seen"]
    (run / "review.json").write_text(json.dumps(stored), encoding="utf-8")
    assert [(one.label, one.seen) for one in read_decisions(run)] == [("normal", "")]


def test_the_list_only_grows_and_a_reviewers_last_decision_on_a_class_holds(run):
    accept(run)
    accept(run, verdict="reject", reviewer="dr. ruth")
    decisions = read_decisions(run)
    assert [one.verdict for one in decisions] == ["accept", "reject"]
    normal, covid = standing(decisions, CLASSES, model_hash(run))
    assert (normal.words, normal.valid) == ("reject", True)
    assert (covid.words, covid.decision) == ("not decided", None)


def test_a_reject_does_not_disappear_behind_the_accept_of_another(run):
    accept(run, CLASSES, verdict="reject", reviewer="Dr. Otto")
    accept(run)
    stands = standing(read_decisions(run), CLASSES, model_hash(run))
    held = [(one.label, one.decision.reviewer, one.words) for one in stands]
    assert held[:2] == [("normal", "Dr. Otto", "reject"), ("normal", "Dr. Ruth", "accept")] and len(held) == 3
    assert disputed(stands) == ["normal"]


def test_a_decision_on_this_model_holds_whatever_was_decided_on_another_later(run):
    accept(run, verdict="reject")
    (run / "model.safetensors").write_bytes(b"trained again")
    accept(run)
    (run / "model.safetensors").write_bytes(b"weights")
    (normal, _) = standing(read_decisions(run), CLASSES, model_hash(run))
    assert normal.valid and normal.words == "reject"


def test_a_decision_on_another_model_is_no_longer_valid(run):
    accept(run)
    (run / "model.safetensors").write_bytes(b"trained again")
    (normal, _) = standing(read_decisions(run), CLASSES, model_hash(run))
    assert not normal.valid and normal.words == "no longer valid (accept, on another model)"


def test_a_model_that_changed_while_the_page_was_open_cannot_be_signed(run):
    seen = model_hash(run)
    (run / "model.safetensors").write_bytes(b"trained again")
    with pytest.raises(UserError, match="has changed since this page was opened"):
        sign(run, ["normal"], "accept", "Dr. Ruth", "", SHOWN, seen)
    assert read_decisions(run) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reviewer": "  "}, "enter your name"),
        ({"verdict": "accept with conditions"}, "enter the conditions"),
        ({"verdict": "maybe"}, "a decision is one of"),
        ({"labels": ()}, "at least one class"),
        ({"labels": ("tuberculosis",)}, "no class 'tuberculosis'"),
        ({"comment": "x" * 5001}, "at most"),
    ],
)
def test_an_incomplete_decision_is_refused(run, change, says):
    with pytest.raises(UserError, match=says):
        accept(run, **change)
    assert not (run / "review.json").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1, "decisions": [{"label": 3}]}', '{"format": 1}', "\0"])
def test_a_damaged_file_is_a_sentence_and_is_never_overwritten(run, text):
    (run / "review.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"review\.json of this run is corrupt"):
        read_decisions(run)
    with pytest.raises(UserError, match="corrupt"):
        accept(run)
    assert (run / "review.json").read_text(encoding="utf-8") == text


def test_a_link_to_a_file_elsewhere_is_not_read(run, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "secret.json"
    elsewhere.write_text('{"format": 1, "decisions": []}', encoding="utf-8")
    (run / "review.json").symlink_to(elsewhere)
    with pytest.raises(UserError, match="is a link"):
        read_decisions(run)


def test_reviewers_who_sign_at_the_same_time_lose_nothing(run):
    script = (
        "import sys; from pathlib import Path; from fedpdc_med.review.signoff import model_hash, sign\n"
        "run, SHOWN = Path(sys.argv[1]), {'normal': ''}\n"
        "for k in range(20): sign(run, ['normal'], 'accept', f'{sys.argv[2]}-{k}', '', SHOWN, model_hash(run))\n"
    )
    command = [sys.executable, "-c", script, str(run)]
    with ThreadPoolExecutor() as pool:
        done = pool.map(lambda who: subprocess.run([*command, who], env=dict(os.environ)).returncode, "abc")
        assert list(done) == [0, 0, 0]
    assert len({one.reviewer for one in read_decisions(run)}) == 60
    assert sorted(file.name for file in run.iterdir()) == [".review.json.lock", "model.safetensors", "review.json"]


def test_a_folder_that_cannot_be_written_says_so(run):
    (run / ".review.json.lock").mkdir()
    with pytest.raises(UserError, match="cannot be saved in the run directory"):
        accept(run)


@pytest.mark.parametrize("kind", ["lock", "draft"])
def test_signing_a_run_writes_through_no_link_in_it(run, tmp_path_factory, kind):
    name = ".review.json.lock" if kind == "lock" else f".review.json.{os.getpid()}.partial"
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "thesis.txt"
    elsewhere.write_text("years of work", encoding="utf-8")
    (run / name).symlink_to(elsewhere)
    if kind == "lock":
        with pytest.raises(UserError, match=r"review\.json\.lock in the folder .* is a link"):
            accept(run)
        (run / name).unlink()
    accept(run)
    assert elsewhere.read_text(encoding="utf-8") == "years of work"
    assert len(read_decisions(run)) == 1 and not (run / "review.json").is_symlink()


def test_on_a_share_that_knows_no_locks_a_decision_is_kept_too(run, monkeypatch):
    def unknown(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    accept(run)
    assert len(read_decisions(run)) == 1
