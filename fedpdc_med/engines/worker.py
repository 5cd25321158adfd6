"""The work of one process: a site's training, the coordinator's own, predictions. It keeps one network for all."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from fedpdc_med.federation.data import Federation, SiteFilms
from fedpdc_med.federation.images import Films, TrainingFilms
from fedpdc_med.federation.local_training import frozen_copy, train_locally
from fedpdc_med.federation.pooled import joined, selected, usual_site
from fedpdc_med.federation.privacy import Releases, check_limit, epsilon_of, noise_of, private, release_of
from fedpdc_med.federation.protocol import Assignment, Update, seed_for
from fedpdc_med.methods import FedAvg
from fedpdc_med.methods.learned_weights import search_weights
from fedpdc_med.models import build_model
from fedpdc_med.models.inference import normalise, predict


@dataclass
class Workbench:
    federation: Federation
    device: str = "cpu"

    def __post_init__(self) -> None:
        model = build_model(self.federation.network, seed=0).to(self.device)
        self.model: nn.Module = model.to(memory_format=torch.channels_last)
        self.on_device: dict[int, Films] = {}

    def train(self, assignment: Assignment, answer: Path) -> Update:
        """Train one site from the assignment's model and leave its state in the file `answer`."""
        federation, site = self.federation, self.federation.sites[assignment.site]
        epsilon = epsilon_with(site, assignment.round) if site.privacy else None
        previous = None
        if federation.method.shares and assignment.previous_model is not None:
            previous = frozen_copy(self._load(assignment.previous_model))
        pool, indices, reference = self._here(federation.pools[site.pool]), site.indices, None
        if federation.method.trains_on_reference and federation.correction is not None:
            correction = self._here(federation.correction)
            if copies := federation.method.joined_copies:
                pool, indices = joined(selected(pool, indices), *[correction] * copies), None
            else:
                reference = TrainingFilms(correction, None, site.preparation)
        films = TrainingFilms(pool, indices, site.preparation)
        loss = train_locally(
            self._load(assignment.model),
            films,
            federation.method,
            site.settings,
            round=assignment.round,
            score=assignment.score,
            previous_model=previous,
            reference=reference,
            seed=seed_for(federation.seed, "train", assignment.round, assignment.site),
        )
        if site.privacy:
            self._make_private(site, assignment)
        self._save(answer)
        return Update(assignment.site, answer, site.count, loss, epsilon)

    def _make_private(self, site: SiteFilms, assignment: Assignment) -> None:
        """Clip and noise what was trained, and write down that it is sent."""
        assert site.privacy is not None
        received = load_file(assignment.model)
        trained = {name: tensor.detach().cpu() for name, tensor in self.model.state_dict().items()}
        release = release_of(site.secret, trained, received, site.privacy, assignment.round)
        self.model.load_state_dict(private(trained, received, site.privacy, noise_of(release)))
        if site.releases:
            Releases(site.releases).add(release, site.privacy.noise)

    def finetune(self, model: Path, answer: Path, round: int) -> None:
        """Plain cross-entropy on the `correction` split, at the coordinator, in batches like those of most sites."""
        federation, site = self.federation, usual_site(self.federation)
        wanted, correction = federation.method.finetuning, federation.correction
        assert wanted is not None and correction is not None, "federation.check() has seen to it"
        settings = {"epochs": wanted.epochs, "learning_rate": wanted.learning_rate}
        train_locally(
            self._load(model),
            TrainingFilms(self._here(correction), None, site.preparation),
            FedAvg(),
            site.settings.model_copy(update=settings),
            round=round,
            score=1.0,
            previous_model=None,
            reference=None,
            seed=seed_for(federation.seed, "finetune", round),
        )
        self._save(answer)

    def search_weights(self, models: Sequence[Path], start: Sequence[float], round: int) -> list[float]:
        films = self._here(self.federation.weighting)
        images = normalise(films.images, self.federation.preparation)
        states = [load_file(model, self.device) for model in models]
        seed = seed_for(self.federation.seed, "weights", round)
        return search_weights(self.model, states, start, images, films.labels, seed)

    def predict(self, model: Path, name: str, start: int, stop: int) -> np.ndarray:
        films = self._here(self.federation.films_of(name))
        return predict(self._load(model), films.images, self.federation.preparation, start, stop)

    def _save(self, answer: Path) -> None:
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}
        save_file(state, answer)

    def _load(self, file: Path) -> nn.Module:
        self.model.load_state_dict(load_file(file))
        return self.model

    def _here(self, films: Films) -> Films:
        if self.device == "cpu":
            return films
        if id(films) not in self.on_device:
            self.on_device[id(films)] = Films(films.images.to(self.device), films.labels.to(self.device))
        return self.on_device[id(films)]


def epsilon_with(site: SiteFilms, round: int) -> float:
    """A site's epsilon once it has sent this round's update; raises where the site would go above its limit."""
    assert site.privacy is not None
    if site.releases is None:
        epsilon = epsilon_of(site.privacy, round)
    else:
        epsilon = epsilon_of(site.privacy, Releases(site.releases).by_noise() + Counter([site.privacy.noise]))
    check_limit(site.privacy, epsilon)
    return epsilon
