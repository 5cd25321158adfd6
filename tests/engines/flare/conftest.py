"""One real federation for all tests here: kits, certificates, a coordinator and three hospitals as processes."""

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedpdc_med.engines.flare.coordinator_run import new_name
from fedpdc_med.engines.flare.jobs import Pace, connected, session
from fedpdc_med.engines.flare.parties import Parties, listens
from fedpdc_med.engines.flare.trial import Trial
from fedpdc_med.engines.local import DeviceEngine
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.hospitals import HospitalSite, Phantoms
from fedpdc_med.hospitals.build import FilmSources, local_federation, plan_for
from fedpdc_med.imaging.ingest.labels import read_labels
from fedpdc_med.imaging.phantoms.films import write_films
from fedpdc_med.imaging.phantoms.scanners import Scanner
from fedpdc_med.imaging.reference import build_reference
from fedpdc_med.methods import make_method
from fedpdc_med.runs.directory import Run, scratch_run
from fedpdc_med.runs.plan import LocalSettings
from fedpdc_med.simulation.phantoms import finish, phantom_folder, read_recipe, store_of

HERE = Path(__file__).parent
CLASSES = ("normal", "pneumonia", "covid-19")
MIXES = {"north": (9, 4, 2), "south": (2, 3, 10), "west": (4, 8, 3)}
LONG = 300.0  # seconds; the machine may be busy


def made_sites():
    settings = LocalSettings(epochs=1, batch_size=4, learning_rate=0.03)
    return [
        HospitalSite(name=name, films=Phantoms(case_mix=dict(zip(CLASSES, mix, strict=True))), settings=settings)
        for name, mix in MIXES.items()
    ]


@pytest.fixture(scope="package")
def sources(tmp_path_factory):
    """Fifteen phantom films a hospital and twelve of each class in the reference, 48 pixels wide."""
    place = tmp_path_factory.mktemp("films")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDPDC_HOME", str(place))
        patch.setattr("fedpdc_med.simulation.phantoms.PHANTOM_SIZE", 48)
        table = write_films(place / "dicom", Scanner(), dict.fromkeys(CLASSES, 12), 1)
        how = {"labels": read_labels(table), "labels_file": table, "size": 48, "processes": 1}
        about = {"provenance": "phantom", "licence": "none", "version": "1", "per_class": None}
        reference = build_reference(place / "dicom", place / "reference", **about, **how)
        found = FilmSources({site.name: store_of(site, 0, 1) for site in made_sites()}, reference)
        # As if the default recipe had made it: commands with this data folder draw no phantoms of their own.
        shutil.copytree(place / "reference", phantom_folder(0, "reference") / "store")
        finish(phantom_folder(0, "reference"), Phantoms(**read_recipe()["phantoms"]))
        return found


def with_code(folder):
    """The search path of one site that finds test code too."""
    return os.pathsep.join([str(HERE / "at_one_site" / folder), os.environ.get("PYTHONPATH", "")])


def on_this_machine(sites, sources, plan, out) -> Run:
    """As `fedpdc simulate` does it, in this process."""
    federation = local_federation(sites, sources, plan)
    coordinator = Coordinator(plan, federation.coordinator, DeviceEngine(federation, "cpu"), scratch_run(out))
    for _ in range(plan.rounds):
        coordinator.run_round()
    coordinator.finish()
    return coordinator.run


@pytest.fixture(scope="session")
def undisturbed():
    return on_this_machine


@dataclass
class Running:
    trial: Trial
    parties: Parties
    place: Path

    def begin(self, out, method="fedavg", rounds=2, settings=None):
        return self.trial.begin(out, self.plan(method, rounds, settings), overwrite=False)

    def plan(self, method, rounds, settings):
        made = make_method(method, **(settings or {}))
        return plan_for(made, self.trial.sources.reference, rounds=rounds, model="cnn", run=new_name())

    def run(self, run, on_round=lambda run: None, **pace) -> Run:
        self.trial.run(
            run, Pace(**{"rounds_per_job": 5, "deadline": LONG, "min_sites": 3, "wait": LONG} | pace), on_round
        )
        return run

    def undisturbed(self, out, method="fedavg", rounds=2, settings=None) -> Run:
        """The same run on this machine's own engine, as `fedpdc simulate` does it."""
        return on_this_machine(self.trial.sites, self.trial.sources, self.plan(method, rounds, settings), out)

    def order(self, orders):
        """What the hospital `west` does wrong, by round."""
        (self.place / "orders.busy").unlink(missing_ok=True)
        (self.place / "orders").write_text(json.dumps(orders), encoding="utf-8")

    @property
    def in_mid_round(self):
        """Whether `west` sits over a round that it was told to be slow in."""
        return (self.place / "orders.busy").exists()

    def start(self, party, dishonest=False):
        """`south` and, on demand, the coordinator run software of their own making."""
        extra = {}
        if dishonest or party == "south":
            extra = {"PYTHONPATH": with_code("dishonest"), "DISHONEST": str(self.place / f"asked-by-{party}")}
        if party == "north":
            extra = {"PYTHONPATH": with_code("capture"), "CAPTURE": str(self.place / "sent")}
        if party == "west":
            extra = {"PYTHONPATH": with_code("misbehaving"), "MISBEHAVE": str(self.place / "orders")}
        self.trial.start_one(self.parties, party, **extra)

    def wait_listening(self):
        until = time.monotonic() + LONG
        while not listens(self.trial.project.port):
            assert time.monotonic() < until, "the coordinator does not listen"
            time.sleep(0.2)

    def wait_connected(self, count=3):
        self.wait_listening()
        until = time.monotonic() + LONG
        while time.monotonic() < until:
            with session(self.trial.admin_kit) as opened:
                if len(connected(opened)) >= count:
                    return
            time.sleep(1)
        raise AssertionError(f"no {count} hospitals are connected")


@pytest.fixture(scope="package")
def federation(sources, tmp_path_factory):
    place = tmp_path_factory.mktemp("federation")
    trial = Trial(place, made_sites(), sources)
    with Parties() as parties:
        running = Running(trial, parties, place)
        running.start("coordinator")
        running.wait_listening()
        for name in MIXES:
            running.start(name)
        yield running
