"""Thresholds per class, and what they mean for a reader's own patients."""

import math

import pandas as pd

from fedpdc_med.common.description import (
    NOT_ESTIMABLE,
    Chart,
    Number,
    Section,
    Table,
    as_sentence,
    between,
    two_decimals,
)
from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.operating_points import (
    REPORTED,
    Rule,
    Threshold,
    choose_threshold,
    predictive_by_rest,
    threshold_table,
    with_predictive_values,
)
from fedpdc_med.review.sections import chosen, films_of, without_empty
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice
from fedpdc_med.runs.predictions import display_name, select

CHOOSING = ("weighting", "local")  # films on which a threshold may be chosen, the balanced ones first
WHICH = {"weighting": "the weighting films", "local": "the local test films"}
OWN = "You set this threshold on the same films it is evaluated on, so these numbers are optimistic."
NAMES = {
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "ppv": "Positive predictive value (PPV)",
    "npv": "Negative predictive value (NPV)",
}


def choosing_split(run: Run, choice: Choice) -> str | None:
    """A split that is neither shown nor ever reported; None if the run has no other films."""
    if run.predictions is None:
        return None
    mine = select(run.predictions, model=choice.model)
    present = set(mine["split"].unique()) - set(REPORTED) - {choice.split}
    return next((split for split in CHOOSING if split in present), None)


def where_chosen(run: Run, choice: Choice) -> str:
    return WHICH.get(choosing_split(run, choice) or "", "")


def threshold(run: Run, choice: Choice, label: str, rule: Rule, wanted: float) -> Threshold:
    """The threshold chosen on the other films."""
    split = choosing_split(run, choice)
    if run.predictions is None or split is None:
        raise UserError("This run has no other films on which to choose a threshold.")
    return choose_threshold(select(run.predictions, model=choice.model, split=split), label, rule, wanted)


def every_class(run: Run, choice: Choice, rule: Rule = "youden", wanted: float = 0.9) -> Section:
    """Each class at the threshold chosen on other films, with its results on these."""
    title, frame = "All classes at their chosen thresholds", chosen(run, choice)
    where = where_chosen(run, choice)
    if not where:
        why = (
            "This run has no other films on which to choose a threshold without bias. A threshold set with the slider "
            "gives optimistic numbers."
        )
        return Section(title, (why,), level="info")
    rows = [_row(frame, threshold(run, choice, label, rule, wanted)) for label in run.classes]
    how = {
        "youden": "Best balance: the largest sum of sensitivity and specificity (Youden)",
        "sensitivity": f"The highest threshold with a sensitivity of at least {wanted:g}",
    }[rule]
    return Section(
        title,
        (f"Thresholds are chosen on {where} and evaluated on different films: {films_of(choice.split)}.",),
        tables=(Table("", without_empty(pd.DataFrame(rows).fillna(""))),),
        notes=(
            f"{how} on {where}. Sensitivity at a threshold is not the recall of the other pages, where each film is "
            "predicted as its most probable class: with low thresholds, one film can be predicted as several classes.",
        ),
    )


def _row(frame: pd.DataFrame, found: Threshold) -> dict[str, str]:
    label = display_name(found.label)
    if math.isnan(found.value):
        return {"class": label, "threshold": NOT_ESTIMABLE, "note": found.note}
    at = threshold_table(frame, found.label, [usable(found.value)]).iloc[0]
    return {
        "class": label,
        "threshold": f"{usable(found.value):.{decimals(found.value)}f}",
        "sensitivity": two_decimals(at["sensitivity"]),
        "sensitivity, 95% CI": between(at["sensitivity_low"], at["sensitivity_high"]),
        "specificity": two_decimals(at["specificity"]),
        "specificity, 95% CI": between(at["specificity_low"], at["specificity_high"]),
        "note": found.note,
    }


def curve(run: Run, choice: Choice, label: str) -> pd.DataFrame:
    return threshold_table(chosen(run, choice), label)


def at_threshold(
    frame: pd.DataFrame, curve: pd.DataFrame, label: str, at: float, percent: float, chosen_at: float | None, where: str
) -> Section:
    """Results at a reader's own threshold; `chosen_at` is the one chosen on other films, if there is one."""
    row = with_predictive_values(threshold_table(frame, label, [at]), percent / 100).iloc[0]
    positives, negatives = int(row["tp"] + row["fn"]), int(row["tn"] + row["fp"])
    below = {
        "sensitivity": f"{int(row['tp'])} of {positives} films at or above the threshold",
        "specificity": f"{int(row['tn'])} of {negatives} other films correctly below the threshold",
        "ppv": f"of films predicted as {display_name(label)}, at {percent:g}% prevalence",
        "npv": f"of films not predicted as {display_name(label)}, at {percent:g}% prevalence",
    }
    numbers = []
    for name, what in below.items():
        inside = between(row[f"{name}_low"], row[f"{name}_high"])
        lines = ((f"95% CI {inside}",) if inside else ()) + (what,)
        numbers.append(Number(NAMES[name], two_decimals(row[name]), lines))
    marks = {"lines": {"": at} | ({f"chosen on {where}": chosen_at} if chosen_at is not None else {})}
    chart = Chart(
        "curves",
        threshold_curves(curve),
        ("Threshold", "Proportion of films"),
        "Sensitivity and specificity by threshold",
        marks,
    )
    note = (
        f"Black line: the threshold on the slider. One-vs-rest: a film is predicted as {display_name(label)} when its "
        "probability is at or above the threshold, whatever the probabilities of the other classes. The CIs of PPV and "
        "NPV combine the ends of those of sensitivity and specificity."
    )
    return Section("", numbers=tuple(numbers), charts=(chart,), notes=(*by_rest(frame, label, at, percent), note))


def threshold_curves(table: pd.DataFrame) -> pd.DataFrame:
    """From `threshold_table`: two curves with their bands."""
    names = ("sensitivity", "specificity")
    parts = [
        pd.DataFrame(
            {
                "name": name,
                "x": table["threshold"],
                "y": table[name],
                "low": table[f"{name}_low"],
                "high": table[f"{name}_high"],
            }
        )
        for name in names
    ]
    return pd.concat(parts, ignore_index=True).dropna()


def by_rest(frame: pd.DataFrame, label: str, at: float, percent: float) -> tuple[str, ...]:
    """What predictive values depend on besides the prevalence: which classes the other patients have."""
    rest = predictive_by_rest(frame, label, at, percent / 100)
    if len(rest) < 2:
        return ()
    each = ", ".join(f"{display_name(row['class'])} {two_decimals(row['ppv'])}" for row in rest.to_dict("records"))
    return (
        "PPV and NPV assume that your other patients have the same class mix as these films. If they all had one class "
        f"instead, PPV would be: {each}.",
    )


def caveats(frame: pd.DataFrame, label: str, found: Threshold | None) -> list[str]:
    said = []
    if not (frame["label"] == label).any():
        said.append(f"There are no films of {display_name(label)} here: its sensitivity is not estimable.")
    if found is not None and found.note:
        said.append(as_sentence(found.note))
    return said


def usable(threshold: float) -> float:
    """A threshold as people write it; rounded down, so that the film that set it stays at or above it."""
    scale = 10 ** decimals(threshold)
    return math.floor(threshold * scale) / scale


def decimals(threshold: float) -> int:
    """Three, or as many more as a threshold close to 0 or 1 needs to stay away from it."""
    room = min(threshold, 1 - threshold)
    return min(max(3, 1 - math.floor(math.log10(room))), 9) if room > 0 else 3
