"""The state of one process: a network on its device, for sites, for the coordinator, or for all of them in turn."""

from collections import Counter
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fedpdc_med.federation.data import CoordinatorData, SiteData
from fedpdc_med.federation.images import Films, TrainingFilms
from fedpdc_med.federation.local_training import frozen_copy, train_locally
from fedpdc_med.federation.pooled import joined, selected
from fedpdc_med.federation.privacy import Releases, check_limit, epsilon_of, noise_of, private, release_of
from fedpdc_med.federation.protocol import Assignment, Update, extra_file, kept_file, seed_for
from fedpdc_med.methods import method_of
from fedpdc_med.methods.parts import Parts
from fedpdc_med.methods.server import State
from fedpdc_med.models import build_model
from fedpdc_med.models.inference import normalise, predict
from fedpdc_med.runs.plan import Plan


def this_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


class Bench:
    """One network on one device, and the films copied to it."""

    def __init__(self, plan: Plan, device: str = "cpu") -> None:
        self.plan, self.device = plan, device
        self.model: nn.Module = build_model(plan.network, seed=0).to(device).to(memory_format=torch.channels_last)
        self._films: dict[int, Films] = {}

    def load(self, file: Path) -> nn.Module:
        self.model.load_state_dict(load_file(file))
        return self.model

    def state(self, file: Path | None) -> State | None:
        return load_file(file, self.device) if file else None

    def save(self, file: Path) -> None:
        save(self.model.state_dict(), file)

    def here(self, films: Films) -> Films:
        if self.device == "cpu":
            return films
        if id(films) not in self._films:
            self._films[id(films)] = Films(films.images.to(self.device), films.labels.to(self.device))
        return self._films[id(films)]

    def seed_for(self, *what: object) -> int:
        return seed_for(self.plan.seed, *what)


class AtSites:
    """Training."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.plan = bench, bench.plan
        self.parts = method_of(bench.plan.method).parts()

    def train(self, site: SiteData, assignment: Assignment, answer: Path, correction: Films | None = None) -> Update:
        """Train one site from the assignment's model and leave its state in the file `answer`."""
        bench, parts = self.bench, self.parts
        epsilon = epsilon_with(site, assignment.round) if site.privacy else None
        previous = None
        if assignment.kept is not None and parts.keeps == "model" and parts.trains != "alone":
            previous = frozen_copy(bench.load(assignment.kept))
        pool, indices, public = bench.here(site.films), site.indices, None
        if parts.public.at_sites != "no" and correction is not None:
            shared = bench.here(correction)
            if parts.public.at_sites == "joined":
                pool, indices = joined(selected(pool, indices), *[shared] * parts.public.copies), None
            else:
                public = TrainingFilms(shared, None, self.plan.preparation)
        trained = train_locally(
            bench.load(assignment.model),
            TrainingFilms(pool, indices, self.plan.preparation),
            parts,
            site.settings,
            round=assignment.round,
            rounds=self.plan.rounds,
            score=assignment.score,
            seed=bench.seed_for("train", assignment.round, assignment.site),
            public=public,
            previous_model=previous,
            kept=bench.state(assignment.kept) if parts.site_state else None,
            broadcast=bench.state(assignment.broadcast),
        )
        if site.privacy:
            self._make_private(site, assignment)
        bench.save(answer)
        extra = None
        if trained.kept is not None and trained.extra is not None:
            extra = extra_file(answer)
            save(trained.kept, kept_file(answer))
            save(trained.extra, extra)
        return Update(assignment.site, answer, len(site), trained.loss, epsilon, extra)

    def _make_private(self, site: SiteData, assignment: Assignment) -> None:
        """Clip the update and add noise to it, and record that it is sent."""
        assert site.privacy is not None
        model, received = self.bench.model, load_file(assignment.model)
        trained = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
        release = release_of(site.secret, trained, received, site.privacy, assignment.round)
        model.load_state_dict(private(trained, received, site.privacy, noise_of(release)))
        if site.releases:
            Releases(site.releases).add(release, site.privacy.noise)


class AtCoordinator:
    """Predictions, and what a method computes with the public films."""

    def __init__(self, bench: Bench, data: CoordinatorData) -> None:
        self.bench, self.data = bench, data

    @property
    def device(self) -> str:
        return self.bench.device

    @property
    def model(self) -> nn.Module:
        return self.bench.model

    def predict(self, model: Path, name: str, start: int, stop: int) -> np.ndarray:
        films = self.bench.here(self.data.films_of(name))
        return predict(self.bench.load(model), films.images, self.bench.plan.preparation, start, stop)

    def weighting_films(self) -> tuple[Tensor, Tensor]:
        films = self.bench.here(self.data.weighting)
        return normalise(films.images, self.bench.plan.preparation), films.labels

    def train_on_correction(self, start: Path, answer: Path, epochs: int, learning_rate: float, seed: int) -> None:
        """Plain cross-entropy on the `correction` split, in batches like those of most sites."""
        assert self.data.correction is not None, "check() has seen to it"
        train_locally(
            self.bench.load(start),
            TrainingFilms(self.bench.here(self.data.correction), None, self.bench.plan.preparation),
            Parts(),
            self.data.settings.model_copy(update={"epochs": epochs, "learning_rate": learning_rate}),
            round=1,
            rounds=1,
            score=1.0,
            seed=seed,
        )
        self.bench.save(answer)

    def seed_for(self, *what: object) -> int:
        return self.bench.seed_for(*what)


def save(state: State, file: Path) -> None:
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}, file)


def epsilon_with(site: SiteData, round: int) -> float:
    """A site's epsilon after it has sent this round's update; raises if that would exceed the site's limit."""
    assert site.privacy is not None
    if site.releases is None:
        epsilon = epsilon_of(site.privacy, round)
    else:
        epsilon = epsilon_of(site.privacy, Releases(site.releases).by_noise() + Counter([site.privacy.noise]))
    check_limit(site.privacy, epsilon)
    return epsilon
