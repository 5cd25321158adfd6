"""Do the probabilities mean what they say, and do they rank films right?"""

import math
from collections.abc import Callable

import pandas as pd

from fedpdc_med.common.description import Chart, Number, Section, Table, between, count, two_decimals
from fedpdc_med.evaluation.calibration import calibration, expected_calibration_error, reliability
from fedpdc_med.evaluation.discrimination import discrimination, precision_recall, roc
from fedpdc_med.review.sections import chosen, films_of, without_empty
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice
from fedpdc_med.runs.predictions import spoken

CALLED = "the class each film is called"
MOST_CURVES = 6
Curve = Callable[[pd.DataFrame, str], pd.DataFrame]


def probabilities(run: Run, choice: Choice, label: str | None = None) -> Section:
    """Calibration, with the curve of one class or of the called one."""
    frame = chosen(run, choice)
    overall, curve = calibration(frame), reliability(frame, label)
    of = CALLED if label is None else spoken(label)
    numbers = (
        Number("Brier score", f"{overall.brier:.3f}", ("0 is best, 2 worst; all classes together",)),
        Number(
            "Brier score of knowing only the class shares",
            f"{overall.brier_of_prevalence:.3f}",
            ("a useful model is below it",),
        ),
        Number(
            "Expected calibration error",
            f"{overall.ece:.3f}",
            ("mean gap between promised and came true, of the called class",),
        ),
    )
    chart = Chart(
        "reliability",
        curve,
        ("probability the model gave", "share that came true"),
        "Promised probability against the share that came true",
    )
    return Section(
        "Does a probability of 0.8 mean eight times out of ten?",
        (f"{count(overall.films, 'film')}: {films_of(choice.split)}.",),
        numbers=numbers,
        charts=(chart,),
        notes=(
            "Points below the dotted line: the model promises too much. Lines are 95 % intervals; the bars count the "
            f"films of each bin. Expected calibration error of {of}: {expected_calibration_error(curve):.3f}.",
        ),
    )


def ranking(run: Run, choice: Choice, labels: tuple[str, ...] | None = None) -> Section:
    """Discrimination, with the curves of some classes; of the hardest unless others are named."""
    frame = chosen(run, choice)
    table = discrimination(frame)
    shown = hardest(table, run.classes) if labels is None else labels
    charts: tuple[Chart, ...] = ()
    if shown:
        marks = {"order": [spoken(name) for name in run.classes]}
        charts = (
            Chart(
                "curves",
                _curves(frame, shown, roc, "false_positive_rate", "sensitivity"),
                ("1 - specificity", "sensitivity"),
                "ROC curves, one class against the rest",
                marks | {"diagonal": True},
            ),
            Chart(
                "curves",
                _curves(frame, shown, precision_recall, "recall", "precision"),
                ("recall", "precision"),
                "Precision-recall curves, one class against the rest",
                marks,
            ),
        )
    return Section(
        "Does a film of a class get a higher probability than the others?",
        charts=charts,
        tables=(Table("", areas_text(table)),),
        notes=(
            "Each class against the rest. AUC: chance that a film of the class outranks one of another class (0.5 is "
            "guessing). Average precision: to be held against the share of the class, which is what guessing gives.",
        ),
    )


def hardest(table: pd.DataFrame, classes: list[str]) -> tuple[str, ...]:
    """From `discrimination`: the classes of the smallest areas, in their usual order."""
    known = table.loc[table["auc"].notna(), ["class", "auc"]].sort_values("auc", kind="stable")
    worst = set(known["class"].head(MOST_CURVES))
    return tuple(name for name in classes if name in worst)


def first_drawn(run: Run, choice: Choice) -> list[str]:
    return list(hardest(discrimination(chosen(run, choice)), run.classes))


def _curves(frame: pd.DataFrame, labels: tuple[str, ...], which: Curve, x: str, y: str) -> pd.DataFrame:
    parts = [which(frame, label)[[x, y]].set_axis(["x", "y"], axis=1).assign(name=spoken(label)) for label in labels]
    return pd.concat(parts, ignore_index=True)


def areas_text(table: pd.DataFrame) -> pd.DataFrame:
    """From `discrimination`."""
    shown = pd.DataFrame({"class": table["class"].map(spoken)})
    counted = zip(table["positives"], table["negatives"], strict=True)
    shown["films of the class"] = [f"{m} of {m + n}" for m, n in counted]
    for name, title in (("auc", "AUC"), ("ap", "average precision")):
        shown[title] = table[name].map(two_decimals)
        shown[f"{title}, 95 %"] = list(map(between, table[f"{name}_low"], table[f"{name}_high"]))
    shown["share of the class"] = ["" if math.isnan(one) else two_decimals(one) for one in table["prevalence"]]
    return without_empty(shown.assign(note=table["note"]))
