"""A hospital's end: its module, its films, what it keeps between rounds, and one round of training."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedpdc_med import __version__
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import home, site_store
from fedpdc_med.engines.flare.messages import ASSIGNED, BadMessage, Refused, packed, unpacked, unpacked_films
from fedpdc_med.engines.worker import Workbench
from fedpdc_med.federation.checkpoint import replace_model
from fedpdc_med.federation.data import Federation, SiteFilms
from fedpdc_med.federation.images import Films
from fedpdc_med.federation.protocol import Assignment
from fedpdc_med.hospitals.build import check_processing, films_of, privacy_of, rows_of
from fedpdc_med.hospitals.site import HospitalSite, load_site
from fedpdc_med.imaging.store import FilmStore, read_store
from fedpdc_med.methods import method_of
from fedpdc_med.methods.aggregation import problem_with
from fedpdc_med.methods.server import State
from fedpdc_med.models import build_model
from fedpdc_med.runs.plan import PROTOCOL, Plan


def load_hospital(kit: Path, name: str) -> tuple[HospitalSite, FilmStore]:
    """The hospital's own module (local/hospital.py of its kit) and the film store that it names."""
    file = kit / "local" / "hospital.py"
    if not file.is_file():
        raise UserError("the kit has no local/hospital.py; put the hospital's own sites/ module there")
    site = load_site(file)
    if site.name != name:
        raise UserError(f"local/hospital.py is of site {site.name!r}, the kit of {name!r}")
    if not isinstance(site.films, str):
        raise UserError("local/hospital.py must name a film store; ingest the hospital's films first")
    return site, read_store(Path(site.films) if "/" in site.films else site_store(site.films))


def open_hospital(described: dict[str, Any], kit: Path, name: str) -> "Hospital":
    """This site for a job with that plan; raises Refused where the two do not go together."""
    plan = checked_plan(described)
    with refusing("site-file"):
        site, store = load_hospital(kit, name)
    return Hospital(plan, site, store)


def checked_plan(described: dict[str, Any]) -> Plan:
    """Protocol and version come first: nothing else in a plan of other ones need be as it is here."""
    if described.get("protocol") != PROTOCOL:
        raise Refused("protocol", f"the plan is of protocol {described.get('protocol')!r}, this is {PROTOCOL}")
    if compatible(str(described.get("package"))) != compatible(__version__):
        raise Refused("version", f"the plan was made by fedpdc_med {described.get('package')}, this is {__version__}")
    return Plan(**described)


def compatible(package: str) -> list[str]:
    """Of a version, what must be equal at all parties: a consortium need not stop at every bug fix."""
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
        with refusing("no-films"):
            rows = rows_of(self.site.name, self.store, "train", self.plan.classes)
        self.films = films_of(self.store, rows, self.plan.classes)
        if not len(self.films):
            raise Refused("no-films", f"site {self.site.name!r} has no film to train on")
        self.expected: State = build_model(self.plan.network, seed=0).state_dict()
        self.bench = Workbench(self._federation(), "cuda" if torch.cuda.is_available() else "cpu")
        self.folder = home() / "federation" / self.site.name / self.plan.run
        self.folder.mkdir(parents=True, exist_ok=True)

    def _federation(self) -> Federation:
        """This site's part of the federation: its own films, and no reference but what it is sent."""
        none = Films.of(np.zeros((0, 1, self.plan.network.size, self.plan.network.size), np.uint8), np.zeros(0))
        sent = home() / "federation" / self.site.name / "releases.jsonl"  # of all runs
        settings, prepared = self.site.settings, self.plan.preparation
        mine = SiteFilms(0, None, len(self.films), settings, prepared, *privacy_of(self.site), sent)
        return Federation(
            method=method_of(self.plan.method),
            network=self.plan.network,
            classes=self.plan.classes,
            preparation=self.plan.preparation,
            pools=[self.films],
            sites={self.site.name: mine},
            weighting=none,
            correction=None,
            reported={},
            judge="",
            rounds=1,
            tau=1.0,
            seed=self.plan.seed,
        )

    def train(self, message: dict[str, Any]) -> dict[str, Any]:
        """One round: from the coordinator's assignment to what this site returns."""
        started = time.perf_counter()
        if message.keys() != ASSIGNED:
            raise BadMessage("the assignment has other entries than agreed")
        t, own_round, score = int(message["round"]), int(message["own_round"]), float(message["score"])
        state = unpacked(message["model"])
        problem = problem_with(state, self.expected)
        if problem:
            raise BadMessage(f"the global model cannot be used: {problem}")
        if message["correction"] is not None:
            self._keep_correction(unpacked_films(message["correction"]))
        start = self.folder / "received.safetensors"
        replace_model(start, state)
        own = self._own(own_round)
        answer = self._model_of(t).with_suffix(".partial")
        update = self.bench.train(Assignment(self.site.name, t, score, start, own), answer)
        answer.replace(self._model_of(t))
        self._forget_but(t, own_round)
        numbers = {"films": update.films, "loss": update.loss, **self._counts()}
        trained = unpacked(self._model_of(t).read_bytes())
        if update.epsilon is not None:
            numbers["epsilon"] = update.epsilon
        numbers["seconds"] = round(time.perf_counter() - started, 3)
        return {"site": self.site.name, "round": t, "state": packed(trained), "numbers": numbers}

    def _keep_correction(self, films: Films) -> None:
        shape, labels = films.images.shape, films.labels
        fits = films.images.dtype == torch.uint8 and shape[1:] == (1, self.plan.network.size, self.plan.network.size)
        if not fits or len(labels) != shape[0] or not len(labels) or int(labels.max()) >= len(self.plan.classes):
            raise BadMessage("the `correction` films do not fit this run")
        self.bench.federation = replace(self.bench.federation, correction=films)

    def _counts(self) -> dict[str, int]:
        counts = torch.bincount(self.films.labels, minlength=len(self.plan.classes)).tolist()
        return {f"films:{label}": count for label, count in zip(self.plan.classes, counts, strict=True)}

    def _model_of(self, t: int) -> Path:
        return self.folder / f"round{t}.safetensors"

    def _own(self, t: int) -> Path | None:
        """This site's model of round t, kept on its own disk; None where the method or the coordinator wants none."""
        if not t or self.bench.parts.keeps == "nothing":
            return None
        return self._model_of(t) if self._model_of(t).is_file() else None

    def _forget_but(self, *rounds: int) -> None:
        """Two rounds are kept: a round that the coordinator must repeat starts from the same model again."""
        keep = {self._model_of(t) for t in rounds}
        for file in self.folder.glob("round*"):
            if file not in keep:
                file.unlink()
