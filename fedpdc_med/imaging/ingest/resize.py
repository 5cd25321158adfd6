"""Resizes films to the size that the models work with, using MONAI transforms, once at ingest.

The default pads a film to a square with black instead of cropping it. COVID-19 shows at the periphery and the bases,
tuberculosis in the apices, and small effusions in the costophrenic angles, so no edge should be cut off, and
collimation is black anyway. The drawback is that the bars reveal a film's shape, which in some datasets reveals its
source; `crop` takes the central square instead, at the cost of the edges.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from monai.transforms import CenterSpatialCrop, HistogramNormalize, Resize, ScaleIntensityRange, SpatialPad
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from fedpdc_med.imaging.classes import Fit
from fedpdc_med.imaging.dicom.pixels import Picture, Shown
from fedpdc_med.imaging.records import Reason, Refused

SMALLEST_SIDE, MOST_PIXELS, NARROWEST = 16, 100_000_000, 3.0


def to_working_size(shown: Shown, size: int, fit: Fit = "pad", equalise: bool = False) -> NDArray[np.uint8]:
    """A film as uint8 of shape (1, size, size), its aspect kept."""
    rows, columns = shown.values.shape
    if min(rows, columns) < SMALLEST_SIDE or max(rows, columns) > NARROWEST * min(rows, columns):
        raise Refused(Reason.SHAPE, f"{columns} x {rows} pixels")
    film: Any = torch.from_numpy(_reduced(shown.values, size))[None]
    if fit == "crop":
        short = min(film.shape[1:])
        film = CenterSpatialCrop((short, short))(film)
    # Averaging over areas is the fast way down without aliasing; upwards it would leave blocks.
    film = _resize(size, "area" if max(film.shape) >= size else "bilinear")(film) * shown.slope + shown.offset
    if equalise:
        film = HistogramNormalize(num_bins=256, min=0, max=1)(film)
    film = _to_bytes()(film)
    if film.shape[1:] != (size, size):
        film = SpatialPad((size, size), mode="constant")(film)
    return np.rint(np.asarray(film)).astype(np.uint8)


def picture(path: Path) -> tuple[Shown, str]:
    """A PNG or JPEG film; phone photographs have their orientation in a tag."""
    with _opened(path) as image:
        if image.width * image.height > MOST_PIXELS:
            raise Refused(Reason.SHAPE, f"{image.width} x {image.height} pixels")
        turned = ImageOps.exif_transpose(image)
        if turned.mode.startswith("I"):
            values = np.asarray(turned, np.float32)
            # Scanners export 10, 12 or 14 bits in 16; read as 16 bits such a film would be nearly black.
            bits = next((bits for bits in (8, 10, 12, 14) if values.max() < 2**bits), 16)
            return Shown(values, 1 / (2**bits - 1)), f"{bits}-bit values in a 16-bit picture"
        return Shown(np.asarray(turned.convert("L")), 1 / 255), "8-bit picture"


def _opened(path: Path) -> Image.Image:
    """Read the header only. Pillow supports more formats than these, and passes EPS to a program that executes it."""
    try:
        return Image.open(path, formats=("PNG", "JPEG"))
    except UnidentifiedImageError as error:
        raise Refused(Reason.NOT_PICTURE, "neither PNG nor JPEG by its content") from error
    except Image.DecompressionBombError as error:
        raise Refused(Reason.SHAPE, f"far more than {MOST_PIXELS:,} pixels") from error


def _reduced(values: NDArray[Any], size: int) -> Picture:
    """Means of square blocks, still at least twice as large as needed: the same average as MONAI's, but faster."""
    rows, columns = values.shape
    side = max(rows, columns) // (2 * size)
    if side < 2:
        return values.astype(np.float32)
    # What does not fill a block is less than a hundredth of the film; half of it is cut off at each edge.
    top, left = rows % side // 2, columns % side // 2
    whole = values[top : top + rows // side * side, left : left + columns // side * side]
    stripes = np.add.reduce(whole.reshape(-1, side, whole.shape[1]), axis=1, dtype=np.float32)
    blocks = stripes[:, ::side].copy()
    for column in range(1, side):
        blocks += stripes[:, column::side]
    return blocks / np.float32(side * side)


@lru_cache
def _resize(size: int, mode: str) -> Resize:
    return Resize(size, size_mode="longest", mode=mode)


@lru_cache
def _to_bytes() -> ScaleIntensityRange:
    return ScaleIntensityRange(a_min=0, a_max=1, b_min=0, b_max=255, clip=True)
