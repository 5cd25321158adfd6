"""Sign-off: a reviewer's decision on each class, kept beside the run, and the report to take along."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
import streamlit as st

from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.html_report import make_report
from fedpdc_med.review.sections import tables
from fedpdc_med.review.signoff import (
    LONGEST_COMMENT,
    LONGEST_NAME,
    VERDICTS,
    Decision,
    Standing,
    disputed,
    model_hash,
    read_decisions,
    sign,
    standing,
)
from fedpdc_med.runs.listing import Choice, RunView, films, reported
from fedpdc_med.runs.predictions import spoken

SAID, LOOKED_AT, TURN = "signoff_said", "signoff_looked_at", "signoff_turn"


def page(view: RunView, choice: Choice) -> None:
    choice = reported(view, choice)  # a model is signed off on the films that chose nothing, whatever is looked at
    frame = films(view, choice)
    model = model_hash(view.folder)
    decisions = read_decisions(view.folder)
    if model is None:
        st.info("This run has no global model (its method shares none), so there is nothing to sign off.")
    else:
        st.text(f"Model, SHA-256: {model}")
        recall = {row["class"]: row for row in per_class_recall(frame, choice.method).to_dict("records")}
        show_standing(choice, recall, standing(decisions, view.classes, model))
        ask(view, {label: seen_of(row, choice.split) for label, row in recall.items()}, model)
    show_history(decisions, model)
    offer_report(view, model, len(decisions))


def seen_of(row: dict[Hashable, Any], split: str) -> str:
    return f"recall {look.share(row['recall'])}, {row['correct']} of {row['total']} {split} films"


def show_standing(choice: Choice, recall: dict[str, dict[Hashable, Any]], stands: list[Standing]) -> None:
    st.subheader("What holds now", anchor=False)
    rows = []
    for stand in stands:
        row = recall[stand.label]
        inside = look.between(row["low"], row["high"])
        rows.append(
            {
                "class": spoken(stand.label),
                "recall": look.share(row["recall"]) + (f" ({inside})" if inside else ""),
                "found": f"{row['correct']} of {row['total']}",
                "decision": stand.words,
                "by": stand.decision.reviewer if stand.decision else "",
                "comment": stand.decision.comment if stand.decision else "",
            }
        )
    table = pd.DataFrame(rows)
    look.table(table if table["by"].any() else table.drop(columns=["by", "comment"]))
    st.caption(look.plain(f"Recall on {look.films_of(choice.split)}, whatever films are chosen in the sidebar."))
    if any(stand.decision and not stand.valid for stand in stands):
        st.warning(
            "Decisions made on another model do not hold for this one. Look at its numbers and decide again.",
            icon=":material/history:",
        )
    if open_questions := disputed(stands):
        names = ", ".join(spoken(label) for label in open_questions)
        st.warning(look.plain(f"Reviewers disagree on: {names}."), icon=":material/group:")


def ask(view: RunView, shown: dict[str, str], model: str) -> None:
    """The form. Signing draws the page anew, so what the reviewer had before the eyes is remembered from last time."""
    st.subheader("Decide", anchor=False)
    looked_at, turn = st.session_state.get(LOOKED_AT, {}), st.session_state.get(TURN, 0)
    st.session_state[LOOKED_AT] = {view.name: (model, shown)}
    changed = looked_at.get(view.name, (model, shown)) != (model, shown)
    if changed:
        st.warning("The model or its films have changed since you opened this page.", icon=":material/history:")
    form = f"{view.name} {model} {turn}"  # a form of its own for every run and model, empty again once signed
    if said := st.session_state.pop(SAID, None):
        st.success(look.plain(said), icon=":material/check:")
    with st.form("signoff", clear_on_submit=False):
        labels = st.multiselect("Classes", view.classes, key=f"signoff_classes {form}", format_func=spoken)
        verdict = st.radio("Decision", VERDICTS, index=None, horizontal=True, key=f"signoff_verdict {form}")
        reviewer = st.text_input("Your name", max_chars=LONGEST_NAME, key="signoff_name")
        comment = st.text_area("Comment, or the conditions", max_chars=LONGEST_COMMENT, key=f"signoff_comment {form}")
        st.caption(
            "Stored in review.json beside the run, with the time, the recall shown above and the SHA-256 of the model. "
            "Nothing can be taken back; decide again to replace your decision. Write nothing that identifies a patient."
        )
        asked = st.form_submit_button("Sign", type="primary")
    if not asked:
        return
    try:
        if changed:
            raise UserError("the numbers are other ones than those you saw; look at them before signing")
        made = sign(view.folder, labels, verdict or "", reviewer, comment, shown, model)
    except UserError as error:
        st.error(look.plain(f"Not signed: {error}."), icon=":material/error:")
        return
    st.session_state[TURN] = turn + 1
    st.session_state[SAID] = f"Signed: {made[0].verdict}, {', '.join(spoken(one.label) for one in made)}."
    st.rerun()


def show_history(decisions: list[Decision], model: str | None) -> None:
    if not decisions:
        return
    with st.expander(f"All decisions ({len(decisions)}), newest first"):
        look.table(tables.history(decisions, model))


@st.cache_data(max_entries=8, show_spinner="Writing the report…")
def report_of(mark: str, model: str | None, decided: int, _view: RunView) -> str:
    return make_report(_view)


def offer_report(view: RunView, model: str | None, decided: int) -> None:
    st.subheader("Report", anchor=False)
    st.markdown(
        "One page with the model's facts, tables, pictures and decisions; it opens without a network and prints on A4."
    )
    st.download_button(
        "Download the report",
        lambda: report_of(view.fingerprint, model, decided, view),
        file_name=f"report-{view.name}.html",
        mime="text/html",
        icon=":material/download:",
        on_click="ignore",
        key="signoff_report",
    )
