"""What a simulation found, as tables: recall per class and method, and what each site gained."""

import numpy as np
import pandas as pd

from fedpdc_med.evaluation.recall import per_class_recall
from fedpdc_med.runs.directory import Run
from fedpdc_med.runs.predictions import GLOBAL, select


def recall_by_method(runs: dict[str, Run], split: str = "holdout") -> pd.DataFrame:
    """Columns class, method, correct, total, recall, low, high; for `solo` the mean and range of the sites' models."""
    rows = []
    for method, run in runs.items():
        frame = run.final_predictions()
        models = frame["model"].unique()
        tables = [per_class_recall(select(frame, model=model, split=split)).set_index("class") for model in models]
        for name in run.config["classes"]:
            if len(tables) == 1 and models[0] == GLOBAL:
                row = tables[0].loc[name]
                rows.append({"class": name, "method": method, **row[["correct", "total", "recall", "low", "high"]]})
                continue
            recalls = np.array([table.loc[name, "recall"] for table in tables], dtype=float)
            rows.append(
                {
                    "class": name,
                    "method": method,
                    "correct": None,
                    "total": tables[0].loc[name, "total"],
                    "recall": recalls.mean(),
                    "low": recalls.min(),
                    "high": recalls.max(),
                }
            )
    return pd.DataFrame(rows)


def worst_first(table: pd.DataFrame, method: str) -> list[str]:
    return list(table[table["method"] == method].sort_values("recall", kind="stable")["class"])


def site_gains(run: Run, solo: Run | None, split: str = "holdout") -> pd.DataFrame:
    """A row a site: its films and weight, its rarest class, and that class's recall by its own and the global model."""
    config, last = run.config, run.rounds[-1]
    together = per_class_recall(select(run.final_predictions(), model=GLOBAL, split=split)).set_index("class")
    alone = solo.final_predictions() if solo else None
    rows = []
    for name, site in config["sites"].items():
        if not site["takes_part"] or not site["training_films"]:  # a hospital that never answered has no counts
            continue
        counts = pd.Series(site["training_films"])
        recorded = last.sites.get(name)  # a method without a federation gives sites no weight
        rarest = str(counts.idxmin())
        row = {
            "site": name,
            "films": int(counts.sum()),
            "weight": recorded.weight if recorded else None,
            "status": recorded.status if recorded else "none",
            "rarest": rarest,
            "rarest_films": int(counts.min()),
            "federated": together.loc[rarest, "recall"],
            "own": None,
            "own_macro": None,
            "federated_macro": together["recall"].mean(),
        }
        if alone is not None:
            own = per_class_recall(select(alone, model=name, split=split)).set_index("class")
            row |= {"own": own.loc[rarest, "recall"], "own_macro": own["recall"].mean()}
        rows.append(row)
    return pd.DataFrame(rows)
