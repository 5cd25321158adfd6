"""Who shaped the model: score, weight and dissimilarity of every site by round, and updates that were not used."""

import pandas as pd

from fedpdc_med.common.description import Chart, Section, Table
from fedpdc_med.evaluation.contributions import OK, site_rounds, site_shares
from fedpdc_med.evaluation.contributions import not_used as missed_updates
from fedpdc_med.runs.directory import Run

NO_ROUND = "No round has been recorded yet, so no site has shaped the model."
CURVES = {
    "score": ("Score", "Accuracy of the site's model on the weighting films (the paper's p)."),
    "weight": ("Weight", "The site's aggregation weight; the weights of a round add up to 1."),
    "dissimilarity": (
        "Dissimilarity",
        "Accuracy of the global model divided by the site's, on the weighting films (the paper's B = P / p). Above 1, "
        "the global model is better than the site's.",
    ),
}


def weights(run: Run) -> Section:
    title = "Weights compared with FedAvg"
    if not run.rounds:
        return Section(title, (NO_ROUND,), level="info")
    shares = site_shares(site_rounds(run.rounds))
    if not shares["weight"].any():
        why = "In this run every site trained its own model (local-only training), so no site has a weight."
        return Section(title, (why,), level="info")
    named = shares["site"].map(run.title_of)
    frame = pd.DataFrame({"name": named, "first": shares["fedavg"], "second": shares["weight"]})
    chart = Chart(
        "pairs",
        frame,
        ("Mean weight over the rounds", "Site"),
        "Mean weight of each site compared with FedAvg",
        {"first": "FedAvg: by number of films", "second": f"this run ({run.method})"},
    )
    epsilon = (
        "Epsilon: differential-privacy budget spent over all rounds. About 1 is strong protection; above 10 there is "
        "practically none."
    )
    return Section(
        title,
        (
            "Mean aggregation weight over all rounds (0 where a site's update was not used). FedAvg would weight sites "
            "by number of films alone.",
        ),
        charts=(chart,),
        tables=(Table("", shares_text(shares.assign(site=named))),),
        notes=(epsilon,) if shares["epsilon"].notna().any() else (),
    )


def shares_text(shares: pd.DataFrame) -> pd.DataFrame:
    """From `site_shares`."""
    table = pd.DataFrame(
        {
            "site": shares["site"],
            "films": [f"{films:,.0f}" if films == films else "no update" for films in shares["films"]],
            "rounds used": [f"{row['used']} of {row['rounds']}" for row in shares.to_dict("records")],
            "mean score": [f"{score:.2f}" if score == score else "none" for score in shares["score"]],
            "mean weight": [f"{weight:.3f}" for weight in shares["weight"]],
            "FedAvg weight": [f"{weight:.3f}" for weight in shares["fedavg"]],
            "ratio to FedAvg": [f"{ratio:.1f}" if ratio == ratio else "" for ratio in shares["ratio"]],
        }
    )
    if shares["epsilon"].notna().any():
        table["epsilon"] = [f"{epsilon:.3g}" if epsilon == epsilon else "no noise" for epsilon in shares["epsilon"]]
    return table


def by_round(run: Run) -> Section:
    table = site_rounds(run.rounds)
    parts = []
    for value, (title, meaning) in CURVES.items():
        if not table[value].notna().any() or (value == "weight" and not table[value].any()):
            continue
        wide = table.pivot(index="round", columns="site", values=value)[list(table["site"].unique())]
        named = wide.rename(columns=run.title_of)
        chart = Chart("lines", named, ("Round", title), f"{title} of each site by round")
        parts.append(Section(f"{title} by round", (meaning,), charts=(chart,)))
    return Section("", parts=tuple(parts))


def not_used(run: Run) -> Section:
    title = "Updates that were not used"
    if not run.rounds:
        return Section("")
    table = site_rounds(run.rounds)
    notes = tuple(f"Round {record.round}: {record.note}." for record in run.rounds if record.note)
    missed = missed_updates(table)
    if missed.empty:
        return Section(title, ("Every site's update was used in every round.",), notes=notes)
    used = int((table["status"] == OK).sum())
    shown = missed.assign(site=missed["site"].map(run.title_of)).rename(columns={"count": "times"})
    sentence = (
        f"{used:,} of {len(table):,} updates were used. Absent = not sampled, failed = no response, rejected = "
        "unusable update."
    )
    return Section(title, (sentence,), tables=(Table("", shown),), notes=notes)
