"""From an experiment and a method to a federation and its run."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedpdc_med.benchmarks.catalogue import Experiment, recorded
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import only_writer
from fedpdc_med.datasets import ImageSet, load
from fedpdc_med.federation.data import EvaluationSet, Federation, SiteFilms
from fedpdc_med.federation.images import Films
from fedpdc_med.federation.partition import class_counts, halve, hold_out, partition
from fedpdc_med.federation.protocol import seed_for
from fedpdc_med.federation.run import run_rounds
from fedpdc_med.methods import Method, make_method
from fedpdc_med.runs.directory import Run, begin_run, git_commit, versions
from fedpdc_med.runs.label_distribution import label_distribution
from fedpdc_med.runs.plan import Network


def start(
    experiment: Experiment, method: Method, data: Path | None, download: bool, out: Path, overwrite: bool, workers: int
) -> Run:
    """A new run directory, and the run to its end."""
    images = load(experiment.data, data, download)
    federation = build(experiment, method, images)
    federation.check()
    with begin_run(out, config_of(experiment, method, images, data, out), overwrite) as run:
        picture(federation, run)
        run_rounds(federation, run, workers, label_of(experiment, method))
    return run


def resume(run: Run, data: Path | None, workers: int) -> None:
    """Continue a benchmark's run from its checkpoint, to the same bits."""
    with only_writer(run.folder):
        _resume(run, data, workers)


def _resume(run: Run, data: Path | None, workers: int) -> None:
    config = run.config
    experiment, method = experiment_of(config), method_of(config)
    if data is None and "folder" in config["data"]:
        data = Path(os.path.normpath(run.folder / config["data"]["folder"]))
    images = load(experiment.data, data, False)
    if images.fingerprint() != config["data"]["fingerprint"]:
        raise UserError(
            f"the {experiment.data} images differ from the ones {run.folder} was started with; "
            "name the right folder with --data"
        )
    run_rounds(build(experiment, method, images), run, workers, label_of(experiment, method))


def build(experiment: Experiment, method: Method, images: ImageSet) -> Federation:
    """Hold the public images out and partition the rest between the sites."""
    images = fewer(images, experiment)
    labels = images.train_labels
    public, rest = hold_out(labels, experiment.public_per_class, rng_for(experiment, "public"))
    correction, weighting = split_public(experiment, method, public, labels)
    parts = partition(
        experiment.partition, labels[rest], experiment.sites, rng_for(experiment, "partition"), beta=experiment.beta
    )
    width = len(str(experiment.sites))
    sites = {
        f"site-{i + 1:0{width}d}": SiteFilms(0, rest[part], len(part), experiment.local, experiment.preparation)
        for i, part in enumerate(parts)
    }
    _, channels, size, _ = images.train_images.shape
    return Federation(
        method=method,
        network=Network(
            name=experiment.model, channels=channels, size=size, classes=len(images.classes), norm=experiment.norm
        ),
        classes=images.classes,
        preparation=experiment.preparation,
        pools=[Films.of(images.train_images, images.train_labels)],
        sites=sites,
        weighting=Films.of(images.train_images[weighting], labels[weighting]),
        correction=Films.of(images.train_images[correction], labels[correction]) if len(correction) else None,
        reported={"test": EvaluationSet(Films.of(images.test_images, images.test_labels), about_test(images))},
        judge="test",
        rounds=experiment.rounds,
        tau=experiment.tau,
        seed=experiment.seed,
    )


def fewer(images: ImageSet, experiment: Experiment) -> ImageSet:
    """A random part of the training images, where the experiment asks for one."""
    if experiment.images is None:
        return images
    some = np.sort(rng_for(experiment, "images").permutation(len(images.train_labels))[: experiment.images])
    return replace(images, train_images=images.train_images[some], train_labels=images.train_labels[some])


def split_public(
    experiment: Experiment, method: Method, public: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(correction, weighting): every method has the same public images to use, to score alone or to train on too."""
    if not method.parts().public.used:
        return public[:0], public
    if experiment.public_split == "shared":
        return public, public
    return halve(public, labels, rng_for(experiment, "halves"))


def rng_for(experiment: Experiment, what: str) -> np.random.Generator:
    return np.random.default_rng(seed_for(experiment.seed, what))


def about_test(images: ImageSet) -> pd.DataFrame:
    count = len(images.test_labels)
    frame = pd.DataFrame(
        {
            "split": ["test"] * count,
            "site": "",
            "film": [f"test-{i:05d}" for i in range(count)],
            "patient": "",
            "label": np.array(images.classes)[images.test_labels],
        }
    )
    return frame.assign(sex="", age_band="", view="", source=images.name)


def config_of(experiment: Experiment, method: Method, images: ImageSet, data: Path | None, out: Path) -> dict[str, Any]:
    """Everything resolved; the data folder as seen from the run, so that no path of the machine is recorded."""
    folder = os.path.relpath(data, out) if data is not None else None
    return {
        "kind": "benchmark",
        "experiment": experiment.model_dump(),
        "method": {"name": method.name, **method.model_dump()},
        "data": {
            "name": images.name,
            "fingerprint": images.fingerprint(),
            "classes": list(images.classes),
            "folder": folder,
        },
        "versions": versions(),
        "git_commit": git_commit(),
    }


def experiment_of(config: dict[str, Any]) -> Experiment:
    return recorded(config["experiment"], config["method"]["name"])


def method_of(config: dict[str, Any]) -> Method:
    return make_method(**config["method"])


def label_of(experiment: Experiment, method: Method) -> str:
    return f"{experiment.name} {method.name}"


def picture(federation: Federation, run: Run) -> None:
    """The skew, one bar a site."""
    labels = federation.pools[0].labels.numpy()
    parts = [site.indices for site in federation.sites.values() if site.indices is not None]
    counts = class_counts(labels, parts, len(federation.classes))
    label_distribution(
        counts, list(federation.sites), federation.classes, run.folder / "label_distribution.png", "images"
    )
