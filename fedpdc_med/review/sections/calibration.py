"""Do the probabilities mean what they say, and do they rank films correctly?"""

import math
from collections.abc import Callable

import pandas as pd

from fedpdc_med.common.description import Chart, Number, Section, Table, between, count, two_decimals
from fedpdc_med.evaluation.calibration import calibration, expected_calibration_error, reliability
from fedpdc_med.evaluation.discrimination import discrimination, precision_recall, roc
from fedpdc_med.review.sections import chosen, films_of, without_empty
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice
from fedpdc_med.runs.predictions import display_name

PREDICTED = "the predicted class"
MOST_CURVES = 6
Curve = Callable[[pd.DataFrame, str], pd.DataFrame]


def probabilities(run: Run, choice: Choice, label: str | None = None) -> Section:
    """Calibration, with the curve of one class or of the predicted one."""
    frame = chosen(run, choice)
    overall, curve = calibration(frame), reliability(frame, label)
    of = PREDICTED if label is None else display_name(label)
    numbers = (
        Number("Brier score", f"{overall.brier:.3f}", ("0 is best, 2 worst; all classes together",)),
        Number(
            "Baseline Brier score (class frequencies only)",
            f"{overall.brier_of_prevalence:.3f}",
            ("a useful model is below it",),
        ),
        Number(
            "Expected calibration error",
            f"{overall.ece:.3f}",
            ("mean gap between predicted probability and observed frequency, predicted class",),
        ),
    )
    chart = Chart(
        "reliability",
        curve,
        ("Predicted probability", "Observed frequency"),
        "Predicted probability against observed frequency",
    )
    return Section(
        "Does a probability of 0.8 mean eight times out of ten?",
        (f"Evaluated on {films_of(choice.split)}: {count(overall.films, 'film')}.",),
        numbers=numbers,
        charts=(chart,),
        notes=(
            "Points below the dotted line: the model is overconfident. Vertical lines are 95% CIs; the bars count the "
            f"films in each bin. Expected calibration error of {of}: {expected_calibration_error(curve):.3f}.",
        ),
    )


def ranking(run: Run, choice: Choice, labels: tuple[str, ...] | None = None) -> Section:
    """Discrimination, with the curves of some classes; of the hardest unless others are named."""
    frame = chosen(run, choice)
    table = discrimination(frame)
    shown = hardest(table, run.classes) if labels is None else labels
    charts: tuple[Chart, ...] = ()
    if shown:
        marks = {"order": [display_name(name) for name in run.classes]}
        charts = (
            Chart(
                "curves",
                _curves(frame, shown, roc, "false_positive_rate", "sensitivity"),
                ("1 - specificity", "Sensitivity"),
                "ROC curves, one-vs-rest",
                marks | {"diagonal": True},
            ),
            Chart(
                "curves",
                _curves(frame, shown, precision_recall, "recall", "precision"),
                ("Recall", "Precision"),
                "Precision-recall curves, one-vs-rest",
                marks,
            ),
        )
    return Section(
        "Does a film of a class get a higher probability than the others?",
        charts=charts,
        tables=(Table("", areas_text(table)),),
        notes=(
            "One-vs-rest. AUC: probability that a film of the class is ranked above a film of another class (0.5 is "
            "guessing). Average precision: compare it with the class frequency, which is what guessing scores.",
        ),
    )


def hardest(table: pd.DataFrame, classes: list[str]) -> tuple[str, ...]:
    """From `discrimination`: the classes with the smallest AUC, in their usual order."""
    known = table.loc[table["auc"].notna(), ["class", "auc"]].sort_values("auc", kind="stable")
    worst = set(known["class"].head(MOST_CURVES))
    return tuple(name for name in classes if name in worst)


def first_drawn(run: Run, choice: Choice) -> list[str]:
    return list(hardest(discrimination(chosen(run, choice)), run.classes))


def _curves(frame: pd.DataFrame, labels: tuple[str, ...], which: Curve, x: str, y: str) -> pd.DataFrame:
    parts = [
        which(frame, label)[[x, y]].set_axis(["x", "y"], axis=1).assign(name=display_name(label)) for label in labels
    ]
    return pd.concat(parts, ignore_index=True)


def areas_text(table: pd.DataFrame) -> pd.DataFrame:
    """From `discrimination`."""
    shown = pd.DataFrame({"class": table["class"].map(display_name)})
    counted = zip(table["positives"], table["negatives"], strict=True)
    shown["films of the class"] = [f"{m} of {m + n}" for m, n in counted]
    for name, title in (("auc", "AUC"), ("ap", "average precision")):
        shown[title] = table[name].map(two_decimals)
        shown[f"{title}, 95% CI"] = list(map(between, table[f"{name}_low"], table[f"{name}_high"]))
    shown["class frequency"] = ["" if math.isnan(one) else two_decimals(one) for one in table["prevalence"]]
    return without_empty(shown.assign(note=table["note"]))
