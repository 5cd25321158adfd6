"""How fast ingest reads films, compared with a bare pydicom loop that only decodes and resizes them."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedpdc_med.common.errors import UserError
from fedpdc_med.common.processes import Workers, keep_memory
from fedpdc_med.imaging.ingest.labels import one_label
from fedpdc_med.imaging.ingest.pipeline import ingest


@dataclass(frozen=True)
class Speed:
    """Films per second in each repetition, bare loop and ingest in turn, with the same number of processes."""

    films: int
    processes: int
    bare: list[float]
    ours: list[float]

    @property
    def ratios(self) -> list[float]:
        """Ingest relative to the bare loop of the same repetition, sorted: a machine that slows down slows both."""
        return sorted(ours / bare for ours, bare in zip(self.ours, self.bare, strict=True))


def measure(folder: Path, stores: Path, *, processes: int, rounds: int, size: int = 128) -> Speed:
    """Read all DICOM files of `folder` both ways in turn; starting processes and importing is not timed."""
    files = sorted(path for path in folder.rglob("*.dcm"))
    if not files:
        raise UserError("there is no file *.dcm below the folder")
    bare, ours = [], []
    batches = [range(start, min(start + 8, len(files))) for start in range(0, len(files), 8)]
    with Workers[Path, NDArray[np.uint8]](processes, ahead=1) as bare_loops:
        bare_loops.open(_bare_loop, size)
        deque(bare_loops.stream(files, batches[:processes]), maxlen=0)
        for turn in range(rounds):
            began = time.perf_counter()
            films = list(bare_loops.stream(files, batches))
            bare.append(len(films) / (time.perf_counter() - began))
            result = ingest(
                folder, "speed", labels=one_label("normal"), store=stores / str(turn), processes=processes, size=size
            )
            ours.append(len(result.report) / result.seconds)
    return Speed(len(files), processes, bare, ours)


def bare_film(path: Path, size: int) -> NDArray[np.uint8]:
    """The obvious code: no modality or VOI LUT, no inversion, no checks, no hashes, aspect ratio not kept."""
    import pydicom
    import torch

    stored = pydicom.dcmread(path).pixel_array
    film = torch.nn.functional.interpolate(
        torch.from_numpy(stored.astype(np.float32))[None, None], (size, size), mode="area"
    )
    return (film[0] / film.max() * 255).byte().numpy()


def _bare_loop(size: int) -> Callable[[Path], NDArray[np.uint8]]:
    """Set up like our workers; otherwise the comparison would measure the C library's memory management."""
    import torch

    torch.set_num_threads(1)
    keep_memory()
    return partial(bare_film, size=size)
