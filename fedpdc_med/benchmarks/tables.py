"""Result tables: mean ± SD over seeds next to the paper's numbers, and the best settings of each method."""

import json
import math
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict

from fedpdc_med.benchmarks.catalogue import published, published_rounds
from fedpdc_med.benchmarks.results import KeptResult
from fedpdc_med.common.description import Section, Table, as_markdown
from fedpdc_med.common.errors import UserError
from fedpdc_med.common.files import parsed
from fedpdc_med.methods import label, method_class
from fedpdc_med.runs.plan import MethodConfig

SETTING = ["experiment", "preset", "changed"]  # runs in one table must agree in these
LEGEND = (
    "runs: number of seeds (letter: see the note below the table); gain: accuracy minus FedAvg's, paired by seed; "
    "worst: recall of the worst class, %; tuning: accuracy of the global model on the weighting images, last rounds, "
    "%; reach: rounds to FedAvg's final accuracy (/the paper's), or how many runs reached it; MB: sent per round; "
    "time: per round, relative to FedAvg; vs paper: accuracy minus the paper's."
)
SCORE = "tuning: accuracy of the global model on the weighting images, last rounds, %. No test images are used."
SMALLER = {"rounds", "epochs", "images", "public_per_class"}


class MeasuredCost(BaseModel):
    """The time of a round of a method, and the bytes it sends."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: MethodConfig
    seconds_of_fedavg: float  # FedAvg = 1
    all_ratios: list[float]
    bytes_per_round: int


def table(results: Sequence[KeptResult], cost: Sequence[MeasuredCost] = ()) -> pd.DataFrame:
    """One row per experiment, preset and method: mean and SD over seeds, the paper's numbers and the difference."""
    frame = framed(results)
    frame["fedavg"] = _fedavg_of_the_same_seed(frame)
    frame["to_reach"] = [_rounds_to_reach_fedavg(row) for _, row in frame.iterrows()]
    rows = []
    keys = [*SETTING, "less_than_paper", "method"]
    for values, group in frame.groupby(keys, sort=False):
        row = dict(zip(keys, map(str, values), strict=True))
        first = results[group.index[0]]
        name = first.method.name
        # Our own variants have no number in the paper, and neither have tasks that differ from the paper's.
        literal = first.kind == name and same_task(row["changed"])
        paper = published(row["experiment"]).get(name) if literal else None
        mean, reached = group["accuracy"].mean(), group["to_reach"]
        compared = group["fedavg"].notna()  # with FedAvg of the same seed, because the partition affects every method
        gains, there = (group["accuracy"] - group["fedavg"])[compared], reached[compared].notna()
        rows.append(
            {
                **row,
                "seeds": len(group),
                "compared": int(compared.sum()),
                "accuracy": mean,
                "spread": group["accuracy"].std() if len(group) > 1 else None,
                "over_fedavg": gains.mean() if len(gains) and name != "fedavg" else None,
                "over_fedavg_spread": gains.std() if len(gains) > 1 and name != "fedavg" else None,
                "worst_recall": group["worst_recall"].mean(),
                "score": group["score"].mean(),
                "rounds": int(group["rounds"].max()),
                "to_reach_fedavg": reached.mean() if len(there) and there.all() else None,
                "seeds_that_reached": int(there.sum()),
                "bytes_per_round": group["bytes_per_round"].mean(),
                "seconds_per_round": group["seconds_per_round"].mean(),
                "time": time_of(first.method, cost),
                "paper": paper,
                "difference": mean - paper if paper is not None else None,
                "paper_to_reach": published_rounds(row["experiment"]).get(name) if literal else None,
            }
        )
    order = [*SETTING, "accuracy"]
    return pd.DataFrame(rows).sort_values(order, ascending=[True, True, True, False], ignore_index=True)


def framed(results: Sequence[KeptResult]) -> pd.DataFrame:
    """One row per run; `method` is its label, `changed` is text and names the images where most runs used others."""
    frame = pd.DataFrame([one.model_dump() for one in results])
    frame["method"], frame["kind"] = [one.label for one in results], [one.kind for one in results]
    frame["base"], frame["images"] = [one.method.name for one in results], [one.data.fingerprint for one in results]
    usual = frame.groupby("experiment")["images"].agg(lambda images: images.mode()[0])
    other = frame["images"] != frame["experiment"].map(usual)
    changes = [{**one, "images of": images[:8]} for one, images in zip(frame["changed"], frame["images"], strict=True)]
    frame["changed"] = frame["changed"].where(~other, pd.Series(changes)).map(as_text)
    return frame


def as_text(changed: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in changed.items())


def same_task(changed: str) -> bool:
    """Whether a run with these changes still does the paper's task: less of it, or with other public images."""
    return {change.partition("=")[0] for change in changed.split(", ") if change} <= SMALLER


def read_cost(file: Path) -> list[MeasuredCost]:
    """The measured cost per method, as `fedpdc benchmark cost --keep` wrote it."""
    try:
        return [MeasuredCost(**row) for row in parsed(json.loads, file.read_text(encoding="utf-8"))]
    except (FileNotFoundError, ValueError, TypeError):
        raise UserError(f"{file} was not written by: fedpdc benchmark cost --keep {file}") from None


def time_of(method: MethodConfig, cost: Sequence[MeasuredCost]) -> float | None:
    """The measured time of the method, or of one that differs only in settings that do not change a round's work."""
    if not cost:
        return None
    by_label = {label(one.method): one.seconds_of_fedavg for one in cost} | {"fedavg": 1.0}
    costs = method_class(method.name).costs
    work = {key: value for key, value in method.settings.items() if isinstance(value, str) or key in costs}
    return by_label.get(label(method), by_label.get(label(MethodConfig(name=method.name, settings=work))))


def rounds_to_reach(accuracy_by_round: Sequence[float], wanted: float) -> int | None:
    """The first round that reaches this accuracy, as in the paper's table IV; None if none does."""
    return next((t for t, accuracy in enumerate(accuracy_by_round, start=1) if accuracy >= wanted), None)


def _rounds_to_reach_fedavg(row: pd.Series) -> float:
    if row["method"] == "solo" or math.isnan(row["fedavg"]):
        return math.nan
    return float(rounds_to_reach(row["accuracy_by_round"], row["fedavg"]) or "nan")


def _fedavg_of_the_same_seed(frame: pd.DataFrame) -> pd.Series:
    """For each run, FedAvg's final accuracy with the same setting and seed; NaN where FedAvg was not run."""
    keys = [*SETTING, "seed"]
    fedavg = frame[frame["method"] == "fedavg"].drop_duplicates(keys).set_index(keys)["accuracy"]
    return fedavg.reindex(pd.MultiIndex.from_frame(frame[keys])).set_axis(frame.index)


def chosen(results: Sequence[KeptResult]) -> list[KeptResult]:
    """Of each kind of method, the runs with the highest tuning accuracy; test images play no part in the choice."""
    scores = by_score(results)
    best = set(scores.loc[scores["best"], [*SETTING, "method"]].itertuples(index=False, name=None))
    at = framed(results)[[*SETTING, "method"]].itertuples(index=False, name=None)
    return [result for result, where in zip(results, at, strict=True) if where in best]


def by_score(results: Sequence[KeptResult]) -> pd.DataFrame:
    """One row per setting and method: its tuning accuracy, and whether it is the best of its kind.

    Settings of one kind are compared on the seeds that all of them ran with, if there are any.
    """
    frame = framed(results)
    rows = []
    for values, group in frame.groupby([*SETTING, "kind"], sort=False):
        ran = [set(of_method["seed"]) for _, of_method in group.groupby("method")]
        seeds = set.intersection(*ran) or set.union(*ran)
        scores = group[group["seed"].isin(seeds)].groupby("method")["score"].mean().astype(float)
        best = scores.idxmax() if scores.notna().any() else None
        same = dict(zip([*SETTING, "kind"], map(str, values), strict=True))
        for method, score in scores.sort_values(ascending=False).items():
            rows.append({**same, "method": method, "seeds": seeds, "score": score, "best": method == (best or method)})
    return pd.DataFrame(rows)


def described(table: pd.DataFrame) -> list[Section]:
    """A table for each experiment, preset and set of changes: best method first, with notes on what was reduced."""
    sections = []
    for setting, rows in table.groupby(SETTING, sort=False):
        less = dict(zip(sorted(set(rows["less_than_paper"]) - {""}), ascii_lowercase, strict=False))
        records = rows.to_dict("records")
        shown = pd.DataFrame({name: [cell(row) for row in records] for name, cell in columns_for(rows, less).items()})
        told = "; ".join(f"{letter}: {words}" for words, letter in less.items())
        notes = [f"Reduced relative to the paper: {told}."] if less else []
        if any(fewer_compared(row) for row in records):
            notes.append("(n): gain and reach use only the n seeds for which FedAvg was run too.")
        sections.append(
            Section(
                "",
                tables=(Table(f"{titled(setting)}: accuracy on the test images, %", shown),),
                notes=(" ".join(notes),) if notes else (),
            )
        )
    return sections


def described_scores(table: pd.DataFrame) -> list[Section]:
    """The settings of each method by tuning accuracy, from `by_score`; one table per experiment and preset."""
    sections = []
    for setting, rows in table.groupby(SETTING, sort=False):
        cells = [
            {
                "setting": row["method"] + (" (default)" if row["method"] == row["kind"] else ""),
                "tuning": number(row["score"]),
                "seeds": ", ".join(map(str, sorted(row["seeds"]))),
                "": "best" if row["best"] else "",
            }
            for _, of_kind in rows.groupby("kind", sort=False)
            for row in of_kind.to_dict("records")
        ]
        sections.append(Section("", tables=(Table(titled(setting), pd.DataFrame(cells)),)))
    return sections


def with_a_choice(scores: pd.DataFrame) -> pd.DataFrame:
    """The rows of `by_score` whose method ran with more than one setting."""
    return scores[scores.groupby([*SETTING, "kind"])["method"].transform("size") > 1]


def markdown(table: pd.DataFrame) -> str:
    """The same tables as Markdown."""
    parts: list[str] = []
    for section in described(table):
        for one in section.tables:
            rows = as_markdown(list(one.frame.columns), one.frame.to_numpy().tolist(), numbers=True)
            parts += [f"**{one.title}**", rows]
        parts += section.notes
    return "\n\n".join([*parts, LEGEND]) + "\n"


def titled(setting: tuple[Hashable, ...]) -> str:
    experiment, preset, changed = setting
    return f"{experiment}{f' with {changed}' if changed else ''}, preset {preset}"


def columns_for(rows: pd.DataFrame, less: dict[str, str]) -> dict[str, Callable[[dict[Any, Any]], str]]:
    """What to print in each column; columns that are empty in every row are omitted."""
    columns = {
        "method": lambda row: row["method"],
        "accuracy": lambda row: number(row["accuracy"]) + spread(row["spread"]),
        "runs": lambda row: str(row["seeds"]) + less.get(row["less_than_paper"], ""),
        "gain": gain,
        "worst": lambda row: number(row["worst_recall"]),
        "tuning": lambda row: number(row["score"]),
        "reach": reach,
        "MB": lambda row: number(row["bytes_per_round"] / 1e6) if row["bytes_per_round"] else "",
        "time": lambda row: number(row["time"], 2),
        "paper": lambda row: number(row["paper"]),
        "vs paper": lambda row: signed(row["difference"]),
    }
    return {name: shown for name, shown in columns.items() if any(shown(row) for row in rows.to_dict("records"))}


def gain(row: dict[Any, Any]) -> str:
    seeds = f" ({row['compared']})" if fewer_compared(row) else ""
    return signed(row["over_fedavg"]) + spread(row["over_fedavg_spread"]) + seeds


def fewer_compared(row: dict[Any, Any]) -> bool:
    """Whether the gain uses fewer seeds than were run."""
    return not missing(row["over_fedavg"]) and row["compared"] < row["seeds"]


def reach(row: dict[Any, Any]) -> str:
    paper = "" if missing(row["paper_to_reach"]) else f"/{row['paper_to_reach']:.0f}"
    if not missing(row["to_reach_fedavg"]):
        return f"{row['to_reach_fedavg']:.1f}".removesuffix(".0") + paper
    if row["seeds_that_reached"]:
        return f"{row['seeds_that_reached']} of {row['compared']}"
    compared = not missing(row["over_fedavg"]) and row["method"] != "solo"
    return "never" if compared else ""


def missing(value: float | None) -> bool:
    return value is None or value != value


def signed(value: float | None) -> str:
    return "" if missing(value) else f"{value:+.1f}"


def spread(value: float | None) -> str:
    return "" if missing(value) else f"±{value:.1f}"


def number(value: float | None, digits: int = 1) -> str:
    return "" if missing(value) else f"{value:.{digits}f}"
