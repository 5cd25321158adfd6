"""DICOM pixels to the image that a radiologist sees: float32 in [0, 1], dense tissue bright, patient upright.

Every step up to the inversion maps one stored value to one grey. The steps are therefore computed once for all possible
values, cached for the next film of the same scanner, and applied as one table, or as one linear ramp if that gives the
same result. The tables of a file (modality LUT, VOI LUT) are applied here because pydicom 3.0 wraps around in VOI LUTs
with 8-bit entries and cannot read modality LUTs of 10 to 15 bits.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from pydicom.pixels import get_decoder
from pydicom.uid import UID, ImplicitVRLittleEndian, RLELossless

from fedpdc_med.imaging.dicom.bounds import check_announced
from fedpdc_med.imaging.dicom.header import code, number, texts
from fedpdc_med.imaging.records import Reason, Refused, Verdict

Picture = NDArray[np.float32]
Values = NDArray[np.float64]
BLOCK = 1 << 16
SMALLEST_FILM, LEAST_GREYS = 256, 0.05


class Lut(NamedTuple):
    """A table in the file: the value of its first entry, its nominal largest value, and its float64 entries."""

    first: int
    top: float
    entries: bytes


class Steps(NamedTuple):
    """What the header says about converting stored values to greys."""

    bits_allocated: int
    bits_stored: int
    signed: bool = False
    modality: Lut | None = None
    slope: float | None = None
    intercept: float | None = None
    voi: Lut | None = None
    center: float | None = None
    width: float | None = None
    function: str = "LINEAR"
    inverted: bool = False
    padding: tuple[int, int] | None = None
    used_bits: int | None = None
    """How many bits the values need, if the header has more and does not say what to display."""


class Greys(NamedTuple):
    """The grey in [0, 1] for every pattern of the allocated bits, and how it was computed."""

    table: Picture
    lowest: int
    highest: int
    """The values that the stored bits can represent."""
    ramp: tuple[float, float] | None
    """Slope and offset, if clip(slope * value + offset, 0, 1) equals the table; it is faster."""
    notes: tuple[str, ...]


class Shown(NamedTuple):
    """An image whose greys are slope * values + offset, all in [0, 1]."""

    values: NDArray[Any]
    slope: float = 1.0
    offset: float = 0.0


def display(ds: Dataset) -> tuple[Picture, str]:
    """The film as shown on a screen, and a short text that says what was applied to its pixels."""
    shown, applied = unscaled(ds)
    return np.float32(shown.slope) * shown.values.astype(np.float32) + np.float32(shown.offset), applied


def unscaled(ds: Dataset) -> tuple[Shown, str]:
    """The film as shown on a screen, but as stored values if a linear ramp without clipping gives the greys.

    Averaging the values first and then scaling the few remaining pixels gives the same film in half the time.
    """
    steps, stored = steps_of(ds), decode(ds)
    _check_bits(steps, stored, overlaid=_overlay_in_pixels(ds))
    steps, left_out = _sensible(steps, stored)
    grey = greys(steps)
    shown = Shown(stored, *grey.ramp) if grey.ramp and _unclipped(grey, stored) else Shown(apply(grey, stored))
    values, turned = upright(shown.values, ds)
    return shown._replace(values=values), "; ".join([*left_out, *grey.notes, *turned]) or "as stored"


def _check_bits(steps: Steps, stored: NDArray[Any], overlaid: bool) -> None:
    """Values beyond the stored bits would wrap around, white to black; old overlays may use those bits."""
    low, high = int(stored.min()), int(stored.max())
    if not overlaid and (high >= 2**steps.bits_stored or low < -(2 ** (steps.bits_stored - 1))):
        raise Refused(
            Reason.UNDECODABLE, f"values beyond the {steps.bits_stored} bits given in the header", Verdict.QUARANTINED
        )


def _overlay_in_pixels(ds: Dataset) -> bool:
    tags = ds.keys()
    return any(tag >> 24 == 0x60 and tag & 0xFFFF == 0x0102 and ds[tag].value for tag in tags)


def _sensible(steps: Steps, stored: NDArray[Any]) -> tuple[Steps, list[str]]:
    """Ignores a window that shows almost nothing, and finds the bits in use if nothing says what to display."""
    notes = []
    if steps.voi is None and _has_window(steps) and stored.size >= SMALLEST_FILM:
        seen = apply(greys(steps), stored[::4, ::4])
        if ((seen > 0) & (seen < 1)).mean() < LEAST_GREYS:
            notes.append(f"window {steps.center:g}/{steps.width:g} left out, it shows almost nothing")
            steps = steps._replace(center=None, width=None)
    if steps.voi is None and not _has_window(steps) and not steps.signed:
        film = stored
        if steps.padding:
            film = stored[(stored < steps.padding[0]) | (stored > steps.padding[1])]
        most = int(film.max()) if film.size else 0
        # Scanners export 10, 12 or 14 bits as 16; read as 16 bits such a film would be nearly black.
        if 0 < (used := next((bits for bits in (8, 10, 12, 14) if most < 2**bits), 16)) < steps.bits_stored:
            steps = steps._replace(used_bits=used)
    return steps, notes


def _has_window(steps: Steps) -> bool:
    least = 1 if steps.function == "LINEAR" else 1e-9
    return steps.center is not None and steps.width is not None and steps.width >= least


def _unclipped(grey: Greys, stored: NDArray[Any]) -> bool:
    low, high = int(stored.min()), int(stored.max())
    if grey.ramp is None or low < grey.lowest or high > grey.highest:
        return False
    slope, offset = grey.ramp
    return all(-1e-9 <= slope * value + offset <= 1 + 1e-9 for value in (low, high))


def decode(ds: Dataset) -> NDArray[Any]:
    """Stored values of the single frame; unused bits may contain anything."""
    syntax = UID(ds.file_meta.get("TransferSyntaxUID") or ImplicitVRLittleEndian)
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError as error:
        raise Refused(Reason.UNDECODABLE, "transfer syntax unknown to pydicom") from error
    if not decoder.is_available:
        raise Refused(Reason.UNDECODABLE, f"{syntax.name}: needs {' or '.join(decoder.missing_dependencies)}")
    # Always the same decoder if there is a choice: the store must not depend on what else is installed.
    plugin = "pylibjpeg" if "pylibjpeg" in decoder.available_plugins else ""
    options: dict[str, Any] = {"raw": True, "view_only": True, "correct_unused_bits": False, "decoding_plugin": plugin}
    try:
        check_announced(ds, syntax)
        stored, _ = decoder.as_array(ds, **options)
    except Refused:
        raise
    except Exception as error:
        raise Refused(Reason.UNDECODABLE, f"{syntax.name}: {type(error).__name__}") from error
    if stored.shape != (ds.Rows, ds.Columns) or stored.dtype.itemsize * 8 != ds.BitsAllocated:
        raise Refused(Reason.UNDECODABLE, f"{syntax.name}: pixels do not fit the header")
    stored = stored.astype(stored.dtype.newbyteorder("="), copy=False)  # big-endian films have the other byte order
    return _right_aligned(stored, ds) if not syntax.is_encapsulated or syntax == RLELossless else stored


def _right_aligned(stored: NDArray[Any], ds: Dataset) -> NDArray[Any]:
    """Shift values whose highest bit is not BitsStored - 1 to the right, unless the header is wrong about that."""
    bits = int(ds.BitsStored)
    shift = int(ds.get("HighBit", bits - 1)) + 1 - bits
    if shift == 0:
        return stored
    if not 0 < shift <= ds.BitsAllocated - bits:
        raise Refused(Reason.UNDECODABLE, "the high bit does not fit the bits stored")
    fits_as_it_is = stored.max() < 2**bits and (stored & (2**shift - 1)).any()
    return stored if fits_as_it_is else stored >> shift


def steps_of(ds: Dataset) -> Steps:
    stored, allocated = int(ds.BitsStored), int(ds.BitsAllocated)
    if allocated not in (8, 16) or not 1 <= stored <= allocated:
        raise Refused(Reason.UNDECODABLE, f"{stored} of {allocated} bits: films have up to 16")
    # MONOCHROME1 and PresentationLUTShape INVERSE mean the same: a film with both is still inverted only once.
    inverted = code(ds, "PhotometricInterpretation") == "MONOCHROME1" or code(ds, "PresentationLUTShape") == "INVERSE"
    return Steps(
        allocated,
        stored,
        ds.get("PixelRepresentation") == 1,
        _lut(ds, "ModalityLUTSequence"),
        number(ds, "RescaleSlope"),
        number(ds, "RescaleIntercept"),
        _lut(ds, "VOILUTSequence"),
        number(ds, "WindowCenter"),
        number(ds, "WindowWidth"),
        code(ds, "VOILUTFunction") or "LINEAR",
        inverted,
        _padding(ds),
    )


@lru_cache(maxsize=32)
def greys(steps: Steps) -> Greys:
    stored = np.arange(2**steps.bits_stored, dtype=np.float64)
    if steps.signed:
        stored[len(stored) // 2 :] -= len(stored)
    values, span, notes = _modality(steps, stored)
    grey, voi = _voi(steps, values, span)
    notes += voi
    if steps.inverted:
        grey = 1 - grey
        notes.append("inverted")
    if steps.padding:
        low, high = steps.padding
        grey[(stored >= low) & (stored <= high)] = 0
        notes.append("padding black")
    # Unused high bits do not change a value, so the table repeats for each of their patterns.
    table = np.tile(grey.astype(np.float32), 2 ** (steps.bits_allocated - steps.bits_stored))
    return Greys(table, int(stored.min()), int(stored.max()), _ramp(stored, grey), tuple(notes))


def _ramp(stored: Values, grey: Values) -> tuple[float, float] | None:
    inside = np.flatnonzero((grey > 0) & (grey < 1))
    if len(inside) < 2:
        return None
    x, y = stored[inside[[0, -1]]], grey[inside[[0, -1]]]
    slope = (y[1] - y[0]) / (x[1] - x[0])
    offset = y[0] - slope * x[0]
    same = np.abs(np.clip(slope * stored + offset, 0, 1) - grey).max() < 1e-6
    return (float(slope), float(offset)) if same else None


def apply(grey: Greys, stored: NDArray[Any]) -> Picture:
    """The grey of every pixel."""
    stored = np.ascontiguousarray(stored)
    if grey.ramp and stored.min() >= grey.lowest and stored.max() <= grey.highest:
        slope, offset = grey.ramp
        return torch.from_numpy(stored.astype(np.float32)).mul_(slope).add_(offset).clamp_(0, 1).numpy()
    patterns = stored.view(f"u{stored.dtype.itemsize}").ravel()
    shown = np.empty(patterns.size, np.float32)
    # Block by block: numpy converts indices to 64 bits, and those should stay in the processor's cache.
    for start in range(0, patterns.size, BLOCK):
        block = slice(start, start + BLOCK)
        np.take(grey.table, patterns[block], out=shown[block], mode="clip")
    return shown.reshape(stored.shape)


def _modality(steps: Steps, stored: Values) -> tuple[Values, tuple[float, float], list[str]]:
    """Modality values, their possible range, and a note."""
    if steps.modality:
        return _looked_up(steps.modality, stored), (0.0, steps.modality.top), ["modality LUT"]
    slope, intercept = steps.slope, steps.intercept
    used = [f"{steps.used_bits} bits in use"] if steps.used_bits else []
    meant = stored[stored < 2 ** (steps.used_bits or steps.bits_stored)]
    if slope is None or intercept is None or (slope, intercept) == (1, 0):
        return stored, (float(meant.min()), float(meant.max())), used
    meant = meant * slope + intercept
    span = float(meant.min()), float(meant.max())
    return stored * slope + intercept, span, [*used, f"rescale {slope:g} {intercept:+g}"]


def _voi(steps: Steps, values: Values, span: tuple[float, float]) -> tuple[Values, list[str]]:
    """Grey by the VOI LUT, else the first window, else the whole possible range of modality values."""
    if steps.voi:
        return _looked_up(steps.voi, values) / steps.voi.top, ["VOI LUT"]
    center, width = steps.center, steps.width
    if center is not None and width is not None and _has_window(steps):
        return _windowed(values, center, width, steps.function), [f"window {center:g}/{width:g}"]
    low, high = span
    if not high > low:
        raise Refused(Reason.UNDECODABLE, "the rescale slope leaves no range of values")
    return np.clip((values - low) / (high - low), 0, 1), []


def _windowed(values: Values, center: float, width: float, function: str) -> Values:
    """PS3.3 C.11.2.1.2.1 and C.11.2.1.3, with 0 and 1 as the output range."""
    if function == "SIGMOID":
        return 1 / (1 + np.exp(np.clip(-4 * (values - center) / width, -700, 700)))
    if function == "LINEAR":
        center, width = center - 0.5, width - 1
    if width == 0:
        return (values > center).astype(np.float64)
    return np.clip((values - center) / width + 0.5, 0, 1)


def _looked_up(lut: Lut, values: Values) -> Values:
    entries = np.frombuffer(lut.entries, np.float64)
    return entries[np.clip(np.rint(values) - lut.first, 0, len(entries) - 1).astype(np.int64)]


def _lut(ds: Dataset, keyword: str) -> Lut | None:
    """The first table of a sequence, if it is complete."""
    sequence = ds[keyword].value if keyword in ds else None
    if not sequence or "LUTDescriptor" not in sequence[0] or "LUTData" not in sequence[0]:
        return None
    _, first, _ = (int(value) for value in sequence[0].LUTDescriptor)
    entries = lut_entries(sequence[0]).astype(np.float64)
    # Some CR systems write the size of an entry (16) where its range (say 12) belongs; viewers then follow the entries.
    bits = max(8, int(entries.max()).bit_length())
    return Lut(first, float(2**bits - 1), entries.tobytes())


def lut_entries(item: Dataset) -> NDArray[Any]:
    """The entries of a table, without any bytes after the last of them."""
    count, data = int(item.LUTDescriptor[0]) or 2**16, item.LUTData
    if isinstance(data, bytes):
        word = ">u2" if item.original_encoding[1] is False else "<u2"
        data = np.frombuffer(data, word if len(data) >= 2 * count else "u1")
    return np.atleast_1d(np.asarray(data))[:count]


def _padding(ds: Dataset) -> tuple[int, int] | None:
    """Stored values that mark the surroundings of the film rather than the film."""
    low = ds.PixelPaddingValue if "PixelPaddingValue" in ds else None
    high = ds.PixelPaddingRangeLimit if "PixelPaddingRangeLimit" in ds else low
    return (min(low, high), max(low, high)) if isinstance(low, int) and isinstance(high, int) else None


def upright(shown: NDArray[Any], ds: Dataset) -> tuple[NDArray[Any], list[str]]:
    """A frontal film with the head up and the patient's left on the viewer's right, if its orientation is known."""
    way = "".join(part[:1] for part in texts(ds, "PatientOrientation"))
    notes = []
    if way in ("FL", "FR", "HL", "HR"):
        shown, way = shown.T, way[::-1]
        notes.append("transposed")
    if way in ("RF", "RH"):
        shown = shown[:, ::-1]
        notes.append("flipped left-right")
    if way in ("LH", "RH"):
        shown = shown[::-1]
        notes.append("flipped top-bottom")
    return np.ascontiguousarray(shown), notes
