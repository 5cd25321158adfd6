"""What a simulation ends with, as tables on a terminal."""

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedpdc_med import RESEARCH_USE_ONLY
from fedpdc_med.common import console as terminal

if TYPE_CHECKING:
    import pandas as pd

    from fedpdc_med.runs.directory import Run

console = terminal.console()


def print_result(runs: "dict[str, Run]", main: str) -> None:
    """The tables a simulation ends with, the worst class first."""
    from fedpdc_med.evaluation.simulation_tables import recall_by_method, site_gains, worst_first
    from fedpdc_med.evaluation.sites import untaught_classes

    found = recall_by_method(runs)
    shown = table(
        "Recall on the holdout films, worst class first (95 % interval by patient; solo: mean and range of the sites)"
    )
    shown.add_column("class (films)")
    for name in runs:
        shown.add_column(name, justify="right")
    films = {row["class"]: int(row["total"]) for row in found.to_dict("records")}
    order = worst_first(found, main)
    cells = {(row["class"], row["method"]): recall_cell(row) for row in found.to_dict("records")}
    for label in order:
        shown.add_row(f"{label} ({films[label]})", *[cells[label, name] for name in runs])
    macro = [f"{found[found['method'] == name]['recall'].mean():.2f}" for name in runs]
    shown.add_section()
    shown.add_row("mean of classes", *macro)
    console.print(shown)
    config = runs[main].config
    if untaught := untaught_classes(config["sites"], config["classes"]):
        console.print(f"No hospital had a film of {', '.join(untaught)} to train on.", style="yellow")
    if runs[main].config["method"]["name"] != "solo":
        print_sites(site_gains(runs[main], runs.get("solo")))
        print_external(runs[main])
    folder = runs[main].folder
    console.print(f"Run directories: {', '.join(str(run.folder) for run in runs.values())}")
    console.print(f"Next, in your browser: fedpdc review {folder}")
    if "solo" not in runs and "federation" not in runs[main].config:
        console.print("Beside each site alone and FedAvg: add --compare solo,fedavg")
    console.print(RESEARCH_USE_ONLY)


def recall_cell(row: dict[Any, Any]) -> str:
    if row["recall"] != row["recall"]:  # NaN
        return "not estimable"
    return f"{row['recall']:.2f} ({row['low']:.2f}-{row['high']:.2f})"


def table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)


def print_sites(gains: "pd.DataFrame") -> None:
    alone = gains["own"].notna().any()
    how = ": by its own model > by the federated one" if alone else ""
    shown = table(f"Each site: last weight, rarest class (its training films), recall on the holdout films{how}")
    for column in ("site", "weight", "rarest class", "its recall", "mean recall"):
        shown.add_column(column, justify="left" if column in ("site", "rarest class") else "right", no_wrap=True)
    for row in gains.to_dict("records"):
        weight = f"{row['weight']:.2f}" if row["status"] == "ok" else row["status"]
        both = [
            (f"{row[own]:.2f} > " if alone else "") + f"{row[federated]:.2f}"
            for own, federated in (("own", "federated"), ("own_macro", "federated_macro"))
        ]
        shown.add_row(row["site"], weight, f"{row['rarest']} ({row['rarest_films']})", *both)
    console.print(shown)


def print_external(run: "Run") -> None:
    from fedpdc_med.evaluation.recall import per_class_recall
    from fedpdc_med.runs.predictions import GLOBAL, select

    frame = run.final_predictions()
    for site in frame.loc[frame["split"] == "external", "site"].unique():
        table = per_class_recall(select(frame, model=GLOBAL, split="external", site=site))
        known = table[table["total"] > 0]
        cells = ", ".join(f"{row['class']} {recall_cell(row)}" for row in known.to_dict("records"))
        console.print(f"External site {site}, which took no part: {cells}")
