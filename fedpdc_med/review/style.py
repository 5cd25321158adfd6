"""What all charts share: colours, dashes, and names shortened to the space available."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

INK, MUTED, FAINT, GRID = "#1b2733", "#5b6770", "#c9d1d8", "#e6eaee"
ACCENT, WARN = "#0b5c8a", "#a4262c"
# Okabe and Ito's colours (without the yellow, too faint on white): colour-blind readers can distinguish them too.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00", "#1b2733", "#8c8c8c")
DASHES = ("solid", "dash", "dot", "dashdot")
# Pale to dark blue, even in lightness, so that a grayscale print keeps the order; and orange to blue, white at zero.
SHADES = ((0.0, "#eef4f8"), (0.25, "#d6e6f0"), (0.5, "#a9cce2"), (0.75, "#6aa5cb"), (1.0, "#0b4a72"))
DIVERGING = ((0.0, "#e08e3c"), (0.5, "#ffffff"), (1.0, "#6fa8d0"))
FEW = 10  # lines that readers can still distinguish; more are drawn as a matrix


def colour_of(place: int) -> str:
    return PALETTE[place % len(PALETTE)]


def round_of(place: int) -> int:
    """How often the colours have been repeated: dashes and patterns then distinguish lines and bars."""
    return place // len(PALETTE)


def cut(text: object, longest: int) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= longest else words[: longest - 1] + "…"


def roomier_sides(places: Mapping[str, float], span: tuple[float, float] = (0.0, 1.0)) -> dict[str, str]:
    """For each word at an upright line: the side with more room, up to the next line with a word or the edge."""
    marked = sorted({*span, *(place for word, place in places.items() if word)})
    sides = {}
    for word, place in places.items():
        left = place - max((one for one in marked if one < place), default=place)
        right = min((one for one in marked if one > place), default=place) - place
        sides[word] = "left" if left > right else "right"
    return sides


def nested(lines: pd.DataFrame, smallest: float = 7) -> np.ndarray:
    """Marker sizes of lines (columns): larger for every later line that covers a point, so that all are visible."""
    values = lines.to_numpy(dtype=float)
    near = 0.01 * np.nan_to_num(np.abs(values)).max(initial=0)
    count = values.shape[1]
    later = [(np.abs(values[:, place + 1 :] - values[:, [place]]) <= near).sum(axis=1) for place in range(count)]
    step = smallest * min(0.6, 2.5 / max(count - 1, 1))
    return smallest + step * np.array(later).T.reshape(values.shape)


def ticks(places: Sequence[float]) -> int:
    """Step between ticks, for about ten ticks at whole numbers: a drawing library itself would mark half rounds."""
    span = int(max(places) - min(places))
    return next(step for power in range(9) for step in (10**power, 2 * 10**power, 5 * 10**power) if span <= 10 * step)
