"""Who shaped the model: score, weight and dissimilarity of every site over the rounds, and who did not count."""

import pandas as pd
import streamlit as st

from fedpdc_med.evaluation.contributions import OK, not_used, site_rounds, site_shares
from fedpdc_med.review.app import widgets as look
from fedpdc_med.review.figures.lines import over_rounds
from fedpdc_med.review.figures.shaped import weights as weights_figure
from fedpdc_med.runs.listing import Choice, RunView

CURVES = {
    "score": ("Score", "Accuracy of the site's update on the reference's weighting films: the paper's p."),
    "weight": ("Weight", "The site's share in the average of the round."),
    "dissimilarity": (
        "Dissimilarity",
        "The global model's accuracy over the site's own on the weighting films: the paper's B = P / p. Above 1 the "
        "global model is better than the site's update.",
    ),
}


def page(view: RunView, choice: Choice) -> None:
    if not view.rounds:
        st.info("No round has been recorded yet, so nobody has shaped the model.")
        return
    table = site_rounds(view.rounds)
    titles = {site: view.title_of(site) for site in table["site"].unique()}
    weights(view, table, titles)
    curves(table, titles)
    left_out(table, titles)
    for record in view.rounds:
        if record.get("note"):
            st.info(look.plain(f"Round {record['round']}: {record['note']}."))


def weights(view: RunView, table: pd.DataFrame, titles: dict[str, str]) -> None:
    st.subheader("Weights beside FedAvg's", anchor=False)
    shares = site_shares(table)
    if not shares["weight"].any():
        st.info("Nothing was shared in this run: every site trained alone, so no site has a weight.")
        return
    st.caption(
        "Mean weight over all rounds; a round in which a site's update was not used counts as 0. FedAvg would have "
        "weighed by number of films alone."
    )
    look.chart(weights_figure(shares, view.method, titles), "weights", "Mean weight of each site beside FedAvg's")
    look.table(as_text(shares, titles))
    if shares["epsilon"].notna().any():
        st.caption(
            "epsilon: what the updates of a site that adds noise to them can give away about its films, all rounds "
            "together. 1 is little; above 10 it promises next to nothing."
        )


def as_text(shares: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "site": shares["site"].map(titles),
            "films": [f"{films:,.0f}" if films == films else "none sent" for films in shares["films"]],
            "rounds used": [f"{row['used']} of {row['rounds']}" for row in shares.to_dict("records")],
            "mean score": [f"{score:.2f}" if score == score else "none" for score in shares["score"]],
            "mean weight": [f"{weight:.3f}" for weight in shares["weight"]],
            "FedAvg's": [f"{weight:.3f}" for weight in shares["fedavg"]],
            "times FedAvg's": [f"{ratio:.1f}" if ratio == ratio else "" for ratio in shares["ratio"]],
        }
    )
    if shares["epsilon"].notna().any():
        table["epsilon"] = [f"{epsilon:.3g}" if epsilon == epsilon else "no noise" for epsilon in shares["epsilon"]]
    return table


def curves(table: pd.DataFrame, titles: dict[str, str]) -> None:
    for value, (title, meaning) in CURVES.items():
        if not table[value].notna().any() or (value == "weight" and not table[value].any()):
            continue
        st.subheader(f"{title} over the rounds", anchor=False)
        st.caption(meaning)
        wide = table.pivot(index="round", columns="site", values=value)[list(titles)]
        look.chart(over_rounds(wide, title, "Site", titles), f"{value}-rounds", f"{title} of each site by round")


def left_out(table: pd.DataFrame, titles: dict[str, str]) -> None:
    st.subheader("Absent, failed and rejected", anchor=False)
    missed = not_used(table)
    if missed.empty:
        st.caption("Every site's update was used in every round.")
        return
    used = int((table["status"] == OK).sum())
    st.caption(
        f"{used:,} of {len(table):,} updates were used. absent: not sampled; failed: no answer; rejected: not usable."
    )
    look.table(
        pd.DataFrame(
            {
                "site": missed["site"].map(titles),
                "status": missed["status"],
                "reason": missed["reason"],
                "rounds": missed["rounds"],
                "how often": missed["count"],
            }
        )
    )
