"""Where the films of each class come from: if a class has its own source, a model may learn the source instead."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats.contingency import association

from fedpdc_med.runs.predictions import display_name

Verdict = Literal["alarm", "watch", "fine", "not estimable"]
# Cohen's thresholds for a large and a medium association.
ALARM_V, WATCH_V = 0.5, 0.3
TELLS_V = 0.8  # with two equal sources and classes: the source predicts nine films in ten correctly


@dataclass(frozen=True)
class Finding:
    """A verdict with its sentence and the table behind it."""

    name: str
    verdict: Verdict
    sentence: str
    table: pd.DataFrame


def source_by_label(sources: np.ndarray, labels: np.ndarray) -> Finding:
    """Films of each source (rows) and class (columns), and how strongly they are associated (corrected Cramér's V)."""
    table = pd.crosstab(pd.Series(np.asarray(sources), name="source"), pd.Series(np.asarray(labels), name="label"))
    name = "source by label"
    if min(table.shape) < 2:
        return Finding(name, "not estimable", "There is only one source or class, so they cannot be compared.", table)
    strength = corrected_v(table)
    verdict: Verdict = "alarm" if strength >= ALARM_V else "watch" if strength >= WATCH_V else "fine"
    alone = [display_name(label) for label in classes_with_own_source(table)]
    from_one = f" {' and '.join(alone)}: all films come from sources with no other class." if alone else ""
    return Finding(name, verdict, f"Cramér's V {strength:.2f} (bias-corrected): {_means(strength)}.{from_one}", table)


def _means(strength: float) -> str:
    if strength >= TELLS_V:
        return "the source almost determines the class"
    if strength >= ALARM_V:
        return "source and class are strongly associated"
    if strength >= WATCH_V:
        return "source and class are associated"
    return "source and class are hardly associated"


def classes_with_own_source(table: pd.DataFrame) -> list[str]:
    """Classes whose sources have no films of any other class, while there are other sources."""
    pure = (table > 0).sum(axis=1) == 1
    return [str(label) for label in table.columns if table.loc[~pure, label].sum() == 0 and table[label].any()]


def cramers_v(table: pd.DataFrame) -> float:
    return float(association(table.to_numpy(), method="cramer"))


def corrected_v(table: pd.DataFrame) -> float:
    """Bergsma's correction: few films in many cells give a high V by chance alone."""
    films, (rows, columns) = int(table.to_numpy().sum()), table.shape
    phi2 = cramers_v(table) ** 2 * (min(rows, columns) - 1)
    phi2 = max(0.0, phi2 - (rows - 1) * (columns - 1) / (films - 1))
    fewer = min(rows - (rows - 1) ** 2 / (films - 1), columns - (columns - 1) ** 2 / (films - 1)) - 1
    return float(min(1.0, np.sqrt(phi2 / fewer))) if fewer > 0 else 0.0
