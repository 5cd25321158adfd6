"""The reviewers' decisions on a run's model, class by class."""

from typing import Any

import pandas as pd

from fedpdc_med.common.description import Section, Table, between, count, two_decimals
from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.review.sections import chosen, films_of
from fedpdc_med.review.signoff import disputed, model_hash, read_decisions, standing
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, reported
from fedpdc_med.runs.predictions import display_name


def current(run: Run, choice: Choice) -> Section:
    """Decisions are on the reported films, whatever is chosen in the sidebar."""
    title, model, choice = "Current decisions", model_hash(run.folder), reported(run, choice)
    frame = chosen(run, choice)
    if model is None:
        why = "This run has no global model (its method shares none), so there is nothing to sign off."
        return Section(title, (why,), level="info")
    found = per_class_recall(frame, choice.interval)
    recall: dict[str, Any] = {row["class"]: row for row in found.to_dict("records")}
    stands, rows = standing(read_decisions(run.folder), run.classes, model), []
    for stand in stands:
        row, last = recall[stand.label], stand.decision
        inside = between(row["low"], row["high"])
        rows.append(
            {
                "class": display_name(stand.label),
                "recall (95% CI)": two_decimals(row["recall"]) + (f" ({inside})" if inside else ""),
                "correct": f"{row['correct']} of {row['total']}",
                "decision": stand.words,
                "by": last.reviewer if last else "",
                "comment": last.comment if last else "",
            }
        )
    table, sentences = pd.DataFrame(rows), []
    if any(stand.decision and not stand.valid for stand in stands):
        sentences.append(
            "Decisions made on another model do not apply to this one. Review its numbers and decide again."
        )
    if open_questions := disputed(stands):
        sentences.append(f"Reviewers disagree on: {', '.join(map(display_name, open_questions))}.")
    if not table["by"].any():
        table = table.drop(columns=["by", "comment"])
    note = f"Recall on {films_of(choice.split)}, regardless of the sidebar."
    return Section(
        title,
        (f"Model, SHA-256: {model}",),
        tables=(Table("", table),),
        notes=(note,),
        parts=tuple(Section("", (sentence,), level="watch") for sentence in sentences),
    )


def history(run: Run) -> Section:
    decisions, model = read_decisions(run.folder), model_hash(run.folder)
    table = pd.DataFrame(
        {
            "time (UTC)": one.time.replace("T", " ").removesuffix("+00:00"),
            "class": display_name(one.label),
            "decision": one.verdict,
            "by": one.reviewer,
            "numbers shown": one.seen,
            "comment": one.comment,
            "decided on": "this model" if one.model_sha256 == model else f"another model ({one.model_sha256[:12]}…)",
        }
        for one in reversed(decisions)
    )
    title = f"Decision history, newest first ({count(len(decisions), 'decision')})"
    return Section(title, tables=(Table("", table, "No reviewer has signed off this model."),))
