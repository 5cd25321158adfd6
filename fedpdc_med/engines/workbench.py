"""The work of one process: train one site, predict some films. It keeps one network and reuses it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from fedpdc_med.federation.films import Films, TrainingFilms
from fedpdc_med.federation.local import frozen_copy, train_locally
from fedpdc_med.federation.messages import Assignment, Update, seed_for
from fedpdc_med.federation.scoring import predict
from fedpdc_med.federation.setup import Federation


@dataclass
class Workbench:
    federation: Federation
    device: str = "cpu"

    def __post_init__(self) -> None:
        model = self.federation.model.build(seed=0).to(self.device)
        self.model: nn.Module = model.to(memory_format=torch.channels_last)
        self.on_device: dict[int, Films] = {}

    def train(self, assignment: Assignment, answer: Path) -> Update:
        """Train one site from the assignment's model and leave its state in the file `answer`."""
        federation, site = self.federation, self.federation.sites[assignment.site]
        previous = None
        if federation.method.shares and assignment.previous_model is not None:
            previous = frozen_copy(self._load(assignment.previous_model))
        films = TrainingFilms(self._here(federation.pools[site.pool]), site.indices, site.preparation)
        reference = None
        if federation.method.trains_on_reference and federation.correction is not None:
            reference = TrainingFilms(self._here(federation.correction), None, site.preparation)
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
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in self.model.state_dict().items()}
        save_file(state, answer)
        return Update(assignment.site, answer, site.count, loss)

    def predict(self, model: Path, name: str, start: int, stop: int) -> np.ndarray:
        films = self._here(self.federation.films_of(name))
        return predict(self._load(model), films, self.federation.preparation, start, stop)

    def _load(self, file: Path) -> nn.Module:
        self.model.load_state_dict(load_file(file))
        return self.model

    def _here(self, films: Films) -> Films:
        if self.device == "cpu":
            return films
        if id(films) not in self.on_device:
            self.on_device[id(films)] = Films(films.images.to(self.device), films.labels.to(self.device))
        return self.on_device[id(films)]
