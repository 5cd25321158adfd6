"""What an ingest has finished so far, so that it can be killed at any moment and continued.

Pixels are appended before the line that names them, and a torn last line is dropped, so every line that can be read
back is complete. The journal holds pseudonyms only, and goes away when the store is written.
"""

import fcntl
import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedpdc_med.common.errors import UserError
from fedpdc_med.imaging.records import Outcome, Reason, Verdict


class Journal:
    """Outcomes by position in the source; those of an interrupted ingest of the same source are already there."""

    def __init__(self, folder: Path, fingerprint: str, size: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._size = folder, size
        self._lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError("another ingest of this site is running; wait for it or choose another --site") from None
        except OSError:
            pass  # a share that knows no locks
        self.outcomes: dict[int, Outcome] = {}
        self._slots: dict[int, int] = {}
        self._films = (folder / "films.bin").open("ab+")
        self._lines = (folder / "outcomes.jsonl").open("ab+")
        self._recover(fingerprint)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

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
        """Pixels of accepted films, without holding all of them in memory."""
        if not self._slots:
            return
        stored = np.memmap(self._folder / "films.bin", np.uint8, "r").reshape(-1, self._size, self._size)
        for position in positions:
            yield stored[self._slots[position]]

    def discard(self) -> None:
        self._close()  # NFS keeps files that are open, and their folder could not go
        shutil.rmtree(self._folder, ignore_errors=True)

    def _close(self) -> None:
        for file in (self._films, self._lines, self._lock):
            file.close()

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
