"""An object whose tensors are in one block of memory, which worker processes use without a copy.

torch would pass two file descriptors per tensor. A fork server accepts 256 and a process may have 1,024, too few for a
thousand sites. Here all of them need one.
"""

import io
import mmap
import os
import pickle
import tempfile
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any, BinaryIO

import torch
from torch import Tensor

ALIGNMENT = 64


@dataclass(frozen=True)
class _Place:
    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def tensor(self, block: mmap.mmap) -> Tensor:
        flat = torch.frombuffer(block, dtype=self.dtype, count=torch.Size(self.shape).numel(), offset=self.start)
        return flat.as_strided(self.shape, self.strides)


class Shared:
    """Moves the tensors of `what` into the block; sent to a worker, it arrives there as `what`."""

    def __init__(self, what: object) -> None:
        pickled = io.BytesIO()
        pickler = _Pickler(pickled)
        pickler.dump(what)
        self.end = pickler.size
        self.file = _nameless_file()
        self.file.truncate(self.end + pickled.tell())
        block = mmap.mmap(self.file.fileno(), 0)
        for tensor, place in pickler.found.values():
            tensor.set_(place.tensor(block).copy_(tensor))  # type: ignore[call-overload]
        block[self.end :] = pickled.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (reduction.DupFd(self.file.fileno()), self.end)


def _opened(descriptor: Any, end: int) -> object:
    with os.fdopen(descriptor.detach(), "r+b") as file:
        block = mmap.mmap(file.fileno(), 0)
    return _Unpickler(io.BytesIO(block[end:]), block).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.found: dict[int, tuple[Tensor, _Place]] = {}
        self.size = 0

    def persistent_id(self, found: object) -> _Place | None:
        if not isinstance(found, Tensor) or not found.numel():
            return None
        if id(found) not in self.found:
            strides = torch.empty_like(found).stride()
            self.found[id(found)] = found, _Place(self.size, found.dtype, tuple(found.shape), strides)
            self.size += -(-found.nbytes // ALIGNMENT) * ALIGNMENT
        return self.found[id(found)][1]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, block: mmap.mmap) -> None:
        super().__init__(file)
        self.block = block

    def persistent_load(self, place: _Place) -> Tensor:
        return place.tensor(self.block)


def _nameless_file() -> BinaryIO:
    """It is freed with the last process that uses it, however that process ends."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("films"), "w+b")
    return tempfile.TemporaryFile()
