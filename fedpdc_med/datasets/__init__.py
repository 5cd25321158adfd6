"""The benchmarks' images as arrays: digits with no download, CIFAR and Tiny-ImageNet from their official layouts."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from fedpdc_med.common.errors import UserError
from fedpdc_med.datasets.cifar import CIFAR10, CIFAR100, load_cifar
from fedpdc_med.datasets.digits import load_digits
from fedpdc_med.datasets.image_set import ImageSet
from fedpdc_med.datasets.tiny_imagenet import load_tiny_imagenet

__all__ = ["DATASETS", "ImageSet", "load"]

DATASETS: dict[str, Callable[[Path | None, bool, bool], ImageSet]] = {
    "digits": lambda folder, download, pickles: load_digits(),
    "cifar10": partial(load_cifar, CIFAR10),
    "cifar100": partial(load_cifar, CIFAR100),
    "tiny-imagenet": lambda folder, download, pickles: load_tiny_imagenet(folder),
}


def load(name: str, folder: Path | None = None, download: bool = False, pickles: bool = True) -> ImageSet:
    """Load a dataset from its own folder or the one above it; with `download`, CIFAR is downloaded there if absent.

    Without `pickles`, CIFAR is read from its binary layout only.
    """
    if name not in DATASETS:
        raise UserError(f"unknown dataset '{name}': choose one of {', '.join(DATASETS)}")
    return DATASETS[name](folder, download, pickles)
