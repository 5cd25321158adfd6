"""The three numbers that matter, intended use, the model and its training, and the sites."""

from dataclasses import replace

import pandas as pd

from fedpdc_med.common.description import NOT_ESTIMABLE, Chart, Number, Section, Table, between, two_decimals
from fedpdc_med.evaluation.recall import Estimate, per_class_recall
from fedpdc_med.evaluation.sites import Headline, headline
from fedpdc_med.review import model_facts as facts
from fedpdc_med.review.sections import chosen, films_of, named
from fedpdc_med.review.signoff import model_hash
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.listing import Choice, reported
from fedpdc_med.runs.predictions import display_name

CAUTION = (
    "These are estimates: read them with their 95% CIs. The worst class was picked after seeing the results; its CI "
    "does not account for that."
)


def three_numbers(run: Run, choice: Choice) -> Section:
    found = numbers_of(run, choice)
    second = on_the_same_films(choice)
    other = numbers_of(second.second, second) if second and second.second else None
    beside = _second_lines(found, second, other) if second and other else ("", "", "")
    worst, macro = found.worst, found.macro
    films = f"{worst.correct} of {worst.total} films classified correctly" if worst.total else ""
    return Section(
        "The three numbers that matter",
        (f"Evaluated on {films_of(choice.split)}. Model: {run.title_of(choice.model)}.",),
        numbers=(
            Number(
                "Worst-class recall",
                two_decimals(worst.value),
                _said(worst_named(run, choice, found), inside(worst), films, worst.note, beside[0]),
                warn=worst.low < 0.5,
            ),
            Number(
                "Macro recall",
                two_decimals(macro.value),
                _said("mean recall over the classes", inside(macro), macro.note, beside[1]),
            ),
            _outside(run, choice, found, beside[2]),
        ),
        notes=(CAUTION,),
    )


def uses(run: Run, choice: Choice) -> Section:
    """Always on the reported films: warnings must not depend on the films chosen in the sidebar."""
    found, recall = None, None
    if run.status == "finished":
        choice = reported(run, choice)
        found, recall = numbers_of(run, choice), per_class_recall(chosen(run, choice), choice.interval)
    return Section(
        "",
        parts=(
            Section("Intended use", bullets=tuple(facts.intended_use(run))),
            Section("When not to use it", bullets=tuple(facts.not_to_use(run, found, recall))),
        ),
    )


def model(run: Run) -> Section:
    file = model_hash(run.folder) or "none: the run has no global model"
    rows = [*facts.model_facts(run), ("Model file, SHA-256", file)]
    return Section("Model and training", tables=(Table("", pd.DataFrame(rows, columns=["", "this run"])),))


def sites(run: Run) -> Section:
    counts = facts.training_films(run)
    charts: tuple[Chart, ...] = ()
    if len(counts.columns) and len(counts):
        named = counts.rename(index=run.title_of, columns=display_name)
        charts = (Chart("bars", named, ("Training films", "Site"), "Training films per class, one bar per site"),)
    empty = "No round has been recorded yet, so the sites are not known."
    return Section("Sites and training films", charts=charts, tables=(Table("", facts.sites_table(run), empty),))


def numbers_of(run: Run, choice: Choice) -> Headline:
    chosen(run, choice)
    assert run.predictions is not None
    return headline(run.predictions, choice.interval, model=choice.model, split=choice.split)


def on_the_same_films(choice: Choice) -> Choice | None:
    """The choice for the second run: the same films, and the same model where it has it."""
    second = choice.second
    if second is None or second.status != "finished" or choice.split not in second.splits:
        return None
    models = second.models_on(choice.split)
    return replace(choice, model=choice.model if choice.model in models else models[0])


def worst_named(run: Run, choice: Choice, found: Headline) -> str:
    return facts.worst_named(found.worst, per_class_recall(chosen(run, choice), choice.interval))


def inside(estimate: Estimate) -> str:
    text = between(estimate.low, estimate.high)
    return f"95% CI {text}" if text else ""


def _second_lines(found: Headline, choice: Choice, other: Headline) -> tuple[str, str, str]:
    """The same three numbers of the second run."""
    run = choice.second
    assert run is not None
    worst, macro = other.worst, other.macro
    tied = worst_named(run, choice, other)
    first = _joined(f"second run: {two_decimals(worst.value)} ({tied})", inside(worst))
    mean = _joined(f"second run: {two_decimals(macro.value)}", inside(macro))
    if found.outside in other.drops:
        return first, mean, f"second run at the same site: {two_decimals(other.drops[found.outside].level)}"
    if other.drop is None:
        return first, mean, ""
    return first, mean, f"second run at {run.title_of(other.outside)}: {two_decimals(other.drop.level)}"


def _outside(run: Run, choice: Choice, found: Headline, second: str) -> Number:
    label = "Macro recall at an external site"
    if found.drop is None:
        viewed = choice.split == "external"
        why = "you are already viewing the external films" if viewed else "this run has no external site"
        return Number(label, NOT_ESTIMABLE, (why,))
    drop = found.drop.macro
    where = f"at {run.title_of(found.outside)}, not used in training"
    below = _said(where, facts.worst_of(found), facts.changed_by(drop, named(choice.split)), drop.note, second)
    return Number(label, two_decimals(found.drop.level), below, warn=drop.low > 0)


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _said(*lines: str) -> tuple[str, ...]:
    return tuple(line for line in lines if line)
