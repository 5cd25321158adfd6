"""From an experiment to a federation: who holds which images."""

import numpy as np
import pytest

from fedpdc_med.benchmarks.catalogue import CATALOGUE, make_experiment, names, published, read
from fedpdc_med.benchmarks.results import less_than_paper
from fedpdc_med.benchmarks.run import build
from fedpdc_med.cli.benchmark import same_run
from fedpdc_med.common.errors import UserError
from fedpdc_med.datasets import load
from fedpdc_med.federation.pooled import arranged
from fedpdc_med.methods import label, make_method
from fedpdc_med.runs.directory import create_run
from fedpdc_med.runs.plan import MethodConfig
from fedpdc_med.runs.schema import BenchmarkRun, ImageSource

DIGITS = load("digits")


def digits(method="fedpdc", preset="quick", settings=None, **overrides):
    made = make_method(method, **(settings or {}))
    return build(make_experiment("digits", preset, method, **overrides), made, DIGITS)


def pixels(films):
    return {image.numpy().tobytes() for image in films.images}


def test_sites_public_and_test_images_are_disjoint_and_complete():
    federation = digits(settings={"correction": "soft-accuracy"})
    public = federation.coordinator
    held = np.concatenate([site.indices for site in federation.sites.values()])
    assert len(held) == len(set(held.tolist()))
    assert len(held) + len(public.weighting) + len(public.correction) == len(DIGITS.train_labels)
    of_sites = {federation.sites["site-01"].films.images[i].numpy().tobytes() for i in held}
    assert not of_sites & pixels(public.weighting)
    assert not pixels(public.correction) & pixels(public.weighting)


def test_a_method_that_trains_on_public_images_gets_half_of_the_same_ones():
    scored_only, trained_on, shared = (
        digits(**how).coordinator
        for how in (
            {},
            {"settings": {"correction": "soft-accuracy"}},
            {"settings": {"correction": "soft-accuracy"}, "public_split": "shared"},
        )
    )
    assert scored_only.correction is None
    assert np.bincount(scored_only.weighting.labels).tolist() == [10] * 10
    assert np.bincount(trained_on.weighting.labels).tolist() == [5] * 10
    assert np.bincount(trained_on.correction.labels).tolist() == [5] * 10
    both = pixels(trained_on.weighting) | pixels(trained_on.correction)
    assert both == pixels(scored_only.weighting) == pixels(shared.weighting) == pixels(shared.correction)


@pytest.mark.parametrize(
    ("method", "correction", "weighting"),
    [("data-sharing", 5, 5), ("server-finetune", 5, 5), ("abavg", 0, 10), ("learned-weights", 0, 10)],
)
def test_every_competitor_has_the_same_public_images_to_use(method, correction, weighting):
    public = digits(method).coordinator
    assert np.bincount(public.weighting.labels).tolist() == [weighting] * 10
    assert len(public.correction or []) == 10 * correction


def test_reference_only_trains_on_every_public_image_and_pooled_on_every_other():
    alone = arranged(digits("reference-only")).sites["reference"].films
    pooled = arranged(digits("pooled")).sites["pooled"].films
    assert pixels(alone) == pixels(digits().coordinator.weighting) and len(alone) == 100
    assert len(pooled) == len(DIGITS.train_labels) - 100
    assert not pixels(alone) & pixels(pooled)


@pytest.mark.parametrize("method", ["reference-only", "pooled", "data-sharing"])
def test_competitors_have_the_rounds_and_epochs_of_the_others(method):
    federation, fedavg = arranged(digits(method, "paper")), digits("fedavg", "paper")
    assert federation.plan.rounds == fedavg.plan.rounds == 100
    assert {site.settings for site in federation.sites.values()} == {fedavg.sites["site-01"].settings}


def test_the_seed_fixes_who_gets_what():
    first, second, other = digits(seed=1), digits(seed=1), digits(seed=2)
    assert all(np.array_equal(first.sites[name].indices, second.sites[name].indices) for name in first.sites)
    assert not np.array_equal(first.sites["site-01"].indices, other.sites["site-01"].indices)


def test_a_part_of_the_images_keeps_every_class():
    federation = digits(images=700)
    assert sum(map(len, federation.sites.values())) == 700 - 100
    assert len(np.unique(federation.sites["site-01"].films.labels)) == 10


@pytest.mark.parametrize("name", names())
def test_every_experiment_has_the_papers_and_the_quick_preset(name):
    quick, paper = (make_experiment(name, preset, "fedpdc") for preset in ("quick", "paper"))
    assert (quick.rounds, quick.epochs) == (20, 2)
    assert paper.epochs == 10 and paper.rounds == (20 if name.startswith("tiny") else 100)
    solo = make_experiment(name, "paper", "solo")
    assert solo.rounds * solo.epochs == 300
    assert read(name)["title"]


def test_the_papers_numbers_are_the_ones_it_prints():
    assert published("cifar10-cnn-b0.1") == {
        "fedpdc": 64.3,
        "moon": 64.0,
        "fedavg": 62.1,
        "fedprox": 62.9,
        "solo": 28.4,
    }
    assert published("tiny-imagenet-resnet18-b0.3")["fedprox"] == 17.58
    assert published("digits") == {}


@pytest.mark.parametrize(
    ("file", "line", "says"),
    [
        ("cifar10-cnn-b0.1.toml", "beta = 5", "but differs from it; rename the file$"),
        ("mine.toml", 'name = "cifar10-cnn-b0.1"', "but differs from it; change its key 'name'$"),
    ],
)
def test_an_edited_copy_does_not_pass_for_the_catalogues_experiment(tmp_path, file, line, says):
    text = (CATALOGUE / "cifar10-cnn-b0.1.toml").read_text(encoding="utf-8")
    (tmp_path / file).write_text(line + "\n" + text.replace("beta = 0.1\n", ""), encoding="utf-8")
    with pytest.raises(UserError, match=says):
        make_experiment(str(tmp_path / file), "quick", "fedavg")
    (tmp_path / "cifar10-cnn-b0.1.toml").write_text(text, encoding="utf-8")  # to the letter
    copied = make_experiment(str(tmp_path / "cifar10-cnn-b0.1.toml"), "quick", "fedavg")
    assert copied == make_experiment("cifar10-cnn-b0.1", "quick", "fedavg")


def test_resume_tells_a_run_of_some_images_from_one_of_all(tmp_path):
    fedavg, folder = make_method("fedavg"), tmp_path / "run"
    every, some = (make_experiment("digits", "quick", "fedavg", images=images) for images in (None, 700))
    for there, other, says in ((some, every, "images = 700, not None"), (every, some, "images = None, not 700")):
        plan = build(there, fedavg, DIGITS).plan
        data = ImageSource(name="digits", fingerprint=DIGITS.fingerprint())
        run = create_run(folder, BenchmarkRun(made_with={}, plan=plan, experiment=there, data=data), overwrite=True)
        assert same_run(run, there, fedavg) == run.config
        with pytest.raises(UserError, match=says):
            same_run(run, other, fedavg)


def test_a_row_says_in_which_ways_it_did_less_than_the_paper():
    assert less_than_paper(make_experiment("cifar10-cnn-b0.1", "paper", "fedavg"), "fedavg") == ""
    quick = make_experiment("cifar10-cnn-b0.1", "quick", "fedavg", images=5000)
    assert less_than_paper(quick, "fedavg") == "20 of 100 rounds, 2 of 10 epochs, 5,000 images only"


def test_a_method_is_described_by_what_is_not_its_default():
    defaults = {"correction": "penalty", "strength": 10.0}
    assert label(MethodConfig(name="fedpdc", settings=defaults)) == "fedpdc"
    changed = {"correction": "soft-accuracy", "strength": 1.0}
    assert label(MethodConfig(name="fedpdc", settings=changed)) == "fedpdc soft-accuracy strength=1"
