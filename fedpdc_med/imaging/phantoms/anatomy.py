"""The shape of a phantom's chest: soft implicit functions, so that every edge is smooth at any size.

Positions are fractions of the image's side: x grows to the viewer's right, y downwards. Each half of the chest is
described by `d`, the distance from the midline, because both follow the same rules with different numbers. As on every
frontal film, the patient's right is on the viewer's left.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.interpolate import PchipInterpolator

Picture = NDArray[np.floating[Any]]
Rng = np.random.Generator

AGE_BANDS = {"0-19": (1, 19), "20-39": (20, 39), "40-59": (40, 59), "60-79": (60, 79), "80+": (80, 95)}


@dataclass(frozen=True)
class Anatomy:
    """What stays the same between two films of one patient; lengths are fractions of the image's side."""

    age: int
    sex: str
    centre: float
    apex: float
    dome: float
    left_dome_drop: float
    half_width: float
    wall: float
    heart: float
    mediastinum: float
    knob: float
    angle_depth: float
    rib_spacing: float
    rib_drop: float
    rib_brightness: float
    clavicle: float
    clavicle_rise: float
    scapula: float
    breast: float
    breast_y: float
    stomach: float
    vessels: float
    spine: float
    curve: float
    seed: int


def draw_anatomy(rng: Rng, age: int, sex: str) -> Anatomy:
    """Children have a short wide chest, a large heart and level ribs; age brings a wide aorta and a bent spine."""
    child = min(max((16 - age) / 14, 0.0), 1.0)
    old = min(max((age - 45) / 40, 0.0), 1.0)
    grown_woman = sex == "F" and age > 13
    stout = rng.normal()
    apex = _within(rng.normal(0.13 + 0.035 * child, 0.016), 0.085, 0.2)
    clavicle_below_apex = rng.normal(0.095, 0.014)
    return Anatomy(
        age=age,
        sex=sex,
        centre=rng.normal(0.5, 0.008),
        apex=apex,
        dome=rng.normal(0.735 - 0.08 * child, 0.03) - 0.008 * stout,
        left_dome_drop=rng.normal(0.022, 0.012),
        half_width=rng.normal(0.365 - 0.015 * (sex == "F") - 0.012 * child, 0.015),
        wall=_within(0.07 - 0.015 * child + 0.02 * stout, 0.04, 0.13),
        heart=_within(rng.normal(1.0 + 0.18 * child + 0.1 * old, 0.11), 0.75, 1.4),
        mediastinum=_within(rng.normal(1.0 + 0.3 * child + 0.12 * old, 0.12), 0.75, 1.6),
        knob=_within(rng.normal(0.018 * (1 - child) + 0.014 * old, 0.006), 0, 0.045),
        angle_depth=rng.normal(0.1 - 0.02 * child, 0.015),
        rib_spacing=rng.normal(0.073 - 0.012 * child, 0.003),
        rib_drop=rng.normal(0.1 - 0.06 * child, 0.012),
        rib_brightness=rng.uniform(0.7, 1.15) * (1 - 0.25 * old),
        clavicle=apex + clavicle_below_apex,
        clavicle_rise=min(rng.normal(0.06, 0.018), clavicle_below_apex - 0.04),
        scapula=rng.uniform(0.25, 1.0),
        breast=_within(rng.normal(0.75, 0.35), 0.1, 1.4) if grown_woman else rng.uniform(0, 0.15),
        breast_y=rng.normal(0.665, 0.03),
        stomach=rng.uniform(0.5, 1.2) if rng.random() < 0.65 else 0.0,
        vessels=rng.uniform(0.7, 1.3),
        spine=rng.uniform(0.6, 1.2),
        curve=rng.normal(0, 0.004 + 0.008 * old),
        seed=int(rng.integers(2**62)),
    )


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


@dataclass(frozen=True)
class Half:
    """One side of the chest on the pixel grid: `u` runs from mediastinum to ribs, `v` from apex to diaphragm."""

    left: bool
    columns: slice
    d: Picture
    y: Picture
    u: Picture
    v: Picture
    lung: Picture

    @property
    def sign(self) -> int:
        """The way outwards along x."""
        return 1 if self.left else -1


@lru_cache(maxsize=8)
def axis(size: int) -> Picture:
    return ((np.arange(size) + 0.5) / size).astype(np.float32)


def step(z: Picture, softness: float) -> Picture:
    """Zero below `-softness`, one above `softness`, smooth between."""
    t = np.clip(z * (0.5 / softness) + 0.5, 0, 1)
    return t * t * (3 - 2 * t)


def bump(z: Picture, width: float) -> Picture:
    """A cheap bell: one at zero, nothing beyond twice `width`."""
    t = np.clip(1 - (z * (0.5 / width)) ** 2, 0, 1)
    return t * t


def curve_through(points: dict[float, float], at: Picture) -> Picture:
    return PchipInterpolator(list(points), list(points.values()), extrapolate=True)(at).astype(np.float32)


def clouds(rng: Rng, size: int, cells: tuple[int, ...], fall: float = 0.6) -> Picture:
    """Smooth noise of about unit spread: `cells` counts the blobs across, each finer layer is weaker by `fall`."""
    total = np.zeros((size, size), np.float32)
    for layer, count in enumerate(cells):
        blobs = Image.fromarray(rng.standard_normal((count, count), dtype=np.float32))
        total += fall**layer * np.asarray(blobs.resize((size, size), Image.Resampling.BICUBIC))
    return total / float(0.75 * np.sqrt(sum(fall ** (2 * layer) for layer in range(len(cells)))))


def halves(a: Anatomy, size: int) -> tuple[Half, Half]:
    """The patient's right half (viewer's left), then the left, with their lungs."""
    return _half(a, size, left=False), _half(a, size, left=True)


def _half(a: Anatomy, size: int, left: bool) -> Half:
    x, y = axis(size), axis(size)[:, None]
    middle = round(a.centre * size)
    columns = slice(middle, size) if left else slice(0, middle)
    d = np.abs(x[columns] - a.centre)[None, :]
    dome = a.dome + (a.left_dome_drop if left else 0.0)
    lateral, medial = _lung_borders(a, (y - a.apex) / (dome - a.apex), left)

    across = (d - 0.05) / (a.half_width - 0.05)
    outer, inner = np.clip((across - 0.42) / 0.58, 0, 1.3), np.clip((0.42 - across) / 0.42, 0, 1.2)
    diaphragm = dome + a.angle_depth * outer**2.4 + 0.035 * inner**2
    roof = a.apex + 6.5 * (d - 0.368 * a.half_width) ** 2
    cage = step(lateral - d, 0.006) * step(y - roof, 0.006)
    # Crisp where heart and dome meet the lung; a little lung shines through behind both.
    past_heart, above_dome = d - medial, diaphragm - y
    beside = 0.86 * step(past_heart, 0.006) + 0.14 * step(past_heart + 0.035, 0.05)
    above = 0.9 * step(above_dome, 0.005) + 0.1 * step(above_dome + 0.03, 0.045)
    u, v = past_heart / (lateral - medial), (y - a.apex) / (diaphragm - a.apex)
    return Half(left, columns, d, y, u, v, cage * beside * above)


def _lung_borders(a: Anatomy, depth: Picture, left: bool) -> tuple[Picture, Picture]:
    """Distance from the midline to the ribs and to the heart, row by row; the heart's tip is on the patient's left."""
    wide, m, h = a.half_width / 0.34, a.mediastinum, a.heart
    ribs = {-0.2: 0.11, 0: 0.186, 0.05: 0.206, 0.12: 0.233, 0.25: 0.27, 0.5: 0.311, 0.8: 0.336, 1.1: 0.34, 1.6: 0.33}
    top = {-0.2: 0.11, 0: 0.085, 0.05: 0.064, 0.1: 0.052 * m}
    if left:
        arch = {0.18: 0.05 * m + 0.2 * a.knob, 0.27: 0.056 * m + a.knob, 0.37: 0.056 * m + 0.3 * a.knob}
        heart = {
            0.47: 0.07 * m,
            0.58: 0.105 * h,
            0.72: 0.155 * h,
            0.84: 0.187 * h,
            0.95: 0.19 * h,
            1.1: 0.16 * h,
            1.6: 0.15,
        }
    else:
        arch = {0.25: 0.05 * m, 0.45: 0.055 * m}
        heart = {0.58: 0.07 * h, 0.72: 0.094 * h, 0.86: 0.1 * h, 1: 0.085 * h, 1.2: 0.07, 1.6: 0.06}
    return curve_through(ribs, depth) * wide, curve_through(top | arch | heart, depth) * wide
