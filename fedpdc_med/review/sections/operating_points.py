"""Where a class starts to be called, and what that means for a reader's own patients."""

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
from fedpdc_med.runs.predictions import select, spoken

CHOOSING = ("weighting", "local")  # films that may choose a threshold, the balanced ones first
WHICH = {"weighting": "the reference's weighting films", "local": "the sites' own test films"}
OWN = "This threshold is your own, chosen on the films that report it: its numbers flatter."
NAMES = {
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "ppv": "Positive predictive value (PPV)",
    "npv": "Negative predictive value (NPV)",
}


def choosing_split(run: Run, choice: Choice) -> str | None:
    """Films that are neither shown nor ever reported; None in a run that has no others."""
    if run.predictions is None:
        return None
    mine = select(run.predictions, model=choice.model)
    present = set(mine["split"].unique()) - set(REPORTED) - {choice.split}
    return next((split for split in CHOOSING if split in present), None)


def where_chosen(run: Run, choice: Choice) -> str:
    return WHICH.get(choosing_split(run, choice) or "", "")


def threshold(run: Run, choice: Choice, label: str, rule: Rule, wanted: float) -> Threshold:
    """What the other films choose."""
    split = choosing_split(run, choice)
    if run.predictions is None or split is None:
        raise UserError("This run has no other films to choose a threshold on.")
    return choose_threshold(select(run.predictions, model=choice.model, split=split), label, rule, wanted)


def every_class(run: Run, choice: Choice, rule: Rule = "youden", wanted: float = 0.9) -> Section:
    """Each class at the threshold that other films choose, with what it gives on these."""
    title, frame = "Every class at its chosen threshold", chosen(run, choice)
    where = where_chosen(run, choice)
    if not where:
        why = (
            "This run has predictions of the reported films only, so no threshold can be chosen on other films. What "
            "you choose with the slider is chosen on the films that report it, and flatters."
        )
        return Section(title, (why,), level="info")
    rows = [_row(frame, threshold(run, choice, label, rule, wanted)) for label in run.classes]
    how = {
        "youden": "Best balance: the best sum of sensitivity and specificity (Youden)",
        "sensitivity": f"The highest threshold with a sensitivity of at least {wanted:g}",
    }[rule]
    return Section(
        title,
        (
            f"Thresholds are chosen on {where}, and their sensitivity and specificity are of other films: "
            f"{films_of(choice.split)}.",
        ),
        tables=(Table("", without_empty(pd.DataFrame(rows).fillna(""))),),
        notes=(
            f"{how} on {where}. Sensitivity at a threshold is not the recall of the other pages, where a film is "
            "called the most probable class: a low threshold calls one film several things.",
        ),
    )


def _row(frame: pd.DataFrame, found: Threshold) -> dict[str, str]:
    label = spoken(found.label)
    if math.isnan(found.value):
        return {"class": label, "threshold": NOT_ESTIMABLE, "note": found.note}
    at = threshold_table(frame, found.label, [usable(found.value)]).iloc[0]
    return {
        "class": label,
        "threshold": f"{usable(found.value):.{decimals(found.value)}f}",
        "sensitivity": two_decimals(at["sensitivity"]),
        "sensitivity, 95 %": between(at["sensitivity_low"], at["sensitivity_high"]),
        "specificity": two_decimals(at["specificity"]),
        "specificity, 95 %": between(at["specificity_low"], at["specificity_high"]),
        "note": found.note,
    }


def curve(run: Run, choice: Choice, label: str) -> pd.DataFrame:
    return threshold_table(chosen(run, choice), label)


def at_threshold(
    frame: pd.DataFrame, curve: pd.DataFrame, label: str, at: float, percent: float, chosen_at: float | None, where: str
) -> Section:
    """What a reader's own threshold gives; `chosen_at` is the one that other films chose, where they could."""
    row = with_predictive_values(threshold_table(frame, label, [at]), percent / 100).iloc[0]
    positives, negatives = int(row["tp"] + row["fn"]), int(row["tn"] + row["fp"])
    below = {
        "sensitivity": f"{int(row['tp'])} of {positives} films found",
        "specificity": f"{int(row['tn'])} of {negatives} other films left alone",
        "ppv": f"of those called {spoken(label)}, at {percent:g} % prevalence",
        "npv": f"of those not called {spoken(label)}, at {percent:g} % prevalence",
    }
    numbers = []
    for name, what in below.items():
        inside = between(row[f"{name}_low"], row[f"{name}_high"])
        lines = ((f"95 % interval {inside}",) if inside else ()) + (what,)
        numbers.append(Number(NAMES[name], two_decimals(row[name]), lines))
    marks = {"lines": {"": at} | ({f"chosen on {where}": chosen_at} if chosen_at is not None else {})}
    chart = Chart(
        "curves",
        threshold_curves(curve),
        ("threshold: called at or above", "share of films"),
        "Sensitivity and specificity against the threshold",
        marks,
    )
    note = (
        "The black line is the threshold of the slider. One class against the rest: a film is called "
        f"{spoken(label)} when its probability is at or above the threshold, whatever the other classes get. The "
        "intervals of PPV and NPV take both ends of sensitivity and specificity at once."
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
    """What the predictive values hang on besides the prevalence: which other classes the other patients have."""
    rest = predictive_by_rest(frame, label, at, percent / 100)
    if len(rest) < 2:
        return ()
    each = ", ".join(f"{spoken(row['class'])} {two_decimals(row['ppv'])}" for row in rest.to_dict("records"))
    return (
        "PPV and NPV take the other patients in the mix of these films, which need not be yours. Were all of them of "
        f"one class, PPV would be, by that class: {each}.",
    )


def caveats(frame: pd.DataFrame, label: str, found: Threshold | None) -> list[str]:
    said = []
    if not (frame["label"] == label).any():
        said.append(f"There are no films of {spoken(label)} here: its sensitivity is not estimable.")
    if found is not None and found.note:
        said.append(as_sentence(found.note))
    return said


def usable(threshold: float) -> float:
    """A threshold as people write it; rounded down, so that the film that set it is called."""
    scale = 10 ** decimals(threshold)
    return math.floor(threshold * scale) / scale


def decimals(threshold: float) -> int:
    """Three, or as many more as a threshold close to 0 or 1 needs to stay away from it."""
    room = min(threshold, 1 - threshold)
    return min(max(3, 1 - math.floor(math.log10(room))), 9) if room > 0 else 3
