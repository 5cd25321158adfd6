"""`fedpdc federation try`: a complete federation on this machine, with certificates, processes and synthetic films."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.paths import shipped
from fedpdc_med.engines.flare.coordinator_run import start_run
from fedpdc_med.engines.flare.jobs import Pace, run_jobs
from fedpdc_med.engines.flare.parties import Parties, ended_by_signals, free_port, listens
from fedpdc_med.engines.flare.project import COORDINATOR_KIT, Administrator, HospitalParty, Project
from fedpdc_med.engines.flare.provision import provision
from fedpdc_med.hospitals.build import FilmSources, training_counts
from fedpdc_med.hospitals.site import HospitalSite, load_sites
from fedpdc_med.runs.directory import Run, read_run
from fedpdc_med.runs.label_distribution import label_distribution
from fedpdc_med.runs.plan import Plan

DEFAULT_SITES = ("harbor-general", "lakeside-covid-centre", "university-hospital")
LEAD = "lead@example.org"
MODULE = '''"""A hospital of a federation on one machine."""

from fedpdc_med.hospitals import HospitalSite, LocalSettings

SITE = HospitalSite(
    name={name!r}, title={title!r}, films={name!r}, settings=LocalSettings(**{settings!r}), privacy={privacy!r}
)
'''


def trial_sites(folder: Path | None) -> list[HospitalSite]:
    """The participating sites of a folder, or three of the bundled sites."""
    found = [site for site in load_sites(folder or shipped("sites")) if site.takes_part]
    chosen = found if folder else [site for site in found if site.name in DEFAULT_SITES]
    if not chosen:
        raise UserError("no site file in this folder has takes_part = True; add a participating site")
    return chosen


class Trial:
    """Folders as on separate machines: each party has its own kit and data folder, and sees nobody else's."""

    def __init__(self, folder: Path, sites: list[HospitalSite], sources: FilmSources) -> None:
        self.folder, self.sites, self.sources = folder, sites, sources
        self.project = Project(
            name="trial",
            coordinator="localhost",
            port=free_port(),
            classes=sources.reference.classes,
            hospital=[HospitalParty(name=site.name, title=site.title) for site in sites],
            administrator=[Administrator(name=LEAD), Administrator(name="member@example.org", role="member")],
        )
        self.kits = folder / "kits"
        self.admin_kit = self.kits / LEAD
        provision(self.project, self.kits)
        for site in sites:
            self._settle(site)
        shutil.copytree(sources.reference.store.folder, self.data(COORDINATOR_KIT) / "reference")
        (self.data(COORDINATOR_KIT) / "runs").mkdir()

    def data(self, party: str) -> Path:
        return self.folder / "data" / party

    def _settle(self, site: HospitalSite) -> None:
        """What a hospital does itself: put its film store into its data folder and its site file into its kit."""
        shutil.copytree(self.sources.stores[site.name].folder, self.data(site.name) / "sites" / site.name)
        hidden = site.privacy.model_dump() if site.privacy else None
        text = MODULE.format(name=site.name, title=site.title, settings=site.settings.model_dump(), privacy=hidden)
        (self.kits / site.name / "local" / "hospital.py").write_text(text, encoding="utf-8")

    def start(self, parties: Parties) -> None:
        """The coordinator first: a hospital that cannot connect waits ten seconds before it tries again."""
        self.start_one(parties, COORDINATOR_KIT)
        while not listens(self.project.port):
            parties.check()
            time.sleep(0.2)
        for site in self.sites:
            self.start_one(parties, site.name)

    def start_one(self, parties: Parties, party: str, **environment: str) -> None:
        """One thread each, like the local engine's workers: bit-identical results, and no competition for cores."""
        with (self.kits / party / "console.txt").open("ab") as console:
            parties.start(self.kits / party, self.data(party), console, OMP_NUM_THREADS="1", **environment)

    def begin(self, out: Path, plan: Plan, overwrite: bool) -> Run:
        """A new run in the folder `out`, which the coordinator finds among its runs."""
        run = start_run(out, plan, self.project.sites, self.sources.reference, overwrite)
        link = self.data(COORDINATOR_KIT) / "runs" / out.name
        link.symlink_to(out.resolve())
        return run

    def run(self, run: Run, pace: Pace, on_round: Callable[[Run], None]) -> None:
        """Run jobs until all rounds are complete."""
        known = Run(self.data(COORDINATOR_KIT) / "runs" / run.folder.name)
        run_jobs(self.admin_kit, run.plan, known, list(self.project.sites), pace, on_round)
        draw_skew(run.folder)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder, which is deleted even if this process is told to end."""
    with ended_by_signals(), tempfile.TemporaryDirectory(prefix="fedpdc-try-") as folder:
        yield Path(folder)


def draw_skew(folder: Path) -> None:
    """Draw the label distribution that the sites reported in their answers."""
    run = read_run(folder)
    counts = training_counts(run.sites, run.classes)
    label_distribution(counts.to_numpy(), list(counts.index), run.classes, folder / "label_distribution.png")
