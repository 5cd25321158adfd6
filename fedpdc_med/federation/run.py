"""From a federation and a run directory to a finished run."""

from fedpdc_med.common.progress import progress
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.federation.data import Federation
from fedpdc_med.federation.pooled import arranged
from fedpdc_med.runs.directory import Run


def run_rounds(federation: Federation, run: Run, workers: int, label: str) -> None:
    """Run what is left of the rounds, then write the final model and its predictions."""
    from fedpdc_med.engines.local import open_engine  # here, because engines build on this package

    federation = arranged(federation)
    federation.check()
    if run.finished:
        return
    engine = open_engine(federation, workers)
    try:
        coordinator = Coordinator(federation, engine, run)
        with progress(label, federation.rounds) as step:
            step(coordinator.progress.round)
            while coordinator.progress.round < federation.rounds:
                step(1, coordinator.run_round().in_short())
        coordinator.finish()
    finally:
        engine.close()
