"""Tiny-ImageNet from its official folders; a copy with fewer images per class is read as it is."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.progress import track
from fedpdc_med.datasets.image_set import FETCH_AGAIN, ImageSet, existing, short

SHAPE = (3, 64, 64)
FETCH = "download and unpack http://cs231n.stanford.edu/tiny-imagenet-200.zip and name its folder with --data DIR"


def load_tiny_imagenet(folder: Path | None) -> ImageSet:
    """Classes are the sorted WordNet ids; `val` is the test set, because the official test images have no labels."""
    if folder is None:
        raise UserError(f"tiny-imagenet needs a folder: {FETCH}")
    home = next((place for place in (folder, folder / "tiny-imagenet-200") if (place / "wnids.txt").is_file()), None)
    if home is None:
        raise UserError(f"no Tiny-ImageNet in the data folder '{folder.name}' (looked for wnids.txt): {FETCH}")
    classes = tuple(sorted((home / "wnids.txt").read_text(errors="replace", encoding="utf-8").split()))
    train = [(file, k) for k, wnid in enumerate(classes) for file in _training_files(home, wnid)]
    test = _validation_files(home, classes)
    return ImageSet("tiny-imagenet", classes, *_decode(train, "training"), *_decode(test, "validation"))


def _training_files(home: Path, wnid: str) -> list[Path]:
    files = sorted((home / "train" / wnid / "images").glob("*.JPEG"))
    if not files:
        raise UserError(f"{home.name}/train/{wnid}/images contains no .JPEG file: {FETCH_AGAIN}")
    return files


def _validation_files(home: Path, classes: Sequence[str]) -> list[tuple[Path, int]]:
    label_of = {wnid: k for k, wnid in enumerate(classes)}
    table = existing(home / "val" / "val_annotations.txt")
    pairs = []
    for number, line in enumerate(table.read_text(errors="replace", encoding="utf-8").splitlines(), start=1):
        name, wnid, *_ = [*line.split("\t"), ""]
        if wnid not in label_of:
            raise UserError(f"{short(table)} line {number}: class '{wnid}' is not in wnids.txt: {FETCH_AGAIN}")
        pairs.append((existing(home / "val" / "images" / name), label_of[wnid]))
    if not pairs:
        raise UserError(f"{short(table)} is empty: {FETCH_AGAIN}")
    return pairs


def _decode(pairs: list[tuple[Path, int]], kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Deliberately one thread: for images this small a second one mostly waits for the interpreter."""
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    images = np.empty((len(pairs), *SHAPE), np.uint8)
    for i, (file, _) in enumerate(track(pairs, f"reading Tiny-ImageNet {kind} images", len(pairs))):
        try:
            image = decode_jpeg(read_file(str(file)), mode=ImageReadMode.RGB).numpy()
        except RuntimeError as error:
            raise UserError(f"{short(file)} is not a readable JPEG: {FETCH_AGAIN}") from error
        if image.shape != SHAPE:
            raise UserError(f"{short(file)} is {image.shape[2]}x{image.shape[1]} pixels, not 64x64: {FETCH_AGAIN}")
        images[i] = image
    return images, np.array([label for _, label in pairs], np.int64)
