"""CIFAR-10 and CIFAR-100 from the official binary or python layout, or from torchvision's download."""

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedpdc_med.common.errors import UserError, WorkFailed
from fedpdc_med.datasets.image_set import FETCH_AGAIN, ImageSet, existing, short

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Layout:
    """File and key names of the official layouts; a binary file of images has its python file's name plus `.bin`."""

    name: str
    title: str
    classes: int
    binary_folder: str
    python_folder: str
    train_files: tuple[str, ...]
    test_file: str
    label_bytes: int
    labels_key: str
    binary_names: str
    python_names: str
    names_key: str

    def files(self, suffix: str) -> list[str]:
        return [name + suffix for name in (*self.train_files, self.test_file)]


CIFAR10 = Layout(
    name="cifar10",
    title="CIFAR-10",
    classes=10,
    binary_folder="cifar-10-batches-bin",
    python_folder="cifar-10-batches-py",
    train_files=tuple(f"data_batch_{i}" for i in range(1, 6)),
    test_file="test_batch",
    label_bytes=1,
    labels_key="labels",
    binary_names="batches.meta.txt",
    python_names="batches.meta",
    names_key="label_names",
)
CIFAR100 = Layout(
    name="cifar100",
    title="CIFAR-100",
    classes=100,
    binary_folder="cifar-100-binary",
    python_folder="cifar-100-python",
    train_files=("train",),
    test_file="test",
    label_bytes=2,  # the coarse label, then the fine one
    labels_key="fine_labels",
    binary_names="fine_label_names.txt",
    python_names="meta",
    names_key="fine_label_names",
)


def load_cifar(layout: Layout, folder: Path | None, download: bool, pickles: bool) -> ImageSet:
    """A copy with fewer images than the official one is read as it is; a run's fingerprint shows the difference."""
    holds = f"{layout.binary_folder} or {layout.python_folder}" if pickles else layout.binary_folder
    if folder is None:
        raise UserError(f"{layout.name} needs a folder: use --data DIR to name the one that contains {holds}")
    found = _find(layout, folder, pickles)
    if found is None and download:
        _download(layout, folder)
        found = _find(layout, folder, pickles)
    if found is None:
        raise UserError(
            f"no {layout.title} in the data folder '{folder.name}' (looked for {holds}): "
            "use --data DIR to name the folder that contains it, or add --download"
        )
    home, suffix = found
    parts = [_read(layout, existing(home / name), suffix) for name in layout.files(suffix)]
    images, labels = zip(*parts, strict=True)
    return ImageSet(
        name=layout.name,
        classes=_classes(layout, home, suffix),
        train_images=np.concatenate(images[:-1]),
        train_labels=np.concatenate(labels[:-1]),
        test_images=np.ascontiguousarray(images[-1]),
        test_labels=labels[-1],
    )


def _find(layout: Layout, folder: Path, pickles: bool) -> tuple[Path, str] | None:
    """The folder and file suffix of the layout found; binary is tried first because it needs no unpickling."""
    python = ((layout.python_folder, ""),) if pickles else ()
    for name, suffix in ((layout.binary_folder, ".bin"), *python):
        for home in (folder / name, folder):
            if any((home / file).is_file() for file in layout.files(suffix)):
                return home, suffix
    return None


def _read(layout: Layout, file: Path, suffix: str) -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = _read_binary(layout, file) if suffix else _read_python(layout, file)
    wrong = np.flatnonzero((labels < 0) | (labels >= layout.classes))
    if wrong.size:
        raise UserError(
            f"{short(file)}: image {wrong[0]} has label {labels[wrong[0]]}, but {layout.title} has labels "
            f"0 to {layout.classes - 1}: {FETCH_AGAIN}"
        )
    return pixels.reshape(-1, 3, 32, 32), labels


def _read_binary(layout: Layout, file: Path) -> tuple[np.ndarray, np.ndarray]:
    raw = np.fromfile(file, np.uint8)
    record = layout.label_bytes + PIXELS
    if raw.size == 0 or raw.size % record:
        raise UserError(
            f"{short(file)} has {raw.size:,} bytes, not a whole number of {record:,}-byte images: {FETCH_AGAIN}"
        )
    records = raw.reshape(-1, record)
    return records[:, layout.label_bytes :], records[:, layout.label_bytes - 1].astype(np.int64)


def _read_python(layout: Layout, file: Path) -> tuple[np.ndarray, np.ndarray]:
    entry = _unpickle(file)
    images = _pixels(entry.get("data"))
    labels: Any = entry.get(layout.labels_key)
    if images is None:
        raise UserError(f"{short(file)} has no 'data' of {PIXELS:,} bytes per image: {FETCH_AGAIN}")
    is_list = isinstance(labels, list) and all(isinstance(label, int) and abs(label) < 2**31 for label in labels)
    if not is_list or len(labels) != len(images):
        raise UserError(f"{short(file)} has no '{layout.labels_key}' with one label per image: {FETCH_AGAIN}")
    return images, np.array(labels, np.int64)


def _classes(layout: Layout, home: Path, suffix: str) -> tuple[str, ...]:
    """The class names from the layout's own list, or the label numbers if a copy has no list."""
    file = home / (layout.binary_names if suffix else layout.python_names)
    if not file.is_file():
        return tuple(str(k) for k in range(layout.classes))
    names: Any = (
        file.read_text(errors="replace", encoding="utf-8").split() if suffix else _unpickle(file).get(layout.names_key)
    )
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or not len(names) == len(set(names)) == layout.classes:
        raise UserError(f"{short(file)} does not name {layout.classes} classes: {FETCH_AGAIN}")
    return tuple(names)


class _Described:
    """What a pickle says of an array: its type or bytes. Given a wrong type, numpy would make an array that crashes."""

    made_of: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *made_of: Any) -> None:
        self.made_of = made_of

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Descriptions(pickle._Unpickler):
    """Makes text, bytes, numbers, lists and dictionaries, and calls nothing else: a pickle can be a program.

    Based on the reader written in Python, because the fast one reserves memory for any index that a file names.
    """

    makers: dict[tuple[str, str], Any] = {
        ("numpy", "ndarray"): _Described,
        ("numpy", "dtype"): _Described,
        ("numpy.core.multiarray", "_reconstruct"): _Described,
        ("numpy._core.multiarray", "_reconstruct"): _Described,  # its name since numpy 2
        ("_codecs", "encode"): _Described,  # bytes, as Python 3 writes them into the pickles of Python 2
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.makers:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which images do not need")
        return self.makers[module, name]


def _pixels(found: Any) -> np.ndarray | None:
    """The described images; None if they do not have the right number of bytes."""
    match found:
        case _Described(state=(_, (int(count), int(size)), _Described(made_of=("u1", *_)), by_column, raw)):
            pixels = _bytes(raw)
            if size == PIXELS and count and len(pixels) == count * size:
                return np.frombuffer(pixels, np.uint8).reshape(count, size, order="F" if by_column else "C").copy()
    return None


def _bytes(raw: Any) -> bytes:
    """Python 2 used one kind of string for text and bytes."""
    match raw:
        case _Described(made_of=(str(text), "latin1")) | str(text):
            return text.encode("latin1", "replace")
        case bytes():
            return raw
    return b""


def _unpickle(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            entry = _Descriptions(stream, encoding="latin1").load()
    except Exception as error:  # a broken pickle can raise nearly anything
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{short(file)} cannot be read ({reason}): {FETCH_AGAIN}") from error
    if not isinstance(entry, dict):
        raise UserError(f"{short(file)} contains no table of images or names: {FETCH_AGAIN}")
    return entry


def _download(layout: Layout, folder: Path) -> None:
    """Torchvision's archive and checksum, without its loader, which unpickles anything."""
    from torchvision import datasets
    from torchvision.datasets.utils import download_and_extract_archive

    source = getattr(datasets, layout.name.upper())
    try:
        download_and_extract_archive(
            source.url, str(folder), filename=source.filename, md5=source.tgz_md5, remove_finished=True
        )
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise WorkFailed(
            f"could not download {layout.title} ({reason}): download and unpack {source.url} by hand"
        ) from error
