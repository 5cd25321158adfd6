"""The data of a federation in three parts: what all agree on (the plan), the coordinator's and each site's."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from torch import nn

from fedpdc_med.common.errors import UserError
from fedpdc_med.federation.images import Films
from fedpdc_med.federation.privacy import check_hides_all, epsilon_of
from fedpdc_med.federation.protocol import seed_for
from fedpdc_med.methods import method_of
from fedpdc_med.models import build_model
from fedpdc_med.runs.plan import LocalSettings, Plan, Privacy

NO_SITE = UserError("there is no site to train at; add at least one participating site")


@dataclass(frozen=True)
class SiteData:
    """One site: its training films (`indices` None: all of `films`, which sites may share), and how it trains."""

    name: str
    films: Films
    indices: np.ndarray | None
    settings: LocalSettings
    privacy: Privacy | None = None
    secret: bytes = b""  # the site's own, for the noise of its privacy
    releases: Path | None = None  # where a hospital counts the updates it sent; in a simulation its rounds are counted

    def __len__(self) -> int:
        return len(self.films) if self.indices is None else len(self.indices)

    def check(self, plan: Plan) -> None:
        if not len(self):
            raise UserError(f"site {self.name!r} has no images; use fewer sites or a larger beta, or add films")
        if self.privacy:
            epsilon_of(self.privacy, 1)  # is its accountant installed?
            check_hides_all(self.name, method_of(plan.method))


@dataclass(frozen=True)
class EvaluationSet:
    """Films to predict, with a row about each (film, split, site, patient, ...) for predictions.parquet."""

    films: Films
    about: pd.DataFrame


@dataclass(frozen=True)
class CoordinatorData:
    sites: tuple[str, ...]  # names, in the order they are sampled from
    weighting: Films  # scores local models
    correction: Films | None  # trained on, at the sites or here, if the method does
    settings: LocalSettings  # how the coordinator trains, if the method requires it
    evaluation: dict[str, EvaluationSet]  # predicted at the end, in this order
    reported: str  # the set whose accuracy and recall are recorded in rounds.jsonl

    def films_of(self, name: str) -> Films:
        """The films behind a name: `weighting`, or an evaluation set."""
        return self.weighting if name == "weighting" else self.evaluation[name].films

    def check(self, plan: Plan) -> None:
        if not self.sites:
            raise NO_SITE
        initial_model(plan)  # an unknown model or too small an image
        if not len(self.weighting):
            raise UserError("the public reference set has no `weighting` films; add at least one per class")
        if method_of(plan.method).parts().public.used and not (self.correction and len(self.correction)):
            raise UserError(
                f"method {plan.method.name!r} with these settings trains on the `correction` split of the public "
                "reference set, which is empty; enlarge the set or choose another method or correction"
            )


@dataclass(frozen=True)
class LocalFederation:
    """All three parts on one machine."""

    plan: Plan
    coordinator: CoordinatorData
    sites: dict[str, SiteData]

    def check(self) -> None:
        """Raise a UserError for anything that would otherwise fail in the middle of a run."""
        for site in self.sites.values():
            site.check(self.plan)
        self.coordinator.check(self.plan)


def usual_settings(settings: Iterable[LocalSettings]) -> LocalSettings:
    """The most common settings (the first at a tie), for training that is not done by a site."""
    counts = Counter(settings).most_common(1)
    if not counts:
        raise NO_SITE
    return counts[0][0]


def initial_model(plan: Plan) -> nn.Module:
    return build_model(plan.network, seed_for(plan.seed, "model"))
