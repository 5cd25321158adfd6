"""What a beam meets on its way through a phantom chest, as a map of density: air 0, mediastinum about 1."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from fedpdc_med.imaging.phantoms.anatomy import Anatomy, Half, Picture, Rng, axis, bump, clouds, curve_through, step

LUNG_AIR = 0.56


def chest(a: Anatomy, sides: tuple[Half, Half], opacity: Picture) -> Picture:
    """Soft tissue, less the air that disease has left, plus bone; fine detail follows the patient's own seed."""
    size, rng = len(opacity), np.random.default_rng(a.seed)
    density = soft_tissue(a, size) * (1 + 0.025 * clouds(rng, size, (5, 11)))
    grain = clouds(rng, size, (40, 80), fall=0.8)
    vessels = inked(size, 0.0022, lambda pen: vessel_tree(pen, a, sides, 2 * size, rng))
    for half in sides:
        part = density[:, half.columns]
        air = half.lung * (1 - np.clip(opacity[:, half.columns], -0.15, 0.93))
        depth = 0.86 + 0.14 * np.sqrt(np.clip(4 * half.u * (1 - half.u), 0, 1))
        part -= LUNG_AIR * air * depth * (1 - 0.16 * step(half.v - 0.75, 0.4))
        part += air * (0.2 * a.vessels * vessels[:, half.columns] + 0.012 * grain[:, half.columns])
        part += hilum(a, half) + ribs(a, half, rng) + shoulder(a, half) + breast(a, half, rng)
    return density + spine(a, size) - airways(a, size) - stomach(a, size)


def inked(size: int, blur: float, draw: Callable[[ImageDraw.ImageDraw], None]) -> Picture:
    """Lines drawn at twice the size and shrunk, so that thin ones stay smooth; in [0, 1]."""
    canvas = Image.new("L", (2 * size, 2 * size))
    draw(ImageDraw.Draw(canvas))
    soft = canvas.reduce(2).filter(ImageFilter.GaussianBlur(blur * size))
    return np.asarray(soft).astype(np.float32) / 255


def soft_tissue(a: Anatomy, size: int) -> Picture:
    y, d = axis(size)[:, None], np.abs(axis(size)[None, :] - a.centre)
    torso, neck, apex = a.half_width + a.wall, 0.07 + 0.5 * a.wall, a.apex
    outline = curve_through(
        {
            -0.2: neck,
            apex - 0.1: neck + 0.01,
            apex - 0.065: neck + 0.05,
            apex - 0.03: neck + 0.15,
            apex + 0.01: 0.38,
            apex + 0.06: 0.49,
            apex + 0.16: 0.53,
            apex + 0.3: max(torso + 0.04, 0.46),
            0.6: torso,
            1: torso + 0.015,
        },
        y,
    )
    skin = 1 - np.exp(-np.clip(outline - d, 0, 1) / 0.03)
    chord = 1 - 0.28 * np.clip(d / outline, 0, 1) ** 2
    along = curve_through({-0.2: 0.6, apex: 0.7, 0.4: 0.86, a.dome: 0.96, 1: 1.08}, y)
    thin_shoulders = 1 - 0.3 * step(d - 0.3, 0.12) * step(apex + 0.22 - y, 0.15)
    across_arm = (d - 0.55 - 0.09 * (y - 0.35)) / 0.052
    arm = 0.55 * np.sqrt(np.clip(1 - across_arm**2, 0, 1)) * step(y - (apex + 0.12), 0.1)
    return np.maximum(skin * chord * along * thin_shoulders, arm)


def hilum_height(a: Anatomy, left: bool) -> float:
    return a.apex + (0.44 if left else 0.48) * (a.dome - a.apex)


def hilum(a: Anatomy, half: Half) -> Picture:
    off = (half.y - hilum_height(a, half.left)) / (0.13 * (a.dome - a.apex))
    return 0.16 * half.lung * bump(off, 1.0) * bump(half.d - 0.075 * a.mediastinum, 0.035)


def ribs(a: Anatomy, half: Half, rng: Rng) -> Picture:
    """A rib leaves the spine, arches down to the chest wall, and returns in front: lower, thinner and fainter."""
    below_apex = np.clip((half.y - a.apex) / 0.25, 0, 1)
    t = half.d / ((a.half_width + 0.012) * (0.72 + 0.28 * np.sqrt(below_apex)))
    inside = step(1.01 - t, 0.02) * step(half.y - (a.apex - 0.02), 0.015) * step(a.dome + 0.2 - half.y, 0.1)
    t = np.minimum(t, 0.999)
    fall = np.sqrt(1 - t * t)
    tilt = t / np.maximum(fall, 0.12)
    below_first = half.y - (a.apex - 0.015 + rng.normal(0, 0.006))
    behind = below_first - a.rib_drop * (1 - fall) - 0.02 * t
    front = below_first - a.rib_drop - 0.02 - (0.14 + 0.6 * a.rib_drop) * fall
    row = _rib_row(behind, a.rib_spacing, a.rib_drop * tilt, 0.0135) * step(half.d - 0.035, 0.01) * (0.75 + 0.25 * t)
    row += 0.6 * _rib_row(front, a.rib_spacing, 0.2 * tilt, 0.0115) * step(t - 0.5, 0.1)
    return 0.15 * a.rib_brightness * row * inside * (0.35 + 0.65 * half.lung)


def _rib_row(height: Picture, spacing: float, tilt: Picture, radius: float) -> Picture:
    """All ribs of a row at once, by the distance to the nearest across its own direction; cortex outshines marrow."""
    phase = height / spacing
    off = (phase - np.round(phase)) * spacing / np.sqrt(1 + tilt * tilt)
    body = step(radius - np.abs(off), 0.004)
    rim = bump(off - radius * 0.8, 0.0032) + 0.6 * bump(off + radius * 0.8, 0.003)
    return (0.75 * body + 0.55 * rim) * step(phase + 0.5, 0.1)


def shoulder(a: Anatomy, half: Half) -> Picture:
    d, y = half.d, half.y
    t = np.clip((d - 0.03) / 0.36, 0, 1.1)
    off = np.abs(y - (a.clavicle - a.clavicle_rise * t * (1.5 - 0.5 * t) + 0.006 * np.sin(6 * t)))
    width = 0.014 + 0.008 * (t - 0.5) ** 2
    along = step(d - 0.048 - 3 * off**1.5, 0.018) * step(0.41 - d, 0.025)
    clavicle = along * (0.8 * step(width - off, 0.004) + 0.45 * bump(off - width, 0.004))

    down = y - (a.apex + 0.06)
    border = 0.29 + 0.22 * down * (1.1 - a.scapula)
    blade = step(d - border, 0.008) * step(border + 0.13 - 0.2 * down - d, 0.02) * step(down, 0.03)
    blade *= step(0.3 - down - 0.6 * np.abs(d - border), 0.03)
    edge = bump(d - border, 0.006) * step(down, 0.05) * step(0.27 - down, 0.03)

    head = step(0.05 - np.hypot(d - 0.455, y - (a.apex + 0.09)), 0.008)
    shaft = step(0.024 - np.abs(d - 0.485 - 0.12 * (y - a.apex - 0.1)), 0.006) * step(y - (a.apex + 0.1), 0.02)
    return 0.17 * clavicle + a.scapula * (0.06 * blade + 0.05 * edge) + 0.14 * np.maximum(head, shaft)


def breast(a: Anatomy, half: Half, rng: Rng) -> Picture:
    """Dense towards its lower fold, fading upwards; no two hang quite alike."""
    centre_y, centre_d = a.breast_y + rng.normal(0, 0.008), 0.205 + rng.normal(0, 0.01)
    wide, tall = 0.135 + 0.02 * a.breast, 0.1 + 0.05 * a.breast
    r = np.hypot((half.d - centre_d) / wide, (half.y - centre_y) / tall)
    low = np.clip(0.35 + 0.65 * (half.y - centre_y + tall) / (2 * tall), 0, 1)
    return 0.15 * a.breast * step(1 - r, 0.07) * low * (0.3 + 0.7 * half.lung)


def airways(a: Anatomy, size: int) -> Picture:
    y, x = axis(size)[:, None], axis(size)[None, :] - a.centre
    below_carina = y - (a.apex + 0.37 * (a.dome - a.apex))
    trachea = bump(x + 0.006 - a.curve * np.sin(6 * y), 0.014) * step(-below_carina, 0.015)
    bronchi = np.maximum(bump(x + 0.6 * below_carina, 0.01), bump(x - 0.85 * below_carina, 0.009))
    return 0.13 * trachea + 0.07 * bronchi * step(below_carina, 0.01) * step(0.065 - below_carina, 0.02)


def spine(a: Anatomy, size: int) -> Picture:
    """Vertebrae with dark discs between them, each with two pedicles and a spinous process."""
    y, x = axis(size)[:, None], axis(size)[None, :] - a.centre
    x = x - a.curve * np.sin(7 * y + 1)
    pitch = a.rib_spacing * 0.93
    phase = (y - a.apex) / pitch
    off = (phase - np.round(phase)) * pitch
    body = step(0.036 + 0.006 * np.abs(off) / pitch - np.abs(x), 0.006)
    disc = 1 - 0.5 * step(np.abs(off) - 0.4 * pitch, 0.006)
    process = bump(np.hypot(x, 0.6 * (off - 0.012)), 0.006)
    pedicle = bump(np.hypot(np.abs(x) - 0.024, off + 0.01), 0.005)
    return a.spine * (0.085 * body * disc + 0.05 * process + 0.04 * pedicle)


def stomach(a: Anatomy, size: int) -> Picture:
    """The gas bubble under the left dome, with a level where fluid begins."""
    y, x = axis(size)[:, None], axis(size)[None, :] - a.centre - 0.15
    down = y - (a.dome + a.left_dome_drop + 0.055)
    large = max(a.stomach, 0.1)
    r = np.hypot(x / (0.06 * large), down / (0.032 * large))
    return 0.2 * min(a.stomach, 1.0) * step(1 - r, 0.2) * step(0.018 - down, 0.004)


def vessel_tree(pen: ImageDraw.ImageDraw, a: Anatomy, sides: tuple[Half, Half], scale: int, rng: Rng) -> None:
    for half in sides:
        angles = np.linspace(-1.35, 1.35, 9) + rng.normal(0, 0.1, 9)
        x = np.full(9, a.centre + half.sign * 0.07 * a.mediastinum)
        roots = np.stack([x, hilum_height(a, half.left) + 0.05 * np.sin(angles)], axis=1)
        branch(pen, roots, angles, half.sign, a.dome - a.apex, scale, rng)


def branch(
    pen: ImageDraw.ImageDraw,
    start: NDArray[np.float64],
    angles: NDArray[np.float64],
    sign: int,
    height: float,
    scale: int,
    rng: Rng,
    levels: int = 5,
) -> None:
    """Fork after fork, thinner each time; angles count from straight outwards, positive downwards."""
    width, length = 0.0078, 0.15 * height
    for level in range(levels):
        steps = length * rng.uniform(0.7, 1.2, len(angles))
        end = start + np.stack([sign * steps * np.cos(angles), steps * np.sin(angles)], axis=1)
        bend = (start + end) / 2 + rng.normal(0, 0.08 * length, end.shape)
        for line in (np.concatenate([start, bend, end], axis=1) * scale).tolist():
            pen.line(line, fill=int(230 * 0.8**level), width=max(1, round(width * scale)))
        fork = rng.uniform(0.12, 0.5, (2, len(angles))) * np.array([[-1], [1]])
        start, angles = np.tile(end, (2, 1)), (angles + fork).ravel()
        width, length = width * 0.68, length * 0.78


def leads(a: Anatomy, size: int, rng: Rng) -> Picture:
    """Monitor electrodes and their wires, which lie on the skin of the sick and the healthy alike."""

    def draw(pen: ImageDraw.ImageDraw) -> None:
        for _ in range(int(rng.integers(1, 4))):
            pad = np.array([a.centre + rng.uniform(-0.3, 0.3), rng.uniform(0.25, 0.8)])
            wire = pad + np.cumsum(rng.normal((0, 0.09), 0.06, (3, 2)), axis=0)
            path = (np.vstack([pad, wire]) * 2 * size).ravel().tolist()
            pen.line(path, fill=150, width=max(2, size // 110), joint="curve")
            pen.circle((pad * 2 * size).tolist(), 0.022 * size, fill=190)

    return 0.2 * inked(size, 0.002, draw)
