"""Sign-off: the form for a reviewer's decision on each class, and the report to download."""

from typing import Any

import streamlit as st

from fedpdc_med.common.description import two_decimals
from fedpdc_med.common.errors import UserError
from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.review.app.widgets import plain, show, table
from fedpdc_med.review.html_report import make_report
from fedpdc_med.review.sections import chosen, decisions, named
from fedpdc_med.review.signoff import LONGEST_COMMENT, LONGEST_NAME, VERDICTS, model_hash, read_decisions, sign
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, reported
from fedpdc_med.runs.predictions import display_name

SAID, LOOKED_AT, TURN = "signoff_said", "signoff_looked_at", "signoff_turn"


def page(run: Run, choice: Choice) -> None:
    choice, model = reported(run, choice), model_hash(run.folder)
    show(decisions.current(run, choice))
    if model is not None:
        ask(run, seen(run, choice), model)
    decided = len(read_decisions(run.folder))
    if decided:
        history = decisions.history(run)
        with st.expander(history.title):
            table(history.tables[0])
    offer_report(run, model, decided)


def seen(run: Run, choice: Choice) -> dict[str, str]:
    """What the reviewer is shown of each class, as it is stored with the decision."""
    found: list[dict[Any, Any]] = per_class_recall(chosen(run, choice), choice.interval).to_dict("records")
    return {
        row["class"]: f"recall {two_decimals(row['recall'])}, {row['correct']} of {row['total']} {named(choice.split)}"
        for row in found
    }


def ask(run: Run, shown: dict[str, str], model: str) -> None:
    """The form. Signing draws the page again, so what the reviewer was shown is remembered from the time before."""
    st.subheader("Record your decision", anchor=False)
    looked_at, turn = st.session_state.get(LOOKED_AT, {}), st.session_state.get(TURN, 0)
    st.session_state[LOOKED_AT] = {run.name: (model, shown)}
    changed = looked_at.get(run.name, (model, shown)) != (model, shown)
    if changed:
        st.warning("The model or its films have changed since you opened this page.", icon=":material/history:")
    form = f"{run.name} {model} {turn}"  # a form of its own for every run and model, empty again once signed
    if said := st.session_state.pop(SAID, None):
        st.success(plain(said), icon=":material/check:")
    with st.form("signoff", clear_on_submit=False):
        labels = st.multiselect("Classes", run.classes, key=f"signoff_classes {form}", format_func=display_name)
        verdict = st.radio("Decision", VERDICTS, index=None, horizontal=True, key=f"signoff_verdict {form}")
        reviewer = st.text_input("Your name", max_chars=LONGEST_NAME, key="signoff_name")
        comment = st.text_area("Comment or conditions", max_chars=LONGEST_COMMENT, key=f"signoff_comment {form}")
        st.caption(
            "Stored in review.json of the run, with the time, the recall shown above and the SHA-256 of the model. "
            "Decisions cannot be deleted; sign again to supersede yours. Do not enter anything that identifies a "
            "patient."
        )
        asked = st.form_submit_button("Sign", type="primary")
    if not asked:
        return
    try:
        if changed:
            raise UserError("the numbers have changed since you opened this page; review them before signing")
        made = sign(run.folder, labels, verdict or "", reviewer, comment, shown, model)
    except UserError as error:
        st.error(plain(f"Not signed: {error}."), icon=":material/error:")
        return
    st.session_state[TURN] = turn + 1
    st.session_state[SAID] = f"Signed: {made[0].verdict}, {', '.join(display_name(one.label) for one in made)}."
    st.rerun()


@st.cache_data(max_entries=8, show_spinner="Writing the report…")
def report_of(mark: str, model: str | None, decided: int, _run: Run) -> str:
    return make_report(_run)


def offer_report(run: Run, model: str | None, decided: int) -> None:
    st.subheader("Report", anchor=False)
    st.markdown(
        "One HTML page with model facts, tables, figures and decisions. It opens without a network and prints on A4."
    )
    st.download_button(
        "Download the report",
        lambda: report_of(run.cache_key, model, decided, run),
        file_name=f"report-{run.name}.html",
        mime="text/html",
        icon=":material/download:",
        on_click="ignore",
        key="signoff_report",
    )
