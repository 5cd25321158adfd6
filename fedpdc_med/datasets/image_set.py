"""The type of every benchmark dataset, and the error messages that its readers share."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedpdc_med.common.errors import UserError

FETCH_AGAIN = "the copy is corrupt; download and unpack the archive again"


@dataclass(frozen=True)
class ImageSet:
    """Images are uint8 (N, channels, height, width) in C order, labels int64 (N,) that index `classes`."""

    name: str
    classes: tuple[str, ...]
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    def fingerprint(self) -> str:
        """A hash of the exact shapes, labels and pixels, which shows whether two runs used the same images."""
        digest = hashlib.sha256()
        for array in (self.train_images, self.train_labels, self.test_images, self.test_labels):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


def short(file: Path) -> str:
    """The file with its folder: enough to find it, without printing the user's full path."""
    return f"{file.parent.name}/{file.name}"


def existing(file: Path) -> Path:
    if not file.is_file():
        raise UserError(f"{short(file)} is missing: {FETCH_AGAIN}")
    return file
