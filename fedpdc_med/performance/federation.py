"""The overhead of FLARE: seconds per round beyond training, compared with the local engine on the same sites."""

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from fedpdc_med.engines.flare.coordinator_run import new_name
from fedpdc_med.engines.flare.jobs import Pace
from fedpdc_med.engines.flare.parties import Parties
from fedpdc_med.engines.flare.trial import Trial, scratch, trial_sites
from fedpdc_med.engines.local import ProcessEngine
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.federation.data import LocalFederation
from fedpdc_med.federation.protocol import Assignment, Failure, Update
from fedpdc_med.hospitals.build import local_federation, plan_for
from fedpdc_med.methods import FedAvg
from fedpdc_med.runs.directory import Run, scratch_run
from fedpdc_med.simulation.phantoms import open_films


@dataclass(frozen=True)
class RoundTime:
    engine: str
    round: float
    training: float

    @property
    def beyond(self) -> float:
        return self.round - self.training


class TimedEngine(ProcessEngine):
    """The local engine, which also records how long its sites trained."""

    def __init__(self, federation: LocalFederation, workers: int) -> None:
        super().__init__(federation, workers)
        self.training: list[float] = []

    def train(self, assignments: Sequence[Assignment], answers: Path) -> Iterator[Update | Failure]:
        started = time.perf_counter()
        yield from super().train(assignments, answers)
        self.training.append(time.perf_counter() - started)


def measure(rounds: int, model: str, workers: int) -> list[RoundTime]:
    sites = trial_sites(None)
    sources = open_films(sites, None, 0, workers)
    plan = plan_for(FedAvg(), sources.reference, rounds=rounds, model=model)
    with scratch() as place, Parties() as parties:
        trial = Trial(place, sites, sources)
        run = trial.begin(place / "timed", plan.model_copy(update={"run": new_name()}), overwrite=False)
        trial.start(parties)
        trial.run(run, Pace(rounds_per_job=rounds, min_sites=len(sites)), quiet)
        lines = (run.folder / "timing.jsonl").read_text(encoding="utf-8").splitlines()
        over_flare = [json.loads(line) for line in lines][1:]
    return [
        local(local_federation(sites, sources, plan), workers=len(sites)),
        summed("FLARE", [one["seconds"] for one in over_flare], [one["training"] for one in over_flare]),
    ]


def local(federation: LocalFederation, workers: int) -> RoundTime:
    """As many workers as sites, because over FLARE each site has a process of its own."""
    engine = TimedEngine(federation, workers)
    with tempfile.TemporaryDirectory() as folder:
        run = scratch_run(Path(folder) / "local")
        coordinator = Coordinator(federation.plan, federation.coordinator, engine, run)
        try:
            seconds = [coordinator.run_round().seconds for _ in range(federation.plan.rounds)]
        finally:
            engine.close()
    return summed("this machine", seconds[1:], engine.training[1:])


def summed(engine: str, seconds: list[float], training: list[float]) -> RoundTime:
    beyond = median(np.subtract(seconds, training).tolist())
    return RoundTime(engine, median(seconds), median(seconds) - beyond)


def quiet(run: Run) -> None: ...
