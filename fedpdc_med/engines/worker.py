"""The work of one process: a site's training, the coordinator's own, predictions. It keeps one network for all."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fedpdc_med.federation.data import Federation, SiteFilms
from fedpdc_med.federation.images import Films, TrainingFilms
from fedpdc_med.federation.local_training import frozen_copy, train_locally
from fedpdc_med.federation.pooled import joined, selected, usual_site
from fedpdc_med.federation.privacy import Releases, check_limit, epsilon_of, noise_of, private, release_of
from fedpdc_med.federation.protocol import Assignment, Update, extra_file, kept_file, seed_for
from fedpdc_med.methods.parts import Parts
from fedpdc_med.methods.server import State
from fedpdc_med.models import build_model
from fedpdc_med.models.inference import normalise, predict


@dataclass
class Workbench:
    federation: Federation
    device: str = "cpu"

    def __post_init__(self) -> None:
        model = build_model(self.federation.network, seed=0).to(self.device)
        self.model: nn.Module = model.to(memory_format=torch.channels_last)
        self.parts = self.federation.method.parts()
        self.on_device: dict[int, Films] = {}

    def train(self, assignment: Assignment, answer: Path) -> Update:
        """Train one site from the assignment's model and leave its state in the file `answer`."""
        federation, site, parts = self.federation, self.federation.sites[assignment.site], self.parts
        epsilon = epsilon_with(site, assignment.round) if site.privacy else None
        previous = None
        if assignment.kept is not None and parts.keeps == "model" and parts.trains != "alone":
            previous = frozen_copy(self._load(assignment.kept))
        pool, indices, public = self._here(federation.pools[site.pool]), site.indices, None
        if parts.public.at_sites != "no" and federation.correction is not None:
            correction = self._here(federation.correction)
            if parts.public.at_sites == "joined":
                pool, indices = joined(selected(pool, indices), *[correction] * parts.public.copies), None
            else:
                public = TrainingFilms(correction, None, site.preparation)
        trained = train_locally(
            self._load(assignment.model),
            TrainingFilms(pool, indices, site.preparation),
            parts,
            site.settings,
            round=assignment.round,
            rounds=federation.rounds,
            score=assignment.score,
            seed=seed_for(federation.seed, "train", assignment.round, assignment.site),
            public=public,
            previous_model=previous,
            kept=self._state(assignment.kept) if parts.site_state else None,
            broadcast=self._state(assignment.broadcast),
        )
        if site.privacy:
            self._make_private(site, assignment)
        self._save(answer)
        extra = None
        if trained.kept is not None and trained.extra is not None:
            extra = extra_file(answer)
            save(trained.kept, kept_file(answer))
            save(trained.extra, extra)
        return Update(assignment.site, answer, site.count, trained.loss, epsilon, extra)

    def _make_private(self, site: SiteFilms, assignment: Assignment) -> None:
        """Clip and noise what was trained, and write down that it is sent."""
        assert site.privacy is not None
        received = load_file(assignment.model)
        trained = {name: tensor.detach().cpu() for name, tensor in self.model.state_dict().items()}
        release = release_of(site.secret, trained, received, site.privacy, assignment.round)
        self.model.load_state_dict(private(trained, received, site.privacy, noise_of(release)))
        if site.releases:
            Releases(site.releases).add(release, site.privacy.noise)

    def train_on_correction(self, start: Path, answer: Path, epochs: int, learning_rate: float, seed: int) -> None:
        """Plain cross-entropy on the `correction` split, at the coordinator, in batches like those of most sites."""
        site, correction = usual_site(self.federation), self.federation.correction
        assert correction is not None, "federation.check() has seen to it"
        train_locally(
            self._load(start),
            TrainingFilms(self._here(correction), None, site.preparation),
            Parts(),
            site.settings.model_copy(update={"epochs": epochs, "learning_rate": learning_rate}),
            round=1,
            rounds=1,
            score=1.0,
            seed=seed,
        )
        self._save(answer)

    def weighting_films(self) -> tuple[Tensor, Tensor]:
        films = self._here(self.federation.weighting)
        return normalise(films.images, self.federation.preparation), films.labels

    def seed_for(self, *what: object) -> int:
        return seed_for(self.federation.seed, *what)

    def predict(self, model: Path, name: str, start: int, stop: int) -> np.ndarray:
        films = self._here(self.federation.films_of(name))
        return predict(self._load(model), films.images, self.federation.preparation, start, stop)

    def _save(self, answer: Path) -> None:
        save(self.model.state_dict(), answer)

    def _state(self, file: Path | None) -> State | None:
        return load_file(file, self.device) if file else None

    def _load(self, file: Path) -> nn.Module:
        self.model.load_state_dict(load_file(file))
        return self.model

    def _here(self, films: Films) -> Films:
        if self.device == "cpu":
            return films
        if id(films) not in self.on_device:
            self.on_device[id(films)] = Films(films.images.to(self.device), films.labels.to(self.device))
        return self.on_device[id(films)]


def save(state: State, file: Path) -> None:
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}, file)


def epsilon_with(site: SiteFilms, round: int) -> float:
    """A site's epsilon once it has sent this round's update; raises where the site would go above its limit."""
    assert site.privacy is not None
    if site.releases is None:
        epsilon = epsilon_of(site.privacy, round)
    else:
        epsilon = epsilon_of(site.privacy, Releases(site.releases).by_noise() + Counter([site.privacy.noise]))
    check_limit(site.privacy, epsilon)
    return epsilon
