"""Tables of text, the same on a page and in the report: what `evaluation` counted, in words and two decimals."""

import math
from collections.abc import Callable

import pandas as pd

from fedpdc_med.evaluation.confusion import MISSED
from fedpdc_med.evaluation.operating_points import Rule, choose_threshold, threshold_table
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.signoff import Decision
from fedpdc_med.runs.predictions import spoken

ATTRIBUTE_NAMES = {"sex": "sex", "age_band": "age band", "view": "view"}


def dangers(cells: pd.DataFrame, most: int) -> tuple[pd.DataFrame, int]:
    """From `dangerous_cells`: mistakes that happened, then diseases never called normal; and how many are left out."""
    happened = cells["count"] > 0
    listed = pd.concat([cells[happened], cells[~happened & (cells["kind"] == MISSED)]])
    shown = listed.head(most)
    table = pd.DataFrame(
        {
            "mistake": shown["name"],
            "kind": shown["kind"],
            "films": [f"{n} of {total}" for n, total in zip(shown["count"], shown["total"], strict=True)],
            "share": shown["share"].map(look.share),
            "95 %": [look.between(low, high) for low, high in zip(shown["low"], shown["high"], strict=True)],
        }
    )
    return table, len(listed) - len(shown)


def dangers_title(cells: pd.DataFrame) -> str:
    """The order of `dangers` in words."""
    missed = cells["kind"] == MISSED
    if not missed.any():
        return "Most frequent mistakes"
    if (cells.loc[missed, "count"] == 0).any():
        return "Mistakes made, then diseases never called normal"
    return "Mistakes, diseases called normal first"


def recall(table: pd.DataFrame) -> pd.DataFrame:
    """From `per_class_recall`."""
    shown = pd.DataFrame({"class": table["class"].map(spoken), "recall": table["recall"].map(look.share)})
    shown["95 %"] = [look.between(low, high) for low, high in zip(table["low"], table["high"], strict=True)]
    shown["films found"] = [f"{n} of {total}" for n, total in zip(table["correct"], table["total"], strict=True)]
    return without_empty(shown.assign(interval=table["method"], note=table["note"]))


def by_site(table: pd.DataFrame, classes: list[str], title_of: Callable[[str], str]) -> pd.DataFrame:
    """From `site_by_class`: one row a site, one column a class; one row each where there are many classes."""
    titles = {str(site): title_of(str(site)) for site in table["site"].unique()}
    cells = [(str(row["site"]), spoken(str(row["class"])), row) for _, row in table.iterrows()]
    if len(classes) > 6:
        long = [{"site": titles[s], "class": c, "recall": _recall(row)} for s, c, row in cells if row["total"]]
        return pd.DataFrame(long)
    wide: dict[str, dict[str, str]] = {}
    for site, label, row in cells:
        wide.setdefault(site, {"site": titles[site]})[label] = _recall(row)
    return pd.DataFrame(list(wide.values()))


def _recall(row: pd.Series) -> str:
    if not row["total"]:
        return "no films"
    of = f"{row['correct']:.0f} of {row['total']:.0f}"
    return f"{look.share(row['recall'])} ({look.between(row['low'], row['high'])}), {of}"


def operating(
    frame: pd.DataFrame, others: pd.DataFrame, classes: list[str], rule: Rule = "youden", wanted: float = 0.9
) -> pd.DataFrame:
    """Each class at the threshold that `others` choose, with what it gives on `frame`."""
    rows = []
    for label in classes:
        chosen = choose_threshold(others, label, rule, wanted)
        if math.isnan(chosen.value):
            rows.append({"class": spoken(label), "threshold": look.NOT_ESTIMABLE, "note": chosen.note})
            continue
        at = threshold_table(frame, label, [usable(chosen.value)]).iloc[0]
        rows.append(
            {
                "class": spoken(label),
                "threshold": f"{usable(chosen.value):.{decimals(chosen.value)}f}",
                "sensitivity": look.share(at["sensitivity"]),
                "sensitivity, 95 %": look.between(at["sensitivity_low"], at["sensitivity_high"]),
                "specificity": look.share(at["specificity"]),
                "specificity, 95 %": look.between(at["specificity_low"], at["specificity_high"]),
                "note": chosen.note,
            }
        )
    return without_empty(pd.DataFrame(rows).fillna(""))


def usable(threshold: float) -> float:
    """A threshold as people write it; rounded down, so that the film that set it is called."""
    scale = 10 ** decimals(threshold)
    return math.floor(threshold * scale) / scale


def decimals(threshold: float) -> int:
    """Three, or as many more as a threshold close to 0 or 1 needs to stay away from it."""
    room = min(threshold, 1 - threshold)
    return min(max(3, 1 - math.floor(math.log10(room))), 9) if room > 0 else 3


def areas(table: pd.DataFrame) -> pd.DataFrame:
    """From `discrimination`."""
    shown = pd.DataFrame({"class": table["class"].map(spoken)})
    counted = zip(table["positives"], table["negatives"], strict=True)
    shown["films of the class"] = [f"{m} of {m + n}" for m, n in counted]
    for name, title in (("auc", "AUC"), ("ap", "average precision")):
        bounds = zip(table[f"{name}_low"], table[f"{name}_high"], strict=True)
        shown[title] = table[name].map(look.share)
        shown[f"{title}, 95 %"] = [look.between(low, high) for low, high in bounds]
    shown["share of the class"] = ["" if math.isnan(value) else look.share(value) for value in table["prevalence"]]
    return without_empty(shown.assign(note=table["note"]))


def source_counts(table: pd.DataFrame, classes: list[str]) -> pd.DataFrame:
    """From `source_by_label`, in the order of the classes."""
    ordered = table[[name for name in classes if name in table.columns]]
    shown = ordered.rename(columns={name: spoken(str(name)) for name in table.columns}).reset_index()
    return shown.assign(source=[str(name) or "not recorded" for name in shown["source"]])


def subgroups(table: pd.DataFrame, attribute: str, classes: list[str]) -> pd.DataFrame:
    """From `subgroup_recall`: one row a subgroup, one column a class; one row each where there are many classes."""
    mine = table[table["attribute"] == attribute]
    title = ATTRIBUTE_NAMES[attribute]
    cells = [(str(row["value"]), str(row["class"]), _cell(row)) for _, row in mine.iterrows()]
    if len(classes) > 6:
        return pd.DataFrame([{title: v, "class": spoken(c), "recall (95 %)": text} for v, c, text in cells])
    wide: dict[str, dict[str, str]] = {}
    for value, label, text in cells:
        wide.setdefault(value, {title: value})[spoken(label)] = text
    return pd.DataFrame(list(wide.values()))


def _cell(row: pd.Series) -> str:
    return "not shown" if row["suppressed"] else _recall(row)


def without_empty(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns="note") if "note" in table and not table["note"].any() else table


def history(decisions: list[Decision], model: str | None) -> pd.DataFrame:
    """Every decision, newest first."""
    return pd.DataFrame(
        {
            "time (UTC)": one.time.replace("T", " ").removesuffix("+00:00"),
            "class": spoken(one.label),
            "decision": one.verdict,
            "by": one.reviewer,
            "had seen": one.seen,
            "comment": one.comment,
            "on": "this model" if one.model_sha256 == model else f"another model ({one.model_sha256[:12]}…)",
        }
        for one in reversed(decisions)
    )
