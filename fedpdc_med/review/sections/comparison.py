"""Two runs on the same films, paired, class by class."""

import pandas as pd

from fedpdc_med.common.description import Chart, Section, Table, as_sentence, count, p_value, signed, two_decimals
from fedpdc_med.evaluation.paired import Comparison, compare
from fedpdc_med.review.sections import chosen, films_of, without_empty
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, films
from fedpdc_med.runs.predictions import display_name

CLEAR = 0.05  # Holm-adjusted p below which a difference counts as significant


def paired(run: Run, choice: Choice, model: str) -> Section:
    """The chosen run and model against the second run's `model`."""
    second = choice.second
    assert second is not None, "the page asks for a second run first"
    found = compare(chosen(run, choice), films(second, Choice(model=model, split=choice.split)))
    both = pd.concat([found.overall, found.by_class], ignore_index=True)
    return Section(
        "",
        (
            f"First run: {run.name} (model: {run.title_of(choice.model)})",
            f"Second run: {second.name} (model: {second.title_of(model)})",
            f"Evaluated on {films_of(choice.split)}.",
            verdict(found),
        ),
        charts=(differences(both),),
        tables=(Table("", differences_text(both)),),
        notes=(
            "Paired test: only films that exactly one run classifies correctly count. McNemar's exact test; where "
            "patients have several films, its exact form by patient, which keeps a patient's films together. "
            "Holm-adjusted p accounts for testing every class. Filled circles: Holm-adjusted p below 0.05. The row of "
            "all films is accuracy, the others are recall.",
            *([as_sentence(found.note)] if found.note else []),
        ),
    )


def differences(table: pd.DataFrame) -> Chart:
    """Second run less first."""
    ends = table[["low", "high"]].abs().max().max()
    reach = min(1.05, ends * 1.15 + 0.02) if ends == ends else 1.05
    frame = pd.DataFrame(
        {
            "name": table["class"].map(display_name),
            "value": table["difference"],
            **table[["low", "high"]],
            "open": ~(table["p_holm"] < CLEAR),
        }
    )
    return Chart(
        "intervals",
        frame,
        ("← first run better   Difference in recall   second run better →", "Class"),
        "Difference in recall between the two runs, by class",
        {"span": (-reach, reach), "lines": {"": 0.0}, "signed": True},
    )


def verdict(found: Comparison) -> str:
    """The result of the tests in one or two sentences; not significant is not the same as no difference."""
    row = found.overall.iloc[0]
    size, better = f"{abs(row['difference']):.2f}", row["difference"] > 0
    change = "the same" if size == "0.00" else f"{size} {'higher' if better else 'lower'}"
    change += f" (95% CI {signed(row['low'])} to {signed(row['high'])})"
    clear = found.by_class[found.by_class["p_holm"] < CLEAR]
    up = [display_name(name) for name in clear.loc[clear["difference"] > 0, "class"]]
    down = [display_name(name) for name in clear.loc[clear["difference"] < 0, "class"]]
    parts = [f"On the {count(found.films, 'film')} that both runs predicted, the second run's accuracy is {change}."]
    if up:
        parts.append(f"Recall is higher for: {', '.join(up)}.")
    if down:
        parts.append(f"Recall is lower for: {', '.join(down)}.")
    if not up and not down:
        parts.append("No class differs significantly; with few films that is not the same as being equal.")
    return " ".join(parts)


def differences_text(table: pd.DataFrame) -> pd.DataFrame:
    rows = table.to_dict("records")
    shown = pd.DataFrame(
        {
            "class": table["class"].map(display_name),
            "films": table["total"],
            "first": table["first"].map(two_decimals),
            "second": table["second"].map(two_decimals),
            "difference": table["difference"].map(signed),
            "95% CI": [f"{signed(row['low'])} to {signed(row['high'])}" if row["total"] else "" for row in rows],
            "only first right": table["only_first"],
            "only second right": table["only_second"],
            "p": table["p"].map(p_value),
            "Holm-adjusted p": table["p_holm"].map(p_value),
            "note": table["note"],
        }
    )
    return without_empty(shown)
