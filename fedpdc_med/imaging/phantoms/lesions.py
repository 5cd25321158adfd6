"""What disease adds to a phantom's lungs, as opacity: the fraction of the air that is replaced by something denser.

Each class follows its textbook appearance and sometimes departs from it, as in patients: pneumonia fills a lobe,
usually on one side; COVID-19 hazes the outer lower zones of both lungs; tuberculosis scars and cavitates the upper
zones.
"""

from collections.abc import Callable

import numpy as np
from PIL import ImageDraw

from fedpdc_med.imaging.phantoms.anatomy import Anatomy, Half, Picture, Rng, bump, clouds, step
from fedpdc_med.imaging.phantoms.tissue import branch, hilum_height, inked

Sides = tuple[Half, Half]

# Per lobe, in (u, v): centre, radii, and the v of the fissure that bounds it below (positive) or above (negative).
RIGHT_LOBES = ((0.5, 0.24, 0.55, 0.24, 0.44), (0.32, 0.72, 0.42, 0.22, -0.5), (0.55, 0.84, 0.5, 0.24, 0.0))
LEFT_LOBES = ((0.5, 0.3, 0.55, 0.26, 0.52), (0.25, 0.7, 0.38, 0.22, 0.0), (0.5, 0.85, 0.5, 0.24, 0.0))


def opacity(label: str, a: Anatomy, sides: Sides, size: int, rng: Rng) -> Picture:
    """Opacity of the whole picture; `normal` has none, and one diseased film in six shows an early, faint stage."""
    total = np.zeros((size, size), np.float32)
    if label == "normal":
        return total
    severity = rng.beta(1.8, 1.6)
    faint = rng.uniform(0.15, 0.5) if rng.random() < 1 / 6 else 1.0
    DISEASES[label](total, a, sides, severity, rng)
    return total * faint


def incidental(a: Anatomy, sides: Sides, size: int, rng: Rng) -> Picture:
    """Incidental findings in any class: haze of a shallow breath, plate atelectasis, an apical cap, a scar."""
    total = np.zeros((size, size), np.float32)
    haze = rng.uniform(0.05, 0.22) if rng.random() < 0.4 else 0.0
    for half in sides:
        part = total[:, half.columns]
        part += haze * rng.uniform(0.6, 1.0) * step(half.v - 0.62, 0.4)
        if rng.random() < 0.12:
            plate = half.v - rng.uniform(0.72, 0.93) + rng.uniform(-0.15, 0.15) * half.u
            part += 0.3 * bump(plate, 0.009) * bump(half.u - rng.uniform(0.3, 0.7), rng.uniform(0.15, 0.35))
        if rng.random() < 0.1 + 0.25 * (a.age > 60):
            part += rng.uniform(0.15, 0.4) * step(rng.uniform(0.03, 0.06) - half.v, 0.025)
        if rng.random() < 0.15:
            spot = np.hypot(half.u - rng.uniform(0.1, 0.9), 2.2 * (half.v - rng.uniform(0.1, 0.9)))
            part += rng.uniform(0.3, 0.7) * bump(spot, rng.uniform(0.012, 0.03))
    return total


def pneumonia(total: Picture, a: Anatomy, sides: Sides, severity: float, rng: Rng) -> None:
    first = int(rng.integers(2))
    noise = clouds(rng, len(total), (6, 12, 24))
    _consolidation(total, a, sides[first], noise, severity, rng)
    if rng.random() < 0.12:
        _consolidation(total, a, sides[1 - first], noise, 0.5 * severity, rng)
    if rng.random() < 0.3:
        _effusion(total, sides[first], severity, rng)


def _consolidation(total: Picture, a: Anatomy, half: Half, noise: Picture, severity: float, rng: Rng) -> None:
    part, uneven = total[:, half.columns], noise[:, half.columns]
    u0, v0, ru, rv, fissure = (LEFT_LOBES if half.left else RIGHT_LOBES)[rng.choice(3, p=[0.28, 0.27, 0.45])]
    u0, v0, extent = u0 + rng.normal(0, 0.1), v0 + rng.normal(0, 0.05), 0.6 + 0.55 * severity
    r = np.hypot((half.u - u0) / (ru * extent), (half.v - v0) / (rv * extent))
    fill = (0.45 + 0.42 * severity) * step(1 - r + 0.17 * uneven, rng.uniform(0.35, 0.65)) * (1 + 0.09 * uneven)
    if fissure and rng.random() < 0.75:
        fill *= step(np.sign(fissure) * (abs(fissure) - half.v) + 0.06 * (half.u - 0.5), 0.02)
    if rng.random() < 0.45:
        fill *= 1 - 0.5 * _air_bronchogram(a, half, len(total), rng)[:, half.columns]
    np.maximum(part, fill, out=part)


def _air_bronchogram(a: Anatomy, half: Half, size: int, rng: Rng) -> Picture:
    """Airways stay open and dark inside a filled lobe."""
    roots = np.tile([a.centre + half.sign * 0.06, hilum_height(a, half.left)], (7, 1))
    angles = np.linspace(-1.2, 1.3, 7) + rng.normal(0, 0.1, 7)
    height = a.dome - a.apex
    return inked(size, 0.003, lambda pen: branch(pen, roots, angles, half.sign, height, 2 * size, rng, levels=3))


def _effusion(total: Picture, half: Half, severity: float, rng: Rng) -> None:
    """Fluid blunts the angle and climbs the chest wall as a meniscus."""
    part = total[:, half.columns]
    level = 1.03 - rng.uniform(0.02, 0.2) * severity - 0.16 * np.clip(half.u, 0, 1) ** 4
    np.maximum(part, 0.92 * step(half.v - level, 0.05), out=part)


def covid(total: Picture, a: Anatomy, sides: Sides, severity: float, rng: Rng) -> None:
    noise = clouds(rng, len(total), (7, 14, 28))
    mesh = clouds(rng, len(total), (48, 96), fall=0.9)
    for half in sides:
        clear = np.ones_like(half.u)
        for _ in range(int(rng.integers(2, 4 + round(3 * severity)))):
            u0, v0 = rng.beta(5, 1.3), 0.42 + 0.55 * rng.beta(1.6, 1.2)
            ru, rv = rng.uniform(0.14, 0.3), rng.uniform(0.07, 0.16)
            r = np.hypot((half.u - u0) / ru, (half.v - v0) / rv) - 0.3 * noise[:, half.columns]
            clear *= 1 - rng.uniform(0.55, 1.0) * step(1 - r, 0.7)
        # A faint veil over the outer lower zone ties the patches together.
        veil = 0.35 * step(half.u - 0.45, 0.4) * step(half.v - 0.5, 0.3)
        haze = np.maximum(1 - clear, veil) * (1 + 0.16 * mesh[:, half.columns])
        total[:, half.columns] = (0.24 + 0.42 * severity) * rng.uniform(0.55, 1.0) * haze


def tuberculosis(total: Picture, a: Anatomy, sides: Sides, severity: float, rng: Rng) -> None:
    first = int(rng.integers(2))
    noise = clouds(rng, len(total), (10, 20, 40))
    _upper_zone(total, a, sides[first], noise, severity, rng)
    if rng.random() < 0.4:
        _upper_zone(total, a, sides[1 - first], noise, 0.6 * severity, rng)


def _upper_zone(total: Picture, a: Anatomy, half: Half, noise: Picture, severity: float, rng: Rng) -> None:
    part, patchy = total[:, half.columns], noise[:, half.columns]
    u0, v0 = rng.uniform(0.3, 0.7), rng.uniform(0.12, 0.28)
    r = np.hypot((half.u - u0) / rng.uniform(0.35, 0.55), (half.v - v0) / rng.uniform(0.13, 0.22))
    part += (0.3 + 0.36 * severity) * step(1.1 - r, 0.6) * np.clip(0.6 + 0.45 * patchy, 0, 1.4)
    part += (0.3 + 0.25 * severity) * _nodules_and_strands(a, half, len(total), severity, rng)[:, half.columns]
    if rng.random() < 0.35 + 0.45 * severity:
        for _ in range(int(rng.integers(1, 3))):
            _cavity(part, half, u0 + rng.normal(0, 0.12), v0 + rng.normal(0, 0.05), patchy, severity, rng)


def _nodules_and_strands(a: Anatomy, half: Half, size: int, severity: float, rng: Rng) -> Picture:
    """Scattered seeds, some tied to the hilum by scar."""
    count, scale = int(rng.integers(5, 9 + round(16 * severity))), 2 * size
    x = a.centre + half.sign * rng.uniform(0.08, 0.26, count)
    y = a.apex + (a.dome - a.apex) * (0.08 + 0.4 * rng.beta(1.5, 2.2, count))
    seeds = np.stack([x, y], axis=1)
    root = np.array([a.centre + half.sign * 0.075, hilum_height(a, half.left)])

    def draw(pen: ImageDraw.ImageDraw) -> None:
        for seed in seeds:
            pen.circle((seed * scale).tolist(), rng.uniform(0.003, 0.009) * scale, fill=int(rng.integers(130, 255)))
        for seed in seeds[: int(rng.integers(2, 6))]:
            bend = (root + seed) / 2 + rng.normal(0, 0.012, 2)
            strand = (np.concatenate([root, bend, seed]) * scale).tolist()
            pen.line(strand, fill=int(rng.integers(90, 170)), width=max(2, size // 64))

    return inked(size, 0.0042, draw)


def _cavity(part: Picture, half: Half, u0: float, v0: float, patchy: Picture, severity: float, rng: Rng) -> None:
    """Air inside a thick uneven wall."""
    row, column = np.unravel_index(np.argmin((half.u - u0) ** 2 + (half.v - v0) ** 2), half.u.shape)
    radius, squeeze, lean = rng.uniform(0.02, 0.048), rng.uniform(0.7, 1.3), rng.normal(0, 0.3)
    dx, dy = half.d - half.d[0, column], half.y - half.y[row, 0]
    r = np.hypot(dx + lean * dy, dy * squeeze) + 0.0035 * patchy
    inside = step(radius - r, 0.008)
    wall = bump(r - radius, rng.uniform(0.007, 0.012)) * np.clip(0.8 + 0.35 * patchy, 0.25, 1.2)
    part *= 1 - 0.75 * inside
    part += (0.3 + 0.25 * severity) * wall - 0.08 * inside


DISEASES: dict[str, Callable[[Picture, Anatomy, Sides, float, Rng], None]] = {
    "pneumonia": pneumonia,
    "covid-19": covid,
    "tuberculosis": tuberculosis,
}
