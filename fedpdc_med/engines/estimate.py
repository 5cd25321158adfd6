"""What a run will cost on this machine, in time and disk, so that a command can say so before it begins."""

import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from fedpdc_med.common.console import errors
from fedpdc_med.common.progress import minutes
from fedpdc_med.engines.worker import AtSites, Bench, save, this_device
from fedpdc_med.federation.data import LocalFederation, initial_model
from fedpdc_med.federation.pooled import selected
from fedpdc_med.federation.protocol import Assignment

TIMED_BATCHES = 4
PREDICTION = 1 / 3  # of the time that training takes with a film: the forward pass alone
WORTH_SAYING = 60.0  # seconds


@dataclass(frozen=True)
class Estimate:
    seconds: float
    bytes: int


def say_beforehand(
    federation: LocalFederation, folder: Path, rounds: int, workers: int, runs: int = 1, more: float = 0.0
) -> None:
    """What `runs` runs like this one need, where that is more than a minute. About: sites and machines differ.

    `more`: seconds that are not training, such as the start of other programs.
    """
    try:
        one = estimate(federation, rounds, workers)
    except Exception:
        return  # a site that cannot train; the round itself says why
    seconds = one.seconds * runs + more
    if seconds < WORTH_SAYING:
        return
    what = f"{runs} runs of {rounds} rounds" if runs > 1 else f"{rounds} rounds"
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    disk, free = one.bytes * runs, shutil.disk_usage(there).free
    errors.print(
        f"{what} will take about {minutes(seconds)} with {workers} worker processes, and "
        f"{max(1, round(disk / 1e6)):,} MB of disk in {folder.parent} ({free / 1e9:,.0f} GB free).",
        highlight=False,
        soft_wrap=True,
    )


def estimate(federation: LocalFederation, rounds: int, workers: int) -> Estimate:
    plan, data, sites = federation.plan, federation.coordinator, list(federation.sites.values())
    with tempfile.TemporaryDirectory() as place:
        film, model = _costs(federation, Path(place))
    work = [len(site) * site.settings.epochs for site in sites]
    longest = max(sum(work) * plan.tau / workers, max(work))  # a round waits for its largest site
    predicted = len(data.weighting) * (len(sites) * plan.tau + 1) + len(data.films_of(data.reported))
    return Estimate(rounds * film * (longest + PREDICTION * predicted / workers), model * (len(sites) + 3))


def _costs(federation: LocalFederation, place: Path) -> tuple[float, int]:
    """Seconds to train with one film as the method trains at the largest site, and bytes of a model."""
    plan, correction = federation.plan, federation.coordinator.correction
    site = max(federation.sites.values(), key=len)
    few = min(len(site), TIMED_BATCHES * site.settings.batch_size)
    if correction is not None:  # as many for each film of the site as there will be
        some = max(1, len(correction) * few // len(site))
        correction = selected(correction, np.linspace(0, len(correction) - 1, some).astype(int))
    indices = np.arange(len(site)) if site.indices is None else site.indices
    settings = site.settings.model_copy(update={"epochs": 1})
    site = replace(site, indices=indices[:few], settings=settings, privacy=None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # like a worker
    try:
        there, start = AtSites(Bench(plan, this_device())), place / "start.safetensors"
        save(initial_model(plan).state_dict(), start)
        kept = start if there.parts.keeps == "model" and there.parts.trains == "sites" else None
        for _ in range(2):  # the first time warms up
            began = time.monotonic()
            there.train(site, Assignment(site.name, 1, 0.5, start, kept), place / "answer.safetensors", correction)
            seconds = time.monotonic() - began
    finally:
        torch.set_num_threads(threads)
    return seconds / few, start.stat().st_size
