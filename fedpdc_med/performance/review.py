"""How long the pages take on a large run: 100,000 predictions, 50 sites, 20 classes."""

import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from fedpdc_med import __version__
from fedpdc_med.common.errors import WorkFailed
from fedpdc_med.methods import config_of, make_method
from fedpdc_med.runs.directory import create_run, made_with, write_predictions
from fedpdc_med.runs.listing import RUNS_FOLDER
from fedpdc_med.runs.plan import FilmProcessing, Network, Plan, Preparation
from fedpdc_med.runs.predictions import GLOBAL
from fedpdc_med.runs.schema import ReferenceFacts, Round, SimulationRun, SiteRound, SiteSummary, StoreFingerprints

PREDICTIONS, SITES, CLASSES, ROUNDS = 100_000, 50, 20, 50
LIMIT_SECONDS = 3.0
NAMES = [f"finding-{k:02d}" for k in range(1, CLASSES + 1)]
HOSPITALS = [f"hospital-{k:02d}" for k in range(1, SITES + 1)]
SCRIPT = "from fedpdc_med.review.app.shell import show_page\nshow_page({number})\n"


def measure() -> dict[str, Any]:
    """Seconds for every page: opened for the first time, and again with cached results."""
    logging.disable(logging.WARNING)  # Streamlit warns repeatedly that there is no browser
    from streamlit.testing.v1 import AppTest

    from fedpdc_med.review.sections import PAGES

    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        write_run(runs / "large-a", seed=0)
        write_run(runs / "large-b", seed=1)
        before = os.environ.get(RUNS_FOLDER)
        os.environ[RUNS_FOLDER] = str(runs)
        try:
            rows = []
            for number, page in enumerate(PAGES):
                test = AppTest.from_string(SCRIPT.format(number=number), default_timeout=300)
                test.session_state["run"], test.session_state["second"] = "large-a", "large-b"
                first, again = _seconds(test), _seconds(test)
                if test.exception or test.error:
                    raise WorkFailed(f"the page {page.title} could not be displayed")
                rows.append({"page": page.title, "first_load": first, "after_first_load": again})
        finally:
            logging.disable(logging.NOTSET)
            os.environ.pop(RUNS_FOLDER)
            if before is not None:
                os.environ[RUNS_FOLDER] = before
    return {"predictions": PREDICTIONS, "sites": SITES, "classes": CLASSES, "pages": rows}


def _seconds(test: Any) -> float:
    started = time.perf_counter()
    test.run()
    return round(time.perf_counter() - started, 3)


def write_run(folder: Path, seed: int) -> None:
    """A run directory like one from `fedpdc simulate`, with random numbers instead of trained ones."""
    generator = np.random.default_rng(seed)
    run = create_run(folder, _config(seed))
    run.rounds_file.write_text(
        "".join(_round(t, generator).line() + "\n" for t in range(1, ROUNDS + 1)), encoding="utf-8"
    )
    drawn = predictions(generator)
    save_file({"weight": generator.normal(size=(64, 64)).astype(np.float32)}, run.model_file)
    write_predictions(run, drawn, {GLOBAL: run.model_file})


def predictions(generator: np.random.Generator) -> pd.DataFrame:
    """Holdout 40 %, weighting 10 %, external 10 %, and each site's own films twice: by the global and by its model."""
    local = np.repeat(HOSPITALS, PREDICTIONS // (5 * SITES)).tolist()
    tenth = PREDICTIONS // 10
    pieces = [
        _piece(GLOBAL, "holdout", ["reference"] * (4 * tenth), generator),
        _piece(GLOBAL, "weighting", ["reference"] * tenth, generator),
        _piece(GLOBAL, "external", ["outside"] * tenth, generator),
        _piece(GLOBAL, "local", local, generator),
    ]
    own = pieces[-1].assign(model=pieces[-1]["site"])
    columns = [name for name in own.columns if name.startswith("p:")]
    own[columns] = own[columns].to_numpy()[:, ::-1]
    return pd.concat([*pieces, own], ignore_index=True)


def _piece(model: str, split: str, sites: list[str], generator: np.random.Generator) -> pd.DataFrame:
    films = len(sites)
    # Labels, patients and film names depend on the split alone, so that two runs share their films.
    fixed = np.random.default_rng(films)
    patients = np.arange(films) // 2
    truth = fixed.integers(CLASSES, size=patients.max() + 1)[patients]
    odds = generator.normal(size=(films, CLASSES))
    odds[np.arange(films), truth] += 2
    chance = np.exp(odds)
    chance /= chance.sum(axis=1, keepdims=True)
    frame = pd.DataFrame(
        {
            "model": model,
            "split": split,
            "site": sites,
            "film": [f"{split}-{k:06d}" for k in range(films)],
            "patient": [f"{split}-{k:06d}" for k in patients],
            "label": np.array(NAMES)[truth],
            "sex": fixed.choice(["F", "M"], films),
            "age_band": fixed.choice(["0-19", "20-39", "40-59", "60-79", "80+"], films),
            "view": fixed.choice(["PA", "AP"], films),
            "source": fixed.choice(["dicom", "collection"], films),
        }
    )
    return pd.concat([frame, pd.DataFrame(chance.astype(np.float32), columns=[f"p:{name}" for name in NAMES])], axis=1)


def _config(seed: int) -> SimulationRun:
    of_each = dict.fromkeys(NAMES, 80)
    sites = {name: SiteSummary(films=2000, patients=1000, training_films=of_each) for name in HOSPITALS}
    return SimulationRun(
        made_with=made_with(),
        plan=Plan(
            package=__version__,
            method=config_of(make_method("fedpdc")),
            network=Network(name="cnn", channels=1, size=64, classes=CLASSES),
            classes=tuple(NAMES),
            preparation=Preparation(mean=(110.0,), std=(60.0,)),
            film_processing=FilmProcessing(size=64),
            rounds=ROUNDS,
            seed=seed,
        ),
        sites=sites | {"outside": SiteSummary(takes_part=False, films=2000, patients=1000)},
        reference=ReferenceFacts(
            version="1",
            provenance="random numbers",
            licence="none",
            classes=tuple(NAMES),
            films=PREDICTIONS // 2,
            patients=PREDICTIONS // 4,
            splits={},
        ),
        data=StoreFingerprints(fingerprints={}),
    )


def _round(number: int, generator: np.random.Generator) -> Round:
    scores = generator.uniform(0.2, 0.9, SITES)
    recall = dict(zip(NAMES, generator.uniform(size=CLASSES).round(4).tolist(), strict=True))
    sites = {
        name: SiteRound(
            status="ok",
            films=1600,
            loss=1.0,
            score=float(score),
            recall=recall,
            weight=float(score / scores.sum()),
            dissimilarity=float(0.8 / score),
        )
        for name, score in zip(HOSPITALS, scores, strict=True)
    }
    return Round(round=number, seconds=1.0, accuracy=0.6, recall=recall, sites=sites)
