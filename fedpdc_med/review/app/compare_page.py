"""Compare: two runs on the same films, paired, class by class."""

import pandas as pd
import streamlit as st

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.paired import Comparison
from fedpdc_med.review.app import cache as remembered
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.figures.compare import differences
from fedpdc_med.runs.listing import Choice, RunView, unfinished
from fedpdc_med.runs.predictions import spoken


def page(view: RunView, choice: Choice) -> None:
    if view.status != "finished":
        raise UserError(unfinished(view))
    second = choice.second
    if second is None:
        st.info("Choose a second run in the sidebar, under 'Compare with'.")
        return
    if choice.split not in second.splits:
        raise UserError(f"The second run has no predictions on the {choice.split} films; choose other films or runs.")
    model = second_model(view, choice, second)
    found = remembered.compared(view, choice, second, model)
    runs = [
        f"First run: {view.name} (model: {view.title_of(choice.model)})",
        f"Second run: {second.name} (model: {second.title_of(model)})",
        f"Films: {look.films_of(choice.split)}.",
    ]
    st.caption("  \n".join(map(look.plain, runs)))
    st.markdown(look.plain(verdict(found)))
    both = pd.concat([found.overall, found.by_class], ignore_index=True)
    look.chart(differences(both), "differences", "Difference in recall between the two runs, class by class")
    look.table(as_text(both))
    st.caption(
        "Each film is judged by both runs; only films on which exactly one is right count. The test is McNemar's exact "
        "one; where patients have several films, its exact form by patient, in which a patient's films change sides "
        "together. "
        "Holm's p allows for having asked about every class. A filled circle means Holm's p below 0.05. "
        "The row of all films is accuracy, the others are recall."
    )
    if found.note:
        st.caption(look.plain(found.note[0].upper() + found.note[1:] + "."))


def second_model(view: RunView, choice: Choice, second: RunView) -> str:
    models = second.models_on(choice.split)
    if len(models) == 1:
        return models[0]
    index = models.index(choice.model) if choice.model in models else 0
    return st.selectbox("Model of the second run", models, index=index, format_func=second.title_of)


def verdict(found: Comparison) -> str:
    """What the tests say in one or two sentences; no difference shown is not the same as no difference."""
    row = found.overall.iloc[0]
    size, better = f"{abs(row['difference']):.2f}", row["difference"] > 0
    change = "no different" if size == "0.00" else f"{size} {'higher' if better else 'lower'}"
    change += f" ({look.signed(row['low'])} to {look.signed(row['high'])})"
    clear = found.by_class[found.by_class["p_holm"] < 0.05]
    up = [spoken(name) for name in clear.loc[clear["difference"] > 0, "class"]]
    down = [spoken(name) for name in clear.loc[clear["difference"] < 0, "class"]]
    parts = [f"On {look.count(found.films, 'film')} both runs have seen, the second run's accuracy is {change}."]
    if up:
        parts.append(f"It finds more of: {', '.join(up)}.")
    if down:
        parts.append(f"It finds fewer of: {', '.join(down)}.")
    if not up and not down:
        parts.append("No class differs beyond chance; with few films that is not the same as being equal.")
    return " ".join(parts)


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    rows = table.to_dict("records")
    shown = pd.DataFrame(
        {
            "class": table["class"].map(spoken),
            "films": table["total"],
            "first": table["first"].map(look.share),
            "second": table["second"].map(look.share),
            "difference": [look.signed(row["difference"]) for row in rows],
            "95 % interval": [
                f"{look.signed(row['low'])} to {look.signed(row['high'])}" if row["total"] else "" for row in rows
            ],
            "only first right": table["only_first"],
            "only second right": table["only_second"],
            "p": table["p"].map(look.p_value),
            "Holm's p": table["p_holm"].map(look.p_value),
            "note": table["note"],
        }
    )
    return shown if table["note"].any() else shown.drop(columns="note")
