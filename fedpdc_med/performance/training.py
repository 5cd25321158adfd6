"""The speed of a round, compared with the bare loop that bounds it and with the usual loop; and its memory."""

import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedpdc_med.benchmarks.catalogue import make_experiment
from fedpdc_med.benchmarks.run import build
from fedpdc_med.common.progress import progress
from fedpdc_med.datasets import ImageSet
from fedpdc_med.engines.local import ProcessEngine
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.federation.data import LocalFederation
from fedpdc_med.federation.images import Films
from fedpdc_med.methods import make_method
from fedpdc_med.models.inference import normalise
from fedpdc_med.runs.directory import scratch_run
from fedpdc_med.runs.schema import Experiment, Round

IMAGES, TEST_IMAGES = 50_000, 10_000  # CIFAR-10's numbers; the pixels are noise, which takes as long to train on


def measure(workers: int, repeats: int) -> dict[str, Any]:
    """All numbers of `fedpdc benchmark speed`; the loops are interleaved, because machines are noisy."""
    experiment = make_experiment("cifar10-cnn-b0.1", "quick", "fedpdc")
    federation = build(experiment, make_method("fedpdc"), noise(IMAGES))
    rates: dict[str, list[float]] = {"federation": [], "limit": [], "usual": []}
    with tempfile.TemporaryDirectory() as folder, progress("speed", 3 * repeats + 3) as step:
        engine = ProcessEngine(federation, workers)
        limit = BareLoops(federation, workers)
        try:
            run = scratch_run(Path(folder) / "run")
            coordinator = Coordinator(federation.plan, federation.coordinator, engine, run)
            engine.predict(coordinator.run.checkpoint_file, "weighting")()  # workers are up
            for _ in range(repeats):
                for name, loop in (
                    ("federation", lambda: federation_rate(coordinator, experiment)),
                    ("limit", limit.rate),
                    ("usual", lambda: usual_rate(federation)),
                ):
                    rates[name].append(loop())
                    step(1, f"{name}: {rates[name][-1]:,.0f} images/s")
        finally:
            engine.close()
            limit.close()
        memory = []
        for sites in (10, 100, 1000):
            memory.append(memory_of(sites, workers))
            step()
    medians = {f"{name}_images_per_second": float(np.median(found)) for name, found in rates.items()}
    return {**medians, "all_rates": rates, "memory": memory, "workers": workers, "torch": torch.__version__}


def noise(count: int) -> ImageSet:
    rng = np.random.default_rng(0)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8), rng.permutation(np.arange(n) % 10).astype(np.int64)

    return ImageSet("noise", tuple(map(str, range(10))), *draw(count), *draw(TEST_IMAGES))


def federation_rate(coordinator: Coordinator, experiment: Experiment) -> float:
    """Images per second in a whole round: assignments, local training, scoring, averaging, evaluation, checkpoint."""
    started = time.perf_counter()
    record = coordinator.run_round()
    seconds = time.perf_counter() - started
    return images_trained(record, experiment) / seconds


def images_trained(record: Round, experiment: Experiment) -> int:
    """The images used by the sites of a round: whole batches, or the single partial batch of a small site."""
    size = experiment.batch_size
    films = [site.films or 0 for site in record.sites.values() if site.status == "ok"]
    return sum(count // size * size or count for count in films) * experiment.epochs


class PlainCNN(nn.Module):
    """The paper's layers as anyone would write them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2 = nn.Linear(400, 120), nn.Linear(120, 84)
        self.project1, self.project2, self.classify = nn.Linear(84, 84), nn.Linear(84, 256), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc2(F.relu(self.fc1(x.flatten(1)))))
        return self.classify(self.project2(F.relu(self.project1(x))))


def plain_training() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = PlainCNN()
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-5)


def step_on(model: nn.Module, optimiser: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> None:
    optimiser.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    optimiser.step()


_batches: list[tuple[Tensor, Tensor]] = []


def _hold(batches: Sequence[tuple[Tensor, Tensor]]) -> None:
    torch.set_num_threads(1)
    _batches.extend(batches)


def _bare_loop(steps: int) -> int:
    model, optimiser = plain_training()
    for i in range(steps):
        step_on(model, optimiser, *_batches[i % len(_batches)])
    return steps


class BareLoops:
    """As many bare loops as workers, with one thread each, on float batches already in memory.

    Each is a new Python process, as for any script. Once its C library keeps freed memory, as in our workers, the same
    loop runs 1.4 times as fast; docs/speed.md has both.
    """

    def __init__(self, federation: LocalFederation, workers: int, steps: int = 400) -> None:
        films = next(iter(federation.sites.values())).films
        batches = [
            (
                normalise(films.images[at : at + 64], federation.plan.preparation).contiguous(),
                films.labels[at : at + 64],
            )
            for at in range(0, 64 * 100, 64)
        ]
        context = multiprocessing.get_context("spawn")
        self.steps = [steps] * workers
        self.pool = ProcessPoolExecutor(workers, context, initializer=_hold, initargs=(batches,))
        list(self.pool.map(_bare_loop, [20] * workers))

    def rate(self) -> float:
        started = time.perf_counter()
        done = sum(self.pool.map(_bare_loop, self.steps))
        return 64 * done / (time.perf_counter() - started)

    def close(self) -> None:
        self.pool.shutdown()


def usual_rate(federation: LocalFederation, steps: int = 120) -> float:
    """MOON's loop: one DataLoader per site, each image through PIL, the sites one after the other in one process."""
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision import transforms

    preparation = federation.plan.preparation
    mean, std = (np.array(values) / 255 for values in (preparation.mean, preparation.std))
    prepare = transforms.Compose(
        [
            transforms.ToTensor(),
            transforms.Lambda(lambda x: F.pad(x[None], (4, 4, 4, 4), mode="reflect")[0]),
            transforms.ToPILImage(),
            transforms.RandomCrop(32),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(mean.tolist(), std.tolist()),
        ]
    )

    class OneSite(Dataset):
        def __init__(self, films: Films, indices: np.ndarray) -> None:
            self.images, self.labels = films.images.permute(0, 2, 3, 1).numpy(), films.labels
            self.indices = indices

        def __len__(self) -> int:
            return len(self.indices)

        def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
            at = self.indices[i]
            return prepare(Image.fromarray(self.images[at])), self.labels[at]

    model, optimiser = plain_training()
    done, started = 0, time.perf_counter()
    for site in federation.sites.values():
        assert site.indices is not None
        for images, labels in DataLoader(OneSite(site.films, site.indices), 64, shuffle=True, drop_last=True):
            step_on(model, optimiser, images, labels)
            done += 1
            if done % (steps // len(federation.sites)) == 0:
                break
    return 64 * done / (time.perf_counter() - started)


def memory_of(sites: int, workers: int) -> dict[str, Any]:
    """Peak memory and time of a round in a process of its own."""
    command = [sys.executable, "-m", "fedpdc_med.performance.training", str(sites), str(workers)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _probe(sites: int, workers: int, rounds: int = 3) -> dict[str, Any]:
    """The same 20,000 images in this many sites of equal size, 10 of them sampled per round."""
    experiment = make_experiment("cifar10-cnn-b0.1", "quick", "fedpdc", partition="iid", sites=sites, tau=10 / sites)
    federation = build(experiment, make_method("fedpdc"), noise(20_000))
    engine = ProcessEngine(federation, workers)
    with tempfile.TemporaryDirectory() as folder:
        run = scratch_run(Path(folder) / "run")
        coordinator = Coordinator(federation.plan, federation.coordinator, engine, run)
        engine.predict(coordinator.run.checkpoint_file, "weighting")()
        records = [coordinator.run_round() for _ in range(rounds)]
    asked = [engine.workers.submit((_peak_memory,)) for _ in range(workers)]
    peak = _peak_memory() + sum(answer() for answer in asked)  # type: ignore[misc]
    engine.close()
    seconds = float(np.median([record.seconds for record in records]))
    return {
        "sites": sites,
        "images": images_trained(records[-1], experiment),
        "seconds": seconds,
        "peak_megabytes": peak / 1024,
    }


def _peak_memory(*_: object) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(json.dumps(_probe(int(sys.argv[1]), int(sys.argv[2]))))
