"""Scikit-learn's handwritten digits: real images that need no download, so that you can try every command."""

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split

from fedpdc_med.datasets.image_set import ImageSet


def load_digits() -> ImageSet:
    """Every pixel is doubled, because two 5x5 convolutions with pooling need at least 16x16 pixels."""
    bunch = datasets.load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]  # 17 grey levels, 0 to 16
    images = pixels.repeat(2, axis=2).repeat(2, axis=3)
    labels = bunch.target.astype(np.int64)
    train, test = train_test_split(np.arange(len(labels)), test_size=0.2, stratify=labels, random_state=0)
    classes = tuple(str(digit) for digit in range(10))
    return ImageSet("digits", classes, images[train], labels[train], images[test], labels[test])
