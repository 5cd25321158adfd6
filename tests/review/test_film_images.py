"""From a run's pseudonyms to the images on this machine, with one real simulation behind them."""

import pickle
import shutil

import numpy as np
import pytest

from fedpdc_med.benchmarks.catalogue import make_experiment
from fedpdc_med.benchmarks.run import start
from fedpdc_med.common.errors import UserError
from fedpdc_med.datasets import load
from fedpdc_med.federation.images import Films
from fedpdc_med.imaging.store import read_store
from fedpdc_med.models.inference import predict
from fedpdc_med.review.film_images import gather, images_of
from fedpdc_med.review.gradcam import load_model, maps, side_by_side
from fedpdc_med.runs.listing import open_run
from fedpdc_med.runs.schema import BenchmarkRun


@pytest.fixture
def view(simulated):
    return open_run(simulated / "runs", "tiny")


def test_every_predicted_film_is_found_with_the_pixels_that_the_model_saw(view):
    frame, shelf = view.predictions, images_of(view)
    assert shelf.absent == {} and set(shelf.held) == {"reference", "north"}
    images = shelf.images(list(frame["site"]), list(frame["film"]))
    assert all(image is not None and image.shape == (1, 48, 48) for image in images)
    films = Films.of(np.stack(images), np.zeros(len(images)))
    again = predict(load_model(view), films.images, view.plan.preparation, 0, len(images))
    recorded = frame[[f"p:{name}" for name in view.classes]].to_numpy()
    assert again == pytest.approx(recorded, abs=1e-4)


def test_a_pseudonym_of_another_site_is_not_shown(view):
    shelf = images_of(view)
    film = shelf.held["north"].about["film"][0]
    assert shelf.images(["reference", "nowhere", "north"], [film, film, "0" * 16]) == [None, None, None]


def test_films_ingested_again_are_not_taken_for_those_of_the_run(simulated, tmp_path):
    shutil.copytree(simulated, tmp_path / "home")
    shutil.rmtree(tmp_path / "home" / "phantoms")
    about = tmp_path / "home" / "reference" / "manifest.csv"
    about.write_text(about.read_text(encoding="utf-8").replace("normal", "pneumonia", 1), encoding="utf-8")
    shelf = images_of(open_run(tmp_path / "home" / "runs", "tiny"))
    assert shelf.held == {}
    assert "not on this machine" in shelf.absent["north"] and "corrupt" in shelf.absent["reference"]
    assert str(tmp_path) not in " ".join(shelf.absent.values())


def test_a_run_that_came_alone_says_why_its_films_cannot_be_shown(simulated, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPDC_HOME", str(tmp_path / "empty"))
    shutil.copytree(simulated / "runs", tmp_path / "elsewhere" / "runs")
    shelf = images_of(open_run(tmp_path / "elsewhere" / "runs", "tiny"))
    assert shelf.held == {} and "FEDPDC_HOME" in shelf.why_not("north") and str(tmp_path) not in shelf.why_not("north")


def test_gathered_films_keep_image_label_and_shape_together(view):
    shelf = images_of(view)
    gathered = gather(shelf, view.classes, 10_000)
    store = read_store(view.folder.parent.parent / "reference")
    rows = gathered.sites == "reference"
    assert np.array_equal(gathered.images[rows], store.films)
    assert list(gathered.labels[rows]) == list(store.manifest["label"])
    assert (gathered.shapes > 48).all()
    few = gather(shelf, ["normal"], 5)
    assert len(few.images) == len(few.labels) == 5 and set(few.labels) == {"normal"}
    assert gather(shelf, ["unheard of"], 5) is None


def test_a_benchmark_shows_its_test_images_while_they_are_the_same(tmp_path, edit_config):
    from fedpdc_med.methods import make_method

    experiment = make_experiment("digits", "quick", "fedavg", rounds=1)
    start(experiment, make_method("fedavg"), None, False, tmp_path / "digits", False, 1)
    view = open_run(tmp_path, "digits")
    shelf = images_of(view)
    first = view.predictions.iloc[0]
    (image,) = shelf.images([first["site"]], [first["film"]])
    heat = maps(load_model(view), view.plan.preparation, image[None], [0])
    assert heat.shape == (1, 16, 16) and 0 <= heat.min() <= heat.max() <= 1
    assert side_by_side(image, heat[0]).startswith(b"\x89PNG")
    edit_config(view.folder, lambda config: config["data"].update(fingerprint="another"))
    assert "differ" in images_of(open_run(tmp_path, "digits")).why_not("")


def test_a_benchmarks_images_come_from_the_readers_own_folder_and_from_no_pickle(
    tmp_path, write_run, edit_config, monkeypatch
):
    files = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    write_run(tmp_path / "runs" / "a", kind=BenchmarkRun)
    binary, python = tmp_path / "runs" / "a" / "cifar-10-batches-bin", tmp_path / "python" / "cifar-10-batches-py"
    for folder in (binary, python):
        folder.mkdir(parents=True)
    for k, name in enumerate(files):
        (binary / f"{name}.bin").write_bytes(bytes([k] * 3073))
        entry = {"data": np.full((1, 3072), k, np.uint8), "labels": [k]}
        (python / name).write_bytes(pickle.dumps(entry, protocol=2))
    images = load("cifar10", python)
    data = {"name": "cifar10", "fingerprint": images.fingerprint(), "folder": "."}  # the run brings its images along
    edit_config(tmp_path / "runs" / "a", lambda config: config.update(data=data))
    view = open_run(tmp_path / "runs", "a")
    for folder, shown in (("", False), (tmp_path / "python", False), (binary.parent, True)):
        monkeypatch.setenv("FEDPDC_DATA", str(folder))
        shelf = images_of(view)
        assert ("" in shelf.held) == shown
        assert shown or "start the review app with FEDPDC_DATA set to the folder" in shelf.why_not("")
    (image,) = shelf.images([""], ["test-00000"])
    assert np.array_equal(image, np.full((3, 32, 32), 5))


def test_a_model_file_of_another_network_is_a_sentence(view, tmp_path, edit_config):
    shutil.copytree(view.folder, tmp_path / "runs" / "tiny")
    edit_config(tmp_path / "runs" / "tiny", lambda config: config["plan"]["network"].update(name="cnn"))
    other = open_run(tmp_path / "runs", "tiny")
    with pytest.raises(UserError, match="does not fit this run"):
        load_model(other)
    (other.folder / "model.safetensors").write_bytes(b"cos\nsystem\n(S'echo pickle'\ntR.")
    with pytest.raises(UserError, match="does not fit this run"):
        load_model(open_run(tmp_path / "runs", "tiny"))
    (other.folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="no global model"):
        load_model(other)
