"""A federation: everything that a run's rounds need, built by experiments or from hospital sites."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from torch import nn

from fedpdc_med.common.errors import UserError
from fedpdc_med.federation.images import Films
from fedpdc_med.federation.privacy import check_hides_all, epsilon_of
from fedpdc_med.federation.protocol import seed_for
from fedpdc_med.methods import Method
from fedpdc_med.models import build_model
from fedpdc_med.runs.plan import LocalSettings, Network, Preparation, Privacy


@dataclass(frozen=True)
class SiteFilms:
    """A site's training films: some of the films of a pool that sites may share (indices None: all of them)."""

    pool: int
    indices: np.ndarray | None
    count: int
    settings: LocalSettings
    preparation: Preparation
    privacy: Privacy | None = None
    secret: bytes = b""  # the site's own, for the noise of its privacy
    releases: Path | None = None  # where a hospital counts what it sent; in a simulation its rounds are counted


@dataclass(frozen=True)
class EvaluationSet:
    """Films to predict, with a row about each (film, split, site, patient, ...) for predictions.parquet."""

    films: Films
    about: pd.DataFrame


@dataclass(frozen=True)
class Federation:
    method: Method
    network: Network
    classes: tuple[str, ...]
    preparation: Preparation  # of evaluation; a site's own says how it augments
    pools: list[Films]
    sites: dict[str, SiteFilms]
    weighting: Films  # scores local models
    correction: Films | None  # trained on, at the sites or the coordinator, if the method does
    reported: dict[str, EvaluationSet]  # predicted at the end
    judge: str  # the reported set whose accuracy and recall stand in rounds.jsonl
    rounds: int
    tau: float
    seed: int

    def check(self) -> None:
        """Raise a UserError for what would otherwise fail in the middle of a run."""
        if not 0 < self.tau <= 1:
            raise UserError(f"tau = {self.tau}: the share of sites sampled in a round must be above 0 and at most 1")
        if self.rounds < 1:
            raise UserError(f"rounds = {self.rounds}: a run needs at least one round")
        for name, site in self.sites.items():
            if site.count == 0:
                raise UserError(f"site {name!r} has no images; use fewer sites, a larger beta, or give it films")
            if site.privacy:
                epsilon_of(site.privacy, 1)  # is its accountant installed?
                check_hides_all(name, self.method)
        if not self.sites:
            raise UserError("there is no site to train at; add at least one")
        self.initial_model()  # an unknown model or too small an image
        if not len(self.weighting):
            raise UserError("the reference has no `weighting` films; give it at least one a class")
        if self.method.parts().public.used and not (self.correction and len(self.correction)):
            raise UserError(
                f"method {self.method.name!r} with these settings trains on the reference's `correction` "
                "split, which is empty; enlarge the reference or choose another method or correction"
            )

    def films_of(self, name: str) -> Films:
        """The films behind a name: `weighting`, or a reported set."""
        return self.weighting if name == "weighting" else self.reported[name].films

    def initial_model(self) -> nn.Module:
        return build_model(self.network, seed_for(self.seed, "model"))
