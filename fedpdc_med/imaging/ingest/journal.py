"""The progress of an ingest, so that it can be killed at any moment and continued.

Pixels are appended before the line that names them, and an incomplete last line is dropped, so every line that can be
read back is complete. The journal contains pseudonyms only, and is deleted when the store has been written.
"""

import json
import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedpdc_med.common.files import locked
from fedpdc_med.imaging.records import Outcome, Reason, Verdict

BUSY = "another ingest of this site is running; wait for it or choose another --site"


class Journal:
    """Outcomes by position in the source; those of an interrupted ingest of the same source are loaded."""

    def __init__(self, folder: Path, fingerprint: str, size: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._size = folder, size
        self._open = ExitStack()
        self._open.enter_context(locked(folder / "lock", BUSY))
        self.outcomes: dict[int, Outcome] = {}
        self._slots: dict[int, int] = {}
        self._films = self._open.enter_context((folder / "films.bin").open("ab+"))
        self._lines = self._open.enter_context((folder / "outcomes.jsonl").open("ab+"))
        self._recover(fingerprint)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def add(self, outcomes: Iterable[tuple[int, Outcome]]) -> None:
        lines = []
        for position, outcome in outcomes:
            slot = None
            if outcome.pixels is not None:
                slot = self._slots[position] = len(self._slots)
                self._films.write(outcome.pixels.tobytes())
            self.outcomes[position] = replace(outcome, pixels=None)
            lines.append(
                json.dumps([position, outcome.verdict, outcome.reason, outcome.detail, outcome.row, slot]) + "\n"
            )
        self._films.flush()
        self._lines.write("".join(lines).encode())
        self._lines.flush()

    def films(self, positions: Iterable[int]) -> Iterable[NDArray[np.uint8]]:
        """Pixels of accepted films, without keeping all of them in memory."""
        if not self._slots:
            return
        stored = np.memmap(self._folder / "films.bin", np.uint8, "r").reshape(-1, self._size, self._size)
        for position in positions:
            yield stored[self._slots[position]]

    def discard(self) -> None:
        self._open.close()  # NFS keeps open files, so their folder could not be deleted
        shutil.rmtree(self._folder, ignore_errors=True)

    def _recover(self, fingerprint: str) -> None:
        self._lines.seek(0)
        whole, _, _ = self._lines.read().rpartition(b"\n")
        first, *lines = whole.split(b"\n")
        if first != fingerprint.encode():
            self._films.truncate(0)
            self._lines.truncate(0)
            self._lines.write(fingerprint.encode() + b"\n")
            self._lines.flush()
            return
        for line in lines:
            position, verdict, reason, detail, row, slot = json.loads(line)
            self.outcomes[position] = Outcome(Verdict(verdict), Reason(reason) if reason else None, detail, row)
            if slot is not None:
                self._slots[position] = slot
        self._lines.truncate(len(whole) + 1)
        self._films.truncate(len(self._slots) * self._size**2)
