"""Fixtures that several rooms share."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedpdc_med.algorithms import make_method
from fedpdc_med.federation.films import Films, Preparation
from fedpdc_med.federation.messages import LocalSettings
from fedpdc_med.federation.setup import EvaluationSet, Federation, ModelSpec, SiteFilms

torch.set_num_threads(1)

PREPARATION = Preparation(mean=(60.0,), std=(60.0,))
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip("the real images and films (../shared/data beside the project) are not on this machine")
    return SHARED_DATA


@pytest.fixture
def tiny_federation():
    """A maker of federations that train in a fraction of a second: 3 classes of blobs, skewed sites."""

    def make(
        method="fedpdc", sites=4, rounds=2, tau=1.0, seed=0, films=30, classes=3, settings=None, per_site=None, **extra
    ):
        rng = np.random.default_rng(seed)

        def draw(count, mix):
            labels = rng.choice(classes, count, p=mix)
            images = rng.integers(0, 60, (count, 1, 16, 16))
            for image, label in zip(images, labels, strict=True):
                image[0, 4 * label : 4 * label + 5] += 150
            return Films.of(images.astype(np.uint8), labels)

        even = [1 / classes] * classes
        pools, held = [], {}
        for i in range(sites):
            mix = [0.7 if k == i % classes else 0.3 / (classes - 1) for k in range(classes)]
            count = films + 10 * i
            pools.append(draw(count, mix))
            local = {"epochs": 1, "batch_size": 8, **(per_site or {}).get(i, {})}
            held[f"site-{i}"] = SiteFilms(i, None, count, LocalSettings(**local), PREPARATION)
        test = draw(40, even)
        about = pd.DataFrame(
            {
                "split": ["test"] * 40,
                "site": "",
                "film": [f"f{i}" for i in range(40)],
                "patient": "",
                "label": [f"class-{k}" for k in test.labels.tolist()],
            }
        )
        return Federation(
            method=make_method(method, **(settings or {})),
            model=ModelSpec("cnn", 1, 16, classes),
            classes=tuple(f"class-{k}" for k in range(classes)),
            preparation=PREPARATION,
            pools=pools,
            sites=held,
            weighting=draw(30, even),
            correction=draw(12, even),
            reported={"test": EvaluationSet(test, about)},
            judge="test",
            rounds=rounds,
            tau=tau,
            seed=seed,
            **extra,
        )

    return make
