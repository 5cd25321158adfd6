"""Messages between the coordinator and a hospital: tensors as safetensors bytes (no pickle), and named numbers."""

import math
from dataclasses import dataclass
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.federation.images import Films
from fedpdc_med.methods.server import State
from fedpdc_med.runs.plan import Plan

TRAIN = "train"  # the one task of a job
ASSIGNED = {"round", "score", "own_round", "model", "memory", "correction"}  # to a site
RETURNED = {"site", "round", "state", "extra", "numbers"}  # from a site; nothing else may leave
NUMBERS = {"films", "loss", "seconds", "epsilon"}  # and `films:<class>`
MARGIN = 1 << 12  # bytes that a state's file may have beyond its tensors, their names and shapes


# Why a site does not train: the code word that leaves it, and the sentence shown to people. No other word leaves it.
REFUSALS = {
    "protocol": "its fedpdc_med is incompatible with the coordinator's; install the same version at both",
    "version": "its fedpdc_med is not the coordinator's version, {package}; install that version at the site",
    "processing": "its films were resized differently from the public reference set; ingest them again at the site, "
    "with {processing}",
    "site-file": "its site file or its film store cannot be used; run `fedpdc federation check` there to see why",
    "no-films": "it has no training films of the classes {classes}; check its labels",
    "privacy": "its differential privacy covers the model only, and method {method} sends more; choose another method",
    "privacy-spent": "its privacy budget is spent: another update would exceed its own limit of epsilon",
}


class Refused(WorkFailed):
    """This site does not train. The code word leaves it; the text, which may name files, stays in its log."""

    def __init__(self, word: str, text: str) -> None:
        super().__init__(text)
        self.word = word


def sentence_of(word: str, plan: Plan) -> str:
    return REFUSALS[word].format(
        package=plan.package,
        processing=plan.film_processing,
        classes=", ".join(plan.classes),
        method=plan.method.name,
    )


class BadMessage(Exception):
    """A message is not as agreed; the text is safe to show to the other side."""


def packed(state: State) -> bytes:
    return save({name: tensor.contiguous() for name, tensor in state.items()})


def unpacked(data: object) -> State:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise BadMessage("its state is not bytes")
    try:
        return load(bytes(data))
    except (SafetensorError, ValueError, KeyError):
        raise BadMessage("its state cannot be read") from None


def largest(expected: State) -> int:
    """The maximum size in bytes of a state of this model."""
    return len(packed(expected)) + MARGIN


def packed_films(films: Films) -> bytes:
    return save({"images": films.images.permute(0, 2, 3, 1).contiguous(), "labels": films.labels})


def unpacked_films(data: object) -> Films:
    state = unpacked(data)
    if state.keys() != {"images", "labels"}:
        raise BadMessage("its films are not images and labels")
    return Films(state["images"].permute(0, 3, 1, 2), state["labels"])


@dataclass(frozen=True)
class Answer:
    """A site's answer, its states still as bytes."""

    site: str
    round: int
    state: bytes
    extra: bytes | None  # what the method sends in addition to the model
    numbers: dict[str, float]


def read_answer(content: dict[str, Any], classes: tuple[str, ...], most_bytes: int) -> Answer:
    """The same rule at both ends: exactly these entries, with values of these kinds only."""
    if content.keys() != RETURNED:
        wrong = sorted(repr(name)[:40] for name in content.keys() ^ RETURNED)[:5]
        raise BadMessage(f"its answer has unexpected or missing entries: {', '.join(wrong)}")
    site, t = content["site"], content["round"]
    for state in (content["state"], content["extra"] or b""):
        if not isinstance(state, bytes | bytearray | memoryview):
            raise BadMessage("its state is not bytes")
        if len(state) > most_bytes:
            raise BadMessage(f"its state has {len(state)} bytes; a model of this run has at most {most_bytes}")
    if not isinstance(site, str) or not isinstance(t, int):
        raise BadMessage("its answer does not name its site and round")
    extra = None if content["extra"] is None else bytes(content["extra"])
    return Answer(site, t, bytes(content["state"]), extra, read_numbers(content["numbers"], classes))


def read_numbers(numbers: object, classes: tuple[str, ...]) -> dict[str, float]:
    allowed = NUMBERS | {f"films:{label}" for label in classes}
    if not isinstance(numbers, dict) or not numbers.keys() <= allowed or not {"films", "loss"} <= numbers.keys():
        raise BadMessage("its numbers are not the agreed ones")
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadMessage(f"its {name} is not a number")
        if isinstance(value, int) and abs(value) >= 10**9:  # nor need it fit into a float
            raise BadMessage(f"its {name} is too large")
        if name.startswith("films") and (not isinstance(value, int) or value < 0):
            raise BadMessage(f"its {name} is not a count")
        if name in ("seconds", "epsilon") and not (math.isfinite(value) and value >= 0):
            raise BadMessage(f"its {name} cannot be {value}")
    if numbers["films"] == 0:
        raise BadMessage("it trained on no films")
    by_class = [value for name, value in numbers.items() if name.startswith("films:")]
    if by_class and sum(by_class) != numbers["films"]:  # its weight is by the one, what is reported of it by the others
        raise BadMessage("its films are not the sum of its films by class")
    return dict(numbers)
