"""Turns an experiment and a method into a federation and runs it."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fedpdc_med import __version__
from fedpdc_med.benchmarks.catalogue import PREPARATIONS
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import only_writer
from fedpdc_med.datasets import ImageSet, load
from fedpdc_med.engines.local import run_rounds
from fedpdc_med.federation.data import CoordinatorData, EvaluationSet, LocalFederation, SiteData
from fedpdc_med.federation.images import Films
from fedpdc_med.federation.partition import class_counts, halve, hold_out, partition
from fedpdc_med.federation.protocol import seed_for
from fedpdc_med.methods import Method, config_of, method_of
from fedpdc_med.runs.directory import Run, begin_run, git_commit, made_with
from fedpdc_med.runs.label_distribution import label_distribution
from fedpdc_med.runs.plan import Network, Plan
from fedpdc_med.runs.schema import BenchmarkRun, Experiment, ImageSource


def start(
    experiment: Experiment, method: Method, data: Path | None, download: bool, out: Path, overwrite: bool, workers: int
) -> Run:
    """Make a run directory and run all rounds."""
    images = load(experiment.data, data, download)
    federation = build(experiment, method, images)
    federation.check()
    config = BenchmarkRun(
        made_with=made_with(),
        git_commit=git_commit(),
        plan=federation.plan,
        experiment=experiment,
        data=ImageSource(
            name=images.name,
            fingerprint=images.fingerprint(),
            folder=os.path.relpath(data, out) if data is not None else None,
        ),
    )
    with begin_run(out, config, overwrite) as run:
        draw_skew(federation, run)
        run_rounds(federation, run, workers, progress_label(experiment, method.name))
    return run


def resume(run: Run, config: BenchmarkRun, data: Path | None, workers: int) -> None:
    """Continue a benchmark run from its checkpoint; the result is bit-identical to an uninterrupted run."""
    experiment, method = config.experiment, method_of(config.plan.method)
    with only_writer(run.folder):
        if data is None and config.data.folder:
            data = Path(os.path.normpath(run.folder / config.data.folder))
        images = load(experiment.data, data, False)
        if images.fingerprint() != config.data.fingerprint:
            raise UserError(
                f"the {experiment.data} images differ from the ones {run.folder} was started with; "
                "give the right folder with --data"
            )
        run_rounds(build(experiment, method, images), run, workers, progress_label(experiment, method.name))


def build(experiment: Experiment, method: Method, images: ImageSet) -> LocalFederation:
    """Hold the public images out and partition the rest between the sites."""
    images = fewer(images, experiment)
    labels = images.train_labels
    public, rest = hold_out(labels, experiment.public_per_class, rng_for(experiment, "public"))
    correction, weighting = split_public(experiment, method, public, labels)
    parts = partition(
        experiment.partition, labels[rest], experiment.sites, rng_for(experiment, "partition"), beta=experiment.beta
    )
    everything = Films.of(images.train_images, labels)
    width = len(str(experiment.sites))
    names = [f"site-{i + 1:0{width}d}" for i in range(len(parts))]
    _, channels, size, _ = images.train_images.shape
    return LocalFederation(
        plan=Plan(
            package=__version__,
            method=config_of(method),
            network=Network(
                name=experiment.model, channels=channels, size=size, classes=len(images.classes), norm=experiment.norm
            ),
            classes=images.classes,
            preparation=PREPARATIONS[experiment.data],
            rounds=experiment.rounds,
            tau=experiment.tau,
            seed=experiment.seed,
        ),
        coordinator=CoordinatorData(
            sites=tuple(names),
            weighting=Films.of(images.train_images[weighting], labels[weighting]),
            correction=Films.of(images.train_images[correction], labels[correction]) if len(correction) else None,
            settings=experiment.local,
            evaluation={"test": EvaluationSet(Films.of(images.test_images, images.test_labels), about_test(images))},
            reported="test",
        ),
        sites={
            name: SiteData(name, everything, rest[part], experiment.local)
            for name, part in zip(names, parts, strict=True)
        },
    )


def fewer(images: ImageSet, experiment: Experiment) -> ImageSet:
    """A random subset of the training images, if the experiment asks for one."""
    if experiment.images is None:
        return images
    some = np.sort(rng_for(experiment, "images").permutation(len(images.train_labels))[: experiment.images])
    return replace(images, train_images=images.train_images[some], train_labels=images.train_labels[some])


def split_public(
    experiment: Experiment, method: Method, public: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(correction, weighting): every method gets the same public images, for scoring only or for training too."""
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


def progress_label(experiment: Experiment, method: str) -> str:
    return f"{experiment.name} {method}"


def draw_skew(federation: LocalFederation, run: Run) -> None:
    """One bar per site."""
    sites, classes = federation.sites.values(), federation.plan.classes
    parts = [site.indices for site in sites if site.indices is not None]
    counts = class_counts(next(iter(sites)).films.labels.numpy(), parts, len(classes))
    label_distribution(counts, list(federation.sites), classes, run.folder / "label_distribution.png", "images")
