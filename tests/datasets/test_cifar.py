"""Small files in the official layouts, written here, and the real sets where there is a copy of them."""

import functools
import hashlib
import http.server
import pickle
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.datasets import DATASETS, load
from fedpdc_med.datasets.cifar import CIFAR10, CIFAR100, Layout

LAYOUTS = {"cifar10": CIFAR10, "cifar100": CIFAR100}
IMAGES_A_FILE = 4


class Python2Pickler(pickle._Pickler):
    """Writes text and bytes as Python 2 strings, as the official files have them."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_string(self: Any, text: str | bytes) -> None:
        raw = text.encode("latin1") if isinstance(text, str) else text
        self.write(pickle.BINSTRING + struct.pack("<i", len(raw)) + raw)
        self.memoize(text)

    dispatch[str] = dispatch[bytes] = save_string


def write_pickle(file: Path, entry: Any) -> None:
    with file.open("wb") as stream:
        Python2Pickler(stream, protocol=2).dump(entry)
    file.write_bytes(file.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))


def contents(layout: Layout) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(file, labels, pixels) for each file of a layout, the same at each call."""
    rng = np.random.default_rng(0)
    n = IMAGES_A_FILE
    return [
        (name, rng.integers(layout.classes, size=n), rng.integers(256, size=(n, 3072), dtype=np.uint8))
        for name in layout.files("")
    ]


def class_names(layout: Layout) -> list[str]:
    return [f"thing_{k}" for k in range(layout.classes)]


def write_binary(layout: Layout, parent: Path) -> Path:
    home = parent / layout.binary_folder
    home.mkdir(parents=True)
    for name, labels, pixels in contents(layout):
        heads = [labels] if layout is CIFAR10 else [labels // 5, labels]  # the coarse label comes first
        np.column_stack([*heads, pixels]).astype(np.uint8).tofile(home / f"{name}.bin")
    (home / layout.binary_names).write_text("\n".join(class_names(layout)) + "\n\n", encoding="utf-8")
    return home


def write_python(layout: Layout, parent: Path) -> Path:
    home = parent / layout.python_folder
    home.mkdir(parents=True)
    for name, labels, pixels in contents(layout):
        write_pickle(home / name, {"data": pixels, layout.labels_key: labels.tolist(), "batch_label": name})
    write_pickle(home / layout.python_names, {layout.names_key: class_names(layout)})
    return home


def one_line_error(name: str, folder: Path | None, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        load(name, folder, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---- digits


def test_digits_come_without_a_folder_as_a_stratified_80_20_split() -> None:
    digits = load("digits", None)

    assert digits.train_images.shape == (1437, 1, 16, 16)
    assert digits.test_images.shape == (360, 1, 16, 16)
    assert digits.classes == tuple("0123456789")
    train, test = np.bincount(digits.train_labels), np.bincount(digits.test_labels)
    assert np.all(np.abs(test - (train + test) / 5) < 1)


def test_a_digit_is_the_scikit_learn_one_with_every_pixel_doubled_and_full_white_at_255() -> None:
    from sklearn.datasets import load_digits

    digits = load("digits", None)
    small = np.concatenate([digits.train_images, digits.test_images])[:, 0, ::2, ::2]

    assert np.array_equal(digits.train_images[:, :, ::2, ::2], digits.train_images[:, :, 1::2, 1::2])
    assert small.max() == 255
    ours = sorted(image.tobytes() for image in np.rint(small / 255 * 16).astype(np.uint8))
    theirs = sorted(image.tobytes() for image in load_digits().images.astype(np.uint8))
    assert ours == theirs


@pytest.mark.parametrize("name", ["digits", "cifar10"])
def test_arrays_are_ready_for_training(name: str, tmp_path: Path) -> None:
    write_binary(CIFAR10, tmp_path)
    images = load(name, tmp_path)

    for pixels, labels in ((images.train_images, images.train_labels), (images.test_images, images.test_labels)):
        assert pixels.dtype == np.uint8 and pixels.ndim == 4 and pixels.flags.c_contiguous
        assert labels.dtype == np.int64 and labels.shape == (len(pixels),)


def test_fingerprint_stays_for_the_same_images_and_changes_with_one_pixel_one_label_or_the_shape() -> None:
    digits = load("digits", None)
    pixels, labels = digits.train_images.copy(), digits.test_labels.copy()
    pixels[0, 0, 0, 0] += 1
    labels[0] = (labels[0] + 1) % 10
    others = [
        replace(digits, train_images=pixels),
        replace(digits, test_labels=labels),
        replace(digits, train_images=digits.train_images.reshape(-1, 1, 8, 32)),
    ]

    assert digits.fingerprint() == load("digits", None).fingerprint()
    assert len({digits.fingerprint(), *(other.fingerprint() for other in others)}) == 4
    assert len(digits.fingerprint()) == 16


# ---- CIFAR


def test_cifar10_binary_is_a_label_byte_then_red_green_and_blue_planes(tmp_path: Path) -> None:
    home = write_binary(CIFAR10, tmp_path)
    red_row = bytes(range(32)) + bytes(992)
    (home / "data_batch_1.bin").write_bytes(bytes([7]) + red_row + bytes([2] * 1024) + bytes([3] * 1024))

    images = load("cifar10", home)

    assert images.train_labels[0] == 7
    assert images.train_images[0, 0, 0].tolist() == list(range(32))
    assert images.train_images[0, 0, 1:].max() == 0
    assert np.all(images.train_images[0, 1] == 2) and np.all(images.train_images[0, 2] == 3)
    assert len(images.train_labels) == 1 + 4 * IMAGES_A_FILE


@pytest.mark.parametrize("name", LAYOUTS)
def test_both_layouts_give_the_images_and_labels_that_were_written(name: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]
    binary = load(name, write_binary(layout, tmp_path / "a"))
    python = load(name, write_python(layout, tmp_path / "b"))

    *train, (_, test_labels, test_pixels) = contents(layout)
    assert binary.train_labels.tolist() == np.concatenate([labels for _, labels, _ in train]).tolist()
    assert binary.test_labels.tolist() == test_labels.tolist()
    assert np.array_equal(binary.train_images.reshape(-1, 3072), np.concatenate([pixels for _, _, pixels in train]))
    assert np.array_equal(binary.test_images.reshape(-1, 3072), test_pixels)
    assert binary.classes == python.classes == tuple(class_names(layout))
    for field in ("train_images", "train_labels", "test_images", "test_labels"):
        assert np.array_equal(getattr(python, field), getattr(binary, field))
    assert python.fingerprint() == binary.fingerprint()


@pytest.mark.parametrize("write", [write_binary, write_python])
def test_the_folder_itself_or_the_one_above_it_will_do(write: Any, tmp_path: Path) -> None:
    home = write(CIFAR100, tmp_path / "data")

    assert load("cifar100", home).fingerprint() == load("cifar100", tmp_path / "data").fingerprint()


@pytest.mark.parametrize("write", [write_binary, write_python])
def test_without_a_list_of_names_the_classes_are_numbers(write: Any, tmp_path: Path) -> None:
    home = write(CIFAR10, tmp_path)
    (home / (CIFAR10.binary_names if write is write_binary else CIFAR10.python_names)).unlink()

    assert load("cifar10", home).classes == tuple("0123456789")


def test_a_pickle_that_is_a_program_is_refused_and_does_not_run(tmp_path: Path) -> None:
    class Program:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "it-ran",)

    home = write_python(CIFAR10, tmp_path)
    (home / "data_batch_2").write_bytes(pickle.dumps({"data": Program()}))

    message = one_line_error("cifar10", home)

    assert "cifar-10-batches-py/data_batch_2" in message and "which images do not need" in message
    assert not (tmp_path / "it-ran").exists()


CRASH = """import sys
from pathlib import Path
from fedpdc_med.common.errors import UserError
from fedpdc_med.datasets import load
try:
    load("cifar10", Path(sys.argv[1]))
except UserError as error:
    print(error)
"""


def crashing_array() -> bytes:
    """A pickle of an array that takes its bytes for addresses of objects: its type says object, its state denies it."""

    def called(name: bytes, values: bytes) -> bytes:
        return b"cnumpy" + name + b"\n(" + values + b"tR"

    kind = called(b"\ndtype", b"U\x02O8I0\nI1\n") + b"(I3\nU\x01|NNNI-1\nI-1\nI0\ntb"
    array = called(b".core.multiarray\n_reconstruct", b"cnumpy\nndarray\n(I0\ntU\x01b")
    return array + b"(I1\n(I4\nt" + kind + b"I00\nU\x20" + b"A" * 32 + b"tb"


def test_a_pickle_of_an_array_that_crashes_numpy_is_refused(tmp_path: Path) -> None:
    home = write_python(CIFAR10, tmp_path)
    (home / "batches.meta").write_bytes(b"\x80\x02}U\x0blabel_names](" + crashing_array() + b"es.")

    done = subprocess.run([sys.executable, "-c", CRASH, str(home)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "cifar-10-batches-py/batches.meta does not name 10 classes" in done.stdout


def test_a_pickle_that_names_a_far_place_takes_no_memory_for_it(tmp_path: Path) -> None:
    home = write_python(CIFAR10, tmp_path)
    (home / "test_batch").write_bytes(b"\x80\x02Nr\xff\xff\xff\x7f.")  # None, to be remembered at place 2**31 - 1
    script = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30,) * 2)\n{CRASH}"

    done = subprocess.run([sys.executable, "-c", script, str(home)], capture_output=True, text=True)

    assert "contains no table of images or names" in done.stdout


@pytest.mark.parametrize("numpy_core", [b"numpy.core.multiarray", b"numpy._core.multiarray"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_of_protocol_2_by_python_3_and_any_numpy_are_read(order: Any, numpy_core: bytes, tmp_path: Path) -> None:
    home = write_python(CIFAR10, tmp_path)
    expected = load("cifar10", home)
    name, labels, pixels = contents(CIFAR10)[-1]
    raw = pickle.dumps({"data": np.asarray(pixels, order=order), "labels": labels.tolist()}, protocol=2)
    assert b"_codecs" in raw
    (home / name).write_bytes(raw.replace(b"numpy._core.multiarray", numpy_core))

    assert load("cifar10", home).fingerprint() == expected.fingerprint()


def test_wrong_binary_files_are_named_with_what_was_found(tmp_path: Path) -> None:
    home = write_binary(CIFAR10, tmp_path)
    file = home / "data_batch_3.bin"
    whole = file.read_bytes()

    file.write_bytes(whole[:5000])
    assert "cifar-10-batches-bin/data_batch_3.bin has 5,000 bytes" in one_line_error("cifar10", tmp_path)
    file.write_bytes(b"")
    assert "data_batch_3.bin has 0 bytes" in one_line_error("cifar10", tmp_path)
    file.write_bytes(whole[:3073] + bytes([10]) + whole[3074:])
    message = one_line_error("cifar10", tmp_path)
    assert "data_batch_3.bin: image 1 has label 10, but CIFAR-10 has labels 0 to 9" in message
    file.unlink()
    message = one_line_error("cifar10", tmp_path)
    assert "data_batch_3.bin is missing" in message and "download" in message
    file.write_bytes(whole)
    (home / CIFAR10.binary_names).write_text("cat\ndog\n", encoding="utf-8")
    assert "batches.meta.txt does not name 10 classes" in one_line_error("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"labels": [0]}, "has no 'data'"),
        ({"data": np.zeros((1, 100), np.uint8), "labels": [0]}, "has no 'data'"),
        ({"data": np.zeros((1, 3072), np.float32), "labels": [0]}, "has no 'data'"),
        ({"data": np.zeros((1, 3072), object), "labels": [0]}, "has no 'data'"),
        ({"data": np.zeros((0, 3072), np.uint8), "labels": []}, "has no 'data'"),
        ({"data": [1, 2, 3], "labels": [0]}, "has no 'data'"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}, "has no 'labels'"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": ["cat"]}, "has no 'labels'"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [-1]}, "image 0 has label -1"),
        (["not", "a", "table"], "contains no table"),
    ],
)
def test_wrong_python_files_are_named_with_what_was_found(entry: Any, expected: str, tmp_path: Path) -> None:
    home = write_python(CIFAR10, tmp_path)
    write_pickle(home / "test_batch", entry)

    message = one_line_error("cifar10", tmp_path)

    assert "cifar-10-batches-py/test_batch" in message and expected in message


def test_a_python_file_cut_short_is_refused(tmp_path: Path) -> None:
    home = write_python(CIFAR100, tmp_path)
    (home / "train").write_bytes((home / "train").read_bytes()[:-500])

    assert "cifar-100-python/train cannot be read" in one_line_error("cifar100", tmp_path)


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "digits"])
def test_a_missing_folder_says_what_to_give(name: str, tmp_path: Path) -> None:
    assert "--data DIR" in one_line_error(name, None)
    for folder in (tmp_path, tmp_path / "nowhere"):
        message = one_line_error(name, folder)
        assert f"'{folder.name}'" in message and "--data DIR" in message
        assert str(folder) not in message


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    assert "digits, cifar10, cifar100, tiny-imagenet" in one_line_error("mnist", None)


@pytest.fixture
def archive_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Torchvision's CIFAR-10 address, pointed at a small archive on this machine."""
    served = tmp_path / "served"
    archive = served / "cifar-10-python.tar.gz"
    write_python(CIFAR10, served)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(served / CIFAR10.python_folder, CIFAR10.python_folder)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/{archive.name}"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(torchvision.datasets.CIFAR10, "url", address)
        monkeypatch.setattr(torchvision.datasets.CIFAR10, "tgz_md5", hashlib.md5(archive.read_bytes()).hexdigest())
        yield
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("archive_server")
def test_download_fetches_the_archive_once_and_loads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloaded = load("cifar10", tmp_path / "data", download=True)

    assert downloaded.fingerprint() == load("cifar10", tmp_path / "served").fingerprint()
    assert [entry.name for entry in (tmp_path / "data").iterdir()] == [CIFAR10.python_folder]
    monkeypatch.setattr(torchvision.datasets.CIFAR10, "url", "http://127.0.0.1:9/nobody-listens")
    assert load("cifar10", tmp_path / "data", download=True).fingerprint() == downloaded.fingerprint()


@pytest.mark.usefixtures("archive_server")
@pytest.mark.parametrize(("setting", "wrong"), [("tgz_md5", "0" * 32), ("url", "http://127.0.0.1:9/nobody-listens")])
def test_a_download_that_fails_says_what_to_do(
    setting: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torchvision.datasets.CIFAR10, setting, wrong)
    with pytest.raises(WorkFailed, match=r"could not download CIFAR-10 .*by hand"):
        load("cifar10", tmp_path / "data", download=True)


# ---- the real CIFAR sets


@pytest.mark.parametrize(
    ("name", "first", "last", "mean", "deviation"),
    [
        ("cifar10", "airplane", "truck", (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)),
        ("cifar100", "apple", "worm", (129.3, 124.1, 112.4), (68.2, 65.4, 70.4)),
    ],
)
def test_the_real_cifar_is_complete_balanced_and_has_its_known_mean(
    name: str,
    first: str,
    last: str,
    mean: tuple[float, ...],
    deviation: tuple[float, ...],
    real_data: Callable[..., Path],
) -> None:
    layout = LAYOUTS[name]
    images = load(name, real_data(layout.binary_folder, layout.python_folder).parent)

    assert set(np.bincount(images.train_labels)) == {50_000 // layout.classes}
    assert set(np.bincount(images.test_labels)) == {10_000 // layout.classes}
    assert (images.classes[0], images.classes[-1]) == (first, last)
    assert images.train_images.mean(axis=(0, 2, 3)) == pytest.approx(mean, abs=0.1)
    assert images.train_images.std(axis=(0, 2, 3)) == pytest.approx(deviation, abs=0.1)
