"""Fixtures that several rooms share."""

import os
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import pytest
import tomli_w
import torch
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ComputedRadiographyImageStorage, ExplicitVRLittleEndian, generate_uid
from safetensors.numpy import save_file

from fedpdc_med import __version__
from fedpdc_med.benchmarks.catalogue import make_experiment
from fedpdc_med.federation.data import CoordinatorData, EvaluationSet, LocalFederation, SiteData, usual_settings
from fedpdc_med.federation.images import Films
from fedpdc_med.imaging.duplicates import perceptual_hash
from fedpdc_med.imaging.store import COLUMNS, pixel_hash, read_store, write_store
from fedpdc_med.methods import config_of, make_method
from fedpdc_med.runs.directory import create_run, made_with, write_predictions
from fedpdc_med.runs.plan import FilmProcessing, LocalSettings, MethodConfig, Network, Plan, Preparation
from fedpdc_med.runs.schema import (
    BenchmarkRun,
    ImageSource,
    ReferenceFacts,
    Round,
    SimulationRun,
    SiteSummary,
    StoreFingerprints,
)

torch.set_num_threads(1)
hypothesis.settings.register_profile("fedpdc", deadline=None, database=None)
hypothesis.settings.load_profile("fedpdc")

# What `make quick` leaves out: tests that start processes or a browser, or use one of these fixtures.
SLOW_FIXTURES = {"browser", "federation", "real_data", "simulated"}
SLOW_FILES = (
    "browser/",
    "cli/test_main.py",
    "cli/test_review.py",
    "engines/flare/test_door",
    "engines/flare/test_faults.py",
    "engines/flare/test_parity.py",
    "engines/flare/test_provision.py",
    "engines/flare/test_trial.py",
    "engines/test_local.py",
    "imaging/dicom/test_mutated.py",
    "imaging/ingest/test_pipeline.py",
    "performance/",
    "review/test_html_report.py",
    "simulation/test_simulate.py",
    "test_packaging.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.path.relative_to(Path(__file__).parent).as_posix()
        if file.startswith(SLOW_FILES) or SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")


PREPARATION = Preparation(mean=(60.0,), std=(60.0,))
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Callable[..., Path]:
    """real_data(name, ...): the first of these folders of real images or films; without any the test is skipped."""

    def folder(*names: str) -> Path:
        place = Path(os.environ.get("FEDPDC_DATA") or BESIDE)
        found = next((place / name for name in names if (place / name).is_dir()), None)
        return found or pytest.skip(f"no {' or '.join(names)} in $FEDPDC_DATA or ../shared/data beside the project")

    return folder


@pytest.fixture(autouse=True, scope="session")
def no_data_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test stores without saying where comes to a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDPDC_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture
def tiny_federation():
    """A maker of federations that train in a fraction of a second: 3 classes of blobs, skewed sites."""

    def make(method="fedpdc", sites=4, rounds=2, tau=1.0, seed=0, films=30, classes=3, settings=None, per_site=None):
        rng = np.random.default_rng(seed)

        def draw(count, mix):
            labels = rng.choice(classes, count, p=mix)
            images = rng.integers(0, 60, (count, 1, 16, 16))
            for image, label in zip(images, labels, strict=True):
                image[0, 4 * label : 4 * label + 5] += 150
            return Films.of(images.astype(np.uint8), labels)

        even = [1 / classes] * classes
        held = {}
        for i in range(sites):
            mix = [0.7 if k == i % classes else 0.3 / (classes - 1) for k in range(classes)]
            count = films + 10 * i
            local = {"epochs": 1, "batch_size": 8, **(per_site or {}).get(i, {})}
            held[f"site-{i}"] = SiteData(f"site-{i}", draw(count, mix), None, LocalSettings(**local))
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
        plan = Plan(
            package=__version__,
            method=config_of(make_method(method, **(settings or {}))),
            network=Network(name="cnn", channels=1, size=16, classes=classes),
            classes=tuple(f"class-{k}" for k in range(classes)),
            preparation=PREPARATION,
            rounds=rounds,
            tau=tau,
            seed=seed,
        )
        data = CoordinatorData(
            sites=tuple(held),
            weighting=draw(30, even),
            correction=draw(12, even),
            settings=usual_settings(site.settings for site in held.values()),
            evaluation={"test": EvaluationSet(test, about)},
            reported="test",
        )
        return LocalFederation(plan, data, held)

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
    kind=SimulationRun,
):
    """`own`: what each site's own model finds of its local films; `missing`: {(round, site): (status, reason)}."""
    classes, titles = list(found), titles or {}
    local = local or dict.fromkeys(classes, (1, 1))
    described = {
        name: SiteSummary(
            title=titles.get(name, ""),
            takes_part=name != "island",
            films=60,
            patients=40,
            training_films={} if name == "island" else {label: 10 + k for k, label in enumerate(classes)},
            settings=LocalSettings(),
        )
        for name in (*sites, *(["island"] if external else []))
    }
    run = create_run(folder, made_config(classes, kind=kind, method=method, rounds=planned, seed=seed, sites=described))
    made = [made_round(t, classes, sites, found, missing or {}) for t in range(1, rounds + 1)]
    run.rounds_file.write_text("".join(Round(**record).line() + "\n" for record in made), encoding="utf-8")
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
    if share:
        save_file({"weight": np.arange(6, dtype=np.float32)}, run.model_file)
    frame = pd.concat(pieces, ignore_index=True)
    write_predictions(run, frame, {"global": run.model_file} if share else {})
    return folder


def made_config(classes, *, kind=SimulationRun, method="fedpdc", rounds=4, seed=0, sites=None, **more):
    """A run's configuration; `more` are fields of its plan."""
    names = method if isinstance(method, MethodConfig) else config_of(make_method(method))
    plan = {
        "package": __version__,
        "method": names,
        "network": Network(name="cnn", channels=1, size=16, classes=len(classes)),
        "classes": tuple(classes),
        "preparation": PREPARATION,
        "film_processing": FilmProcessing(size=16),
        "rounds": rounds,
        "seed": seed,
        **more,
    }
    common = {
        "made_with": made_with(),
        "git_commit": "0123456789ab",
        "plan": Plan(**plan),
        "sites": sites or {},
    }
    if kind is BenchmarkRun:
        experiment = make_experiment("digits", "quick", "fedavg")
        return BenchmarkRun(**common, experiment=experiment, data=ImageSource(name="digits", fingerprint="f" * 16))
    return kind(
        **common,
        reference=ReferenceFacts(
            version="1",
            provenance="phantom films",
            licence="none",
            classes=tuple(classes),
            films=80,
            patients=80,
            splits={"holdout": dict.fromkeys(classes, 20)},
        ),
        data=StoreFingerprints(fingerprints={"reference": f"films of seed {seed}"}),
    )


@pytest.fixture(scope="session")
def run_config():
    return made_config


@pytest.fixture(scope="session")
def edit_config():
    """edit_config(folder, change): `change` gets the table of the run's config.toml."""

    def edited(folder, change):
        table = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
        change(table)
        (folder / "config.toml").write_text(tomli_w.dumps(table), encoding="utf-8")

    return edited


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
    known = [value for value in recall.values() if value is not None]
    told = {"accuracy": 0.7, "recall": recall, "worst_recall": min(known), "score": 0.6, "bytes": 2_000_000}
    return {"round": t, "seconds": 1.0, **told, "sites": of_sites}


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
    from fedpdc_med.hospitals import HospitalSite, Phantoms
    from fedpdc_med.hospitals.build import FilmSources, plan_for
    from fedpdc_med.imaging.ingest.labels import read_labels
    from fedpdc_med.imaging.phantoms.films import write_films
    from fedpdc_med.imaging.phantoms.scanners import Scanner
    from fedpdc_med.imaging.reference import build_reference
    from fedpdc_med.simulation.phantoms import store_of
    from fedpdc_med.simulation.simulate import start

    mix = {"normal": 12, "pneumonia": 12, "covid-19": 12}
    hospital = Phantoms(case_mix={"normal": 6, "pneumonia": 5, "covid-19": 4})
    north = HospitalSite(name="north", films=hospital, settings=LocalSettings(epochs=1, batch_size=8))
    table = write_films(place / "dicom", Scanner(), mix, 1)
    how = {"labels": read_labels(table), "labels_file": table, "size": 48, "processes": 1}
    about = {"provenance": "phantom", "licence": "none", "version": "1", "per_class": None}
    reference = build_reference(place / "dicom", place / "reference", **about, **how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedpdc_med.simulation.phantoms.PHANTOM_SIZE", 48)
        sources = FilmSources({"north": store_of(north, 0, 1)}, reference)
    (place / "runs").mkdir()
    plan = plan_for(make_method("fedavg"), reference, rounds=1)
    start(plan, [north], sources, place / "runs" / "tiny", overwrite=False, workers=1)
    return place


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


def _film(pixels=None, path: Path | None = None, **elements) -> Dataset:
    """A CR film of a chest, PA, MONOCHROME2; `elements` replace any of its elements, None takes one away."""
    if pixels is None:
        seed = sum(map(ord, str(elements.get("SOPInstanceUID", path))))
        pixels = np.random.default_rng(seed).integers(0, 4096, (64, 64)).astype(np.uint16)
    pixels = np.asarray(pixels)
    bits = pixels.dtype.itemsize * 8
    ds = Dataset()
    ds.SOPClassUID = ComputedRadiographyImageStorage
    ds.SOPInstanceUID = generate_uid(entropy_srcs=["film", str(path)])
    ds.StudyInstanceUID, ds.SeriesInstanceUID = generate_uid(), generate_uid()
    ds.Modality, ds.BodyPartExamined, ds.ViewPosition = "CR", "CHEST", "PA"
    ds.PatientID, ds.PatientName, ds.PatientSex, ds.PatientAge = "4711", "Doe^Jane", "F", "054Y"
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.Rows, ds.Columns = pixels.shape
    ds.BitsAllocated, ds.BitsStored, ds.HighBit = bits, bits, bits - 1
    ds.PixelRepresentation = int(pixels.dtype.kind == "i")
    ds.PixelData = pixels.tobytes()
    ds["PixelData"].VR = "OB" if bits == 8 else "OW"
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    for keyword, value in elements.items():
        if value is None:
            delattr(ds, keyword)
        else:
            setattr(ds, keyword, value)
    if path is not None:
        ds.save_as(path, enforce_file_format=True)
    return ds


@pytest.fixture
def film_store():
    """film_store(folder, films, label=..., ...): a store of these films, named after the folder; columns as given."""

    def make(folder: Path, films, processing=None, **columns):
        name = folder.name
        usual = {
            "film": [f"{name}-{i}" for i in range(len(films))],
            "patient": [f"{name}-p{i}" for i in range(len(films))],
            "label": "normal",
            "split": "train",
            "pixel_hash": [pixel_hash(film) for film in films],
            "perceptual_hash": [perceptual_hash(film) for film in films],
        }
        manifest = pd.DataFrame("", index=range(len(films)), columns=list(COLUMNS)).assign(**{**usual, **columns})
        write_store(folder, films, manifest, site=name, size=films.shape[-1], processing=processing or {})
        return read_store(folder)

    return make


@pytest.fixture
def film():
    return _film


@pytest.fixture
def mistake(monkeypatch, capsys) -> Callable[..., str]:
    """mistake(argument, ...): what `fedpdc` says of a user's mistake, in its one line."""

    def said(*arguments: str) -> str:
        from fedpdc_med.cli import main

        monkeypatch.setattr("sys.argv", ["fedpdc", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        error = capsys.readouterr().err
        assert stopped.value.code == 2, error
        assert len(error.strip().splitlines()) == 1 and "Traceback" not in error, error
        return error

    return said


@pytest.fixture
def fedpdc_home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
