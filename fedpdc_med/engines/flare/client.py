"""The hospital's side: its site file, its films, what it keeps between rounds, and one round of training."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedpdc_med import __version__
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import home, site_store
from fedpdc_med.engines.flare.messages import ASSIGNED, BadMessage, Refused, packed, unpacked, unpacked_films
from fedpdc_med.engines.flare.policy import states_of
from fedpdc_med.engines.worker import AtSites, Bench, this_device
from fedpdc_med.federation.checkpoint import replace_model
from fedpdc_med.federation.images import Films
from fedpdc_med.federation.protocol import Assignment, kept_file
from fedpdc_med.hospitals.build import check_processing, site_data
from fedpdc_med.hospitals.site import HospitalSite, load_site
from fedpdc_med.imaging.store import FilmStore, read_store
from fedpdc_med.methods.aggregation import problem_with
from fedpdc_med.methods.server import State
from fedpdc_med.runs.plan import PROTOCOL, Plan


def load_hospital(kit: Path, name: str) -> tuple[HospitalSite, FilmStore]:
    """The hospital's site file (local/hospital.py in its kit) and the film store that it names."""
    file = kit / "local" / "hospital.py"
    if not file.is_file():
        raise UserError("the kit has no local/hospital.py; put the hospital's site file there")
    site = load_site(file)
    if site.name != name:
        raise UserError(f"local/hospital.py defines site {site.name!r}, but this kit belongs to {name!r}")
    if not isinstance(site.films, str):
        raise UserError("local/hospital.py must name a film store; ingest the hospital's films first")
    return site, read_store(Path(site.films) if "/" in site.films else site_store(site.films))


def open_hospital(described: dict[str, Any], kit: Path, name: str) -> "Hospital":
    """This site, for a job with that plan; raises Refused if the two are incompatible."""
    plan = checked_plan(described)
    with refusing("site-file"):
        site, store = load_hospital(kit, name)
    return Hospital(plan, site, store)


def checked_plan(described: dict[str, Any]) -> Plan:
    """Protocol and version are checked first, because a plan of other ones may differ in everything else."""
    if described.get("protocol") != PROTOCOL:
        raise Refused("protocol", f"the plan uses protocol {described.get('protocol')!r}, this site uses {PROTOCOL}")
    if compatible(str(described.get("package"))) != compatible(__version__):
        raise Refused("version", f"the plan is of fedpdc_med {described.get('package')}, this site has {__version__}")
    return Plan(**described)


def compatible(package: str) -> list[str]:
    """The part of a version that must be the same at all parties: bug-fix releases need not be."""
    return package.split(".")[:2]


@contextlib.contextmanager
def refusing(word: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise Refused(word, str(error)) from error


@dataclass
class Hospital:
    """One site during one job."""

    plan: Plan
    site: HospitalSite
    store: FilmStore

    def __post_init__(self) -> None:
        with refusing("processing"):
            check_processing(self.site.name, self.store, self.plan.film_processing)
        place = home() / "federation" / self.site.name
        with refusing("no-films"):
            self.data = site_data(self.site, self.store, self.plan, releases=place / "releases.jsonl")  # over all runs
        if not len(self.data):
            raise Refused("no-films", f"site {self.site.name!r} has no training films")
        with refusing("privacy"):
            self.data.check(self.plan)
        self.work = AtSites(Bench(self.plan, this_device()))
        self.model, self.trained = states_of(self.plan)
        self.correction: Films | None = None
        self.folder = place / self.plan.run
        self.folder.mkdir(parents=True, exist_ok=True)

    def train(self, message: dict[str, Any]) -> dict[str, Any]:
        """One round: from the coordinator's assignment to what this site returns."""
        started = time.perf_counter()
        if message.keys() != ASSIGNED:
            raise BadMessage("the assignment does not have the agreed entries")
        t, own_round, score = int(message["round"]), int(message["own_round"]), float(message["score"])
        start = self._received("model", message["model"], self.model)
        memory = self._received("memory", message["memory"], self.trained) if message["memory"] is not None else None
        if message["correction"] is not None:
            self._keep_correction(unpacked_films(message["correction"]))
        answer = self._model_of(t).with_suffix(".partial")
        assignment = Assignment(self.site.name, t, score, start, self._own(own_round), memory)
        update = self.work.train(self.data, assignment, answer, self.correction)
        answer.replace(self._model_of(t))
        self._forget_but(t, own_round)
        numbers = {"films": update.films, "loss": update.loss, **self._counts()}
        if update.epsilon is not None:
            numbers["epsilon"] = update.epsilon
        content = {
            "site": self.site.name,
            "round": t,
            "state": packed(unpacked(self._model_of(t).read_bytes())),
            "extra": update.extra.read_bytes() if update.extra else None,
        }
        numbers["seconds"] = round(time.perf_counter() - started, 3)
        return {**content, "numbers": numbers}

    def _received(self, what: str, data: object, expected: State) -> Path:
        """A received state, checked and saved as a file."""
        state = unpacked(data)
        problem = problem_with(state, expected)
        if problem:
            raise BadMessage(f"the global {what} cannot be used: {problem}")
        file = self.folder / f"received-{what}.safetensors"
        replace_model(file, state)
        return file

    def _keep_correction(self, films: Films) -> None:
        shape, labels = films.images.shape, films.labels
        fits = films.images.dtype == torch.uint8 and shape[1:] == (1, self.plan.network.size, self.plan.network.size)
        if not fits or len(labels) != shape[0] or not len(labels) or int(labels.max()) >= len(self.plan.classes):
            raise BadMessage("the `correction` films do not match this run")
        self.correction = films

    def _counts(self) -> dict[str, int]:
        counts = torch.bincount(self.data.films.labels, minlength=len(self.plan.classes)).tolist()
        return {f"films:{label}": count for label, count in zip(self.plan.classes, counts, strict=True)}

    def _model_of(self, t: int) -> Path:
        return self.folder / f"round{t}.safetensors"

    def _own(self, t: int) -> Path | None:
        """What this site kept of round t on its own disk; None if the method or the coordinator needs nothing."""
        if not t or self.work.parts.keeps == "nothing":
            return None
        kept = self._model_of(t) if self.work.parts.keeps == "model" else kept_file(self._model_of(t))
        return kept if kept.is_file() else None

    def _forget_but(self, *rounds: int) -> None:
        """Two rounds are kept, so that a round that the coordinator must repeat starts from the same model again."""
        for file in self.folder.glob("round*"):
            if not file.name.startswith(tuple(f"round{t}." for t in rounds)):
                file.unlink()
