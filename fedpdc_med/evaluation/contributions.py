"""Who shaped the model: each site's score and weight by round, and why some updates were not used."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from fedpdc_med.runs.schema import Round

OK = "ok"
MACRO = "macro recall"
NUMBERS = ("films", "loss", "score", "weight", "dissimilarity", "epsilon")


def site_rounds(rounds: list[Round]) -> pd.DataFrame:
    """One row per site and round: round, site, status, reason, NUMBERS, fedavg.

    `fedavg` is the weight by number of films among the sites whose update was used in that round.
    """
    rows = [
        {
            "round": record.round,
            "site": site,
            "status": found.status,
            "reason": found.reason,
            **{name: getattr(found, name) for name in NUMBERS},
        }
        for record in rounds
        for site, found in record.sites.items()
    ]
    table = pd.DataFrame(rows, columns=["round", "site", "status", "reason", *NUMBERS])
    table[list(NUMBERS)] = table[list(NUMBERS)].astype(float)
    films = table["films"].where(table["status"] == OK)
    total = films.groupby(table["round"]).transform("sum")
    return table.assign(fedavg=films / total.where(total > 0))


def site_shares(table: pd.DataFrame) -> pd.DataFrame:
    """One row per site, largest weight first, from `site_rounds`: how often it was used, and its mean weight.

    Columns site, rounds, used, films, score, weight, fedavg, epsilon, ratio. A round in which a site's update was not
    used counts with weight 0, because it added nothing to the model; score is the mean over the rounds that have one.
    """
    of_round = table.assign(
        used=(table["status"] == OK).astype(int), weight=table["weight"].fillna(0.0), fedavg=table["fedavg"].fillna(0.0)
    )
    shares = (
        of_round.groupby("site")
        .agg(
            rounds=("round", "nunique"),
            used=("used", "sum"),
            films=("films", "max"),
            score=("score", "mean"),
            weight=("weight", "sum"),
            fedavg=("fedavg", "sum"),
            epsilon=("epsilon", "max"),
        )
        .reset_index()
    )
    shares[["weight", "fedavg"]] /= table["round"].nunique()  # rounds that do not name the site count too
    with np.errstate(divide="ignore", invalid="ignore"):
        shares["ratio"] = (shares["weight"] / shares["fedavg"]).where(shares["fedavg"] > 0)
    return shares.sort_values("weight", ascending=False, kind="stable", ignore_index=True)


def not_used(table: pd.DataFrame) -> pd.DataFrame:
    """Which sites were absent, failed or rejected, why and when: columns site, status, reason, rounds, count."""
    missed = table[table["status"] != OK]
    groups = missed.groupby(["site", "status", "reason"], sort=True)["round"]
    rows = [
        {"site": site, "status": status, "reason": reason, "rounds": spans(numbers), "count": len(numbers)}
        for (site, status, reason), numbers in groups
    ]
    return pd.DataFrame(rows, columns=["site", "status", "reason", "rounds", "count"])


def spans(numbers: Iterable[int]) -> str:
    """1, 2, 3, 7 as '1-3, 7'."""
    ordered = np.unique(np.fromiter(numbers, dtype=np.int64))
    runs = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1)
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs if len(run))


def recall_rounds(rounds: list[Round], classes: list[str]) -> pd.DataFrame:
    """One row per round: `accuracy`, one column per class (NaN where a round does not have it), and MACRO."""
    rows = [
        {"round": record.round, "accuracy": record.accuracy, **{name: record.recall.get(name) for name in classes}}
        for record in rounds
    ]
    table = pd.DataFrame(rows, columns=["round", "accuracy", *classes])
    table = table.astype(dict.fromkeys(("accuracy", *classes), float))
    return table.assign(**{MACRO: table[classes].mean(axis=1)})
