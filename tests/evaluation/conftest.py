"""Prediction tables small enough to count on paper."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest

FILMS = ("normal", "pneumonia", "covid-19")


@pytest.fixture
def frame_of() -> Callable[..., pd.DataFrame]:
    """frame_of(labels, called, ...): films called with probability 0.8 (or `confidence`), the rest shared equally."""

    def build(
        labels: Sequence[str],
        called: Sequence[str],
        *,
        classes: Sequence[str] = FILMS,
        confidence: object = 0.8,
        **columns: object,
    ) -> pd.DataFrame:
        count = len(labels)
        text = {
            "model": "global",
            "split": "holdout",
            "site": "reference",
            "film": [f"film-{i:05d}" for i in range(count)],
            "patient": "",
            "label": list(labels),
            "sex": "",
            "age_band": "",
            "view": "",
            "source": "",
            **columns,
        }
        frame = pd.DataFrame(text, index=range(count)).astype(str)
        top = np.broadcast_to(np.asarray(confidence, dtype=float), count)
        for name in classes:
            hit = np.array([c == name for c in called], dtype=bool)
            frame[f"p:{name}"] = np.where(hit, top, (1 - top) / (len(classes) - 1)).astype(np.float32)
        return frame

    return build


@pytest.fixture
def random_frame() -> Callable[..., pd.DataFrame]:
    """random_frame(films, films_of_a_patient, seed): three classes that a model tells apart somewhat."""

    def build(
        films: int, films_of_a_patient: int = 1, seed: int = 0, classes: Sequence[str] = FILMS, sites: int = 1
    ) -> pd.DataFrame:
        generator = np.random.default_rng(seed)
        patient = np.arange(films) // films_of_a_patient
        truth = generator.integers(len(classes), size=patient.max() + 1)[patient]
        scores = generator.normal(size=(patient.max() + 1, len(classes)))[patient] + generator.normal(
            size=(films, len(classes))
        )
        scores[np.arange(films), truth] += 1.5
        chance = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        frame = pd.DataFrame(
            {
                "model": "global",
                "split": "holdout",
                "site": [f"site-{i % sites:02d}" for i in patient],
                "film": [f"film-{i:06d}" for i in range(films)],
                "patient": [f"patient-{i:06d}" for i in patient],
                "label": np.asarray(classes)[truth],
                "sex": generator.choice(["F", "M"], films),
                "age_band": generator.choice(["20-39", "40-59", "60-79"], films),
                "view": generator.choice(["PA", "AP"], films),
                "source": "phantom",
            }
        )
        for column, name in enumerate(classes):
            frame[f"p:{name}"] = chance[:, column].astype(np.float32)
        return frame

    return build
