"""Sign-off: the reviewers' decisions, class by class, in review.json of the run directory.

The list only grows. A decision counts for the model it was made on, named by the SHA-256 of its file.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import atomic_write, locked, parsed, read_text, sha256_of

FILE = "review.json"
FORMAT = 1
ACCEPT, CONDITIONS, REJECT = VERDICTS = ("accept", "accept with conditions", "reject")
LONGEST_NAME, LONGEST_COMMENT = 200, 5000


@dataclass(frozen=True)
class Decision:
    label: str
    verdict: str
    reviewer: str
    comment: str
    model_sha256: str
    time: str
    seen: str = ""  # what the reviewer was shown, as in `recall 0.44, 20 of 45 held-out test films`


def model_hash(folder: Path) -> str | None:
    """The SHA-256 of the run's final model, None where it has none."""
    file = folder / "model.safetensors"
    if not file.is_file():
        return None
    state = file.stat()
    return _hash(file, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=64)
def _hash(file: Path, size: int, changed: int) -> str:
    return sha256_of(file)


def read_decisions(folder: Path) -> list[Decision]:
    """Every decision on this run, oldest first."""
    try:
        text = read_text(folder / FILE)
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{FILE} of this run cannot be read") from None
    try:
        found = parsed(json.loads, text)
        if found["format"] != FORMAT:
            raise UserError(f"{FILE} of this run has an unknown format; this version reads format {FORMAT}")
        return [_decision(entry) for entry in found["decisions"]]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{FILE} of this run is corrupt; repair or move it before signing") from None


def _decision(entry: dict[str, Any]) -> Decision:
    decision = Decision(**entry)
    if not all(isinstance(value, str) for value in asdict(decision).values()) or decision.verdict not in VERDICTS:
        raise ValueError("not a decision")
    return decision


def sign(
    folder: Path,
    labels: list[str],
    verdict: str,
    reviewer: str,
    comment: str,
    shown: Mapping[str, str],
    model: str,
) -> list[Decision]:
    """Add one decision for each class; `shown` is what the reviewer saw of each, `model` the hash of the model."""
    reviewer, comment = reviewer.strip(), comment.strip()
    if not labels:
        raise UserError("choose at least one class to decide on")
    if unknown := [label for label in labels if label not in shown]:
        raise UserError(f"this model has no class {unknown[0]!r}")
    if verdict not in VERDICTS:
        raise UserError(f"a decision is one of: {', '.join(VERDICTS)}")
    if not reviewer:
        raise UserError("enter your name: a decision must have one")
    if verdict == CONDITIONS and not comment:
        raise UserError("enter the conditions as a comment")
    if len(reviewer) > LONGEST_NAME or len(comment) > LONGEST_COMMENT:
        raise UserError(f"a name has at most {LONGEST_NAME} characters, a comment {LONGEST_COMMENT}")
    if model_hash(folder) != model:
        raise UserError("the model has changed since this page was opened; review the new numbers before signing")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    made = [Decision(label, verdict, reviewer, comment, model, now, shown[label]) for label in labels]
    _append(folder, made)
    return made


def _append(folder: Path, made: list[Decision]) -> None:
    """Read, add and replace under a lock, so that two reviewers at once lose nothing.

    A run may come from anybody, so nothing is written through a link in it.
    """
    try:
        with locked(folder / f".{FILE}.lock"):
            every = [*read_decisions(folder), *made]
            text = json.dumps({"format": FORMAT, "decisions": [asdict(one) for one in every]}, indent=2)
            atomic_write(folder / FILE, lambda file: file.write(f"{text}\n".encode()), fsync=True)
    except OSError as error:
        raise UserError(f"the decision cannot be saved in the run directory: {error.strerror}") from None


@dataclass(frozen=True)
class CurrentDecision:
    """One reviewer's last decision on a class; valid if it was made on this model."""

    label: str
    decision: Decision | None
    valid: bool

    @property
    def words(self) -> str:
        if self.decision is None:
            return "not decided"
        return self.decision.verdict if self.valid else f"no longer valid ({self.decision.verdict}, on another model)"


def standing(decisions: list[Decision], classes: list[str], model: str | None) -> list[CurrentDecision]:
    """Every reviewer's last decision on each class; only where there is none, the last on another model, not valid."""
    found = []
    for label in classes:
        mine = [one for one in decisions if one.label == label]
        here = {one.reviewer.casefold(): one for one in mine if one.model_sha256 == model}
        found += [CurrentDecision(label, one, True) for one in here.values()]
        if not here:
            found.append(CurrentDecision(label, mine[-1] if mine else None, False))
    return found


def disputed(stands: list[CurrentDecision]) -> list[str]:
    """The classes on which valid decisions differ."""
    held: dict[str, set[str]] = {}
    for stand in stands:
        if stand.decision and stand.valid:
            held.setdefault(stand.label, set()).add(stand.decision.verdict)
    return [label for label, verdicts in held.items() if len(verdicts) > 1]
