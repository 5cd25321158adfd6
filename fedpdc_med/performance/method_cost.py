"""The cost of a round of each method relative to FedAvg: time, measured alternately with FedAvg, and bytes."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedpdc_med.benchmarks.catalogue import make_experiment
from fedpdc_med.benchmarks.run import build
from fedpdc_med.benchmarks.tables import MeasuredCost
from fedpdc_med.common.progress import progress
from fedpdc_med.engines.local import ProcessEngine
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.federation.pooled import arranged
from fedpdc_med.methods import METHODS, Method, config_of, label, make_method
from fedpdc_med.performance.training import noise
from fedpdc_med.runs.directory import scratch_run

IMAGES = 20_000
VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fedpdc", {"correction": "proximal"}),
    ("fedpdc", {"correction": "soft-accuracy"}),
    ("fedpdc-ce", {"strength": 1}),
    ("fedpdc-ce", {"weighting": "learned"}),
    ("data-sharing", {"copies": 5}),
    ("server-finetune", {"server_epochs": 10}),
)


def measure(workers: int, repeats: int) -> list[MeasuredCost]:
    """Rounds of every method, alternating with FedAvg's: on a noisy machine only their ratio is meaningful."""
    methods = [make_method(name) for name in METHODS if name != "fedavg"]
    methods += [make_method(name, **settings) for name, settings in VARIANTS]
    rows = []
    with coordinator_of(make_method("fedavg"), workers) as fedavg, progress("cost", len(methods)) as step:
        for method in methods:
            with coordinator_of(method, workers) as other:
                pairs = [(other.run_round(), fedavg.run_round()) for _ in range(repeats)]
            ratios = [ours.seconds / theirs.seconds for ours, theirs in pairs]
            row = MeasuredCost(
                method=config_of(method),
                seconds_of_fedavg=float(np.median(ratios)),
                all_ratios=ratios,
                bytes_per_round=pairs[-1][0].bytes or 0,
            )
            rows.append(row)
            step(1, f"{label(row.method)}: {row.seconds_of_fedavg:.2f} of FedAvg's time")
    return rows


@contextmanager
def coordinator_of(method: Method, workers: int) -> Iterator[Coordinator]:
    """A federation after its first round, in which no method has anything to contrast or correct yet."""
    experiment = make_experiment("cifar10-cnn-b0.1", "quick", method.name)
    federation = arranged(build(experiment, method, noise(IMAGES)))
    engine = ProcessEngine(federation, workers)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = scratch_run(Path(folder) / "run")
            coordinator = Coordinator(federation.plan, federation.coordinator, engine, run)
            coordinator.run_round()
            yield coordinator
        finally:
            engine.close()
