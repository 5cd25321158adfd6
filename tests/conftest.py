"""Fixtures that several rooms share."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
import torch
from safetensors.numpy import save_file

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


FOUND = {"normal": (19, 20), "pneumonia": (16, 20), "covid-19": (18, 20), "tuberculosis": (5, 20)}


@pytest.fixture(scope="session")
def write_run():
    """A maker of run directories as training leaves them, without training: found = {class: (correct, total)}.

    By default the holdout has 20 films of each class, of 20 patients: 18 of 20 is a Wilson interval of .699 to .972.
    """
    return made_run


def made_run(
    folder,
    found=FOUND,
    *,
    local=None,
    external=None,
    sites=("harbor", "hill"),
    titles=None,
    method="fedpdc",
    rounds=4,
    planned=4,
    finished=True,
    share=True,
    own=None,
    missing=None,
    seed=0,
):
    """`own`: what each site's own model finds of its local films; `missing`: {(round, site): (status, reason)}."""
    classes, titles = list(found), titles or {}
    local = local or dict.fromkeys(classes, (1, 1))
    folder.mkdir(parents=True)
    described = {
        name: {
            "title": titles.get(name, ""),
            "takes_part": name != "island",
            "films": 60,
            "patients": 40,
            "training_films": {} if name == "island" else {label: 10 + k for k, label in enumerate(classes)},
        }
        for name in (*sites, *(["island"] if external else []))
    }
    config = {
        "kind": "simulation",
        "classes": classes,
        "git_commit": "0123456789ab",
        "simulation": {"rounds": planned, "tau": 1.0, "model": "cnn", "norm": "batch", "seed": seed},
        "method": {"name": method},
        "sites": described,
        "reference": {"provenance": "phantom films", "films": 80, "splits": {"holdout": dict.fromkeys(classes, 20)}},
        "data": {"fingerprints": {"reference": f"films of seed {seed}"}},
        "versions": {"python": "3.11.7"},
    }
    (folder / "config.toml").write_text(tomli_w.dumps(config))
    lines = [json.dumps(made_round(t, classes, sites, found, missing or {})) + "\n" for t in range(1, rounds + 1)]
    (folder / "rounds.jsonl").write_text("".join(lines))
    if not finished:
        return folder
    pieces = []
    for model in ["global"] if share else list(sites):
        pieces.append(made_films(model, "holdout", "reference", found, classes))
        pieces.append(made_films(model, "weighting", "reference", found, classes))
        pieces += [made_films(model, "local", site, local, classes) for site in sites]
        if external:
            pieces.append(made_films(model, "external", "island", external, classes))
    if own:
        pieces += [made_films(site, "local", site, own, classes) for site in sites]
    pd.concat(pieces, ignore_index=True).to_parquet(folder / "predictions.parquet", index=False)
    if share:
        save_file({"weight": np.arange(6, dtype=np.float32)}, folder / "model.safetensors")
    return folder


def made_round(t, classes, sites, found, missing):
    recall = {name: correct / total if total else None for name, (correct, total) in found.items()}
    heard = [site for site in sites if (t, site) not in missing]
    of_sites = {}
    for site in sites:
        if (t, site) in missing:
            status, reason = missing[t, site]
            of_sites[site] = {"status": status, "reason": reason}
            continue
        of_sites[site] = {
            "status": "ok",
            "films": 30 if site == sites[0] else 10,
            "loss": 1.0 / t,
            "score": 0.5,
            "recall": recall,
            "weight": 1 / len(heard),
            "dissimilarity": 1.2,
        }
    return {"round": t, "seconds": 1.0, "accuracy": 0.7, "recall": recall, "sites": of_sites}


def made_films(model, split, site, found, classes):
    """Films called right with 0.8, or wrong with 0.8 for the next class; each of its own patient."""
    label = np.repeat(np.arange(len(classes)), [found[name][1] for name in classes])
    right = np.concatenate([np.arange(found[name][1]) < found[name][0] for name in classes])
    called = np.where(right, label, (label + 1) % len(classes))
    chance = np.full((len(label), len(classes)), 0.2 / (len(classes) - 1), dtype=np.float32)
    chance[np.arange(len(label)), called] = 0.8
    frame = pd.DataFrame(
        {
            "model": model,
            "split": split,
            "site": site,
            "film": [f"{split}-{site}-{k:04d}" for k in range(len(label))],
            "patient": "",
            "label": np.array(classes, dtype=object)[label],
            "sex": np.where(np.arange(len(label)) % 2, "F", "M"),
            "age_band": "40-59",
            "view": "PA",
            "source": "phantom",
        }
    ).astype(str)
    for k, name in enumerate(classes):
        frame[f"p:{name}"] = chance[:, k]
    return frame


@pytest.fixture(scope="session")
def simulated(tmp_path_factory):
    """A data folder with one real simulation of one round over a few phantom films: stores, reference, runs/tiny."""
    place = tmp_path_factory.mktemp("simulated")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDPDC_HOME", str(place))
        return made_simulation(place)


def made_simulation(place):
    from fedpdc_med.imaging.hospital import HospitalSite, Phantoms
    from fedpdc_med.imaging.labels import read_labels
    from fedpdc_med.imaging.phantom import write_films
    from fedpdc_med.imaging.reference import build_reference
    from fedpdc_med.imaging.scanners import Scanner
    from fedpdc_med.simulation.films import Collected, store_of
    from fedpdc_med.simulation.simulate import Settings, start

    mix = {"normal": 12, "pneumonia": 12, "covid-19": 12}
    hospital = Phantoms(case_mix={"normal": 6, "pneumonia": 5, "covid-19": 4})
    north = HospitalSite(name="north", films=hospital, settings=LocalSettings(epochs=1, batch_size=8))
    table = write_films(place / "dicom", Scanner(), mix, 1)
    how = {"labels": read_labels(table), "labels_file": table, "size": 48, "processes": 1}
    about = {"provenance": "phantom", "licence": "none", "version": "1", "per_class": None}
    reference = build_reference(place / "dicom", place / "reference", **about, **how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedpdc_med.simulation.films.PHANTOM_SIZE", 48)
        collected = Collected({"north": store_of(north, 0, 1)}, reference)
    (place / "runs").mkdir()
    settings = Settings(rounds=1)
    start(settings, make_method("fedavg"), None, [north], collected, None, place / "runs" / "tiny", False, 1)
    return place
