"""Files that are whole or not there, and folders that may come from anybody: no link in them is followed to write."""

import contextlib
import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from hashlib import file_digest
from pathlib import Path
from typing import IO, Any

from fedpdc_med.common.errors import UserError

LOCK = "job.lock"  # held by whoever writes a run


def refuse_links(folder: Path) -> None:
    """Stop at the first entry that is neither a file nor a folder; the folder itself may be a link."""
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
            raise refused(Path(entry.path))


def refused(path: Path) -> UserError:
    what = "a link" if path.is_symlink() else "not an ordinary file"
    return UserError(
        f"{path.name} in the folder {path.absolute().parent.name} is {what}; fedpdc makes none of these. "
        f"Find out where the folder comes from, then remove {path.name}"
    )


def opened(path: Path, how: int, mode: str) -> IO[Any]:
    """Open an ordinary file by the flags of `os.open`, without waiting for the other end of a pipe."""
    try:
        file = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a pipe that nobody reads
            raise refused(path) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise refused(path)
    return os.fdopen(file, mode, encoding=None if "b" in mode else "utf-8")


def read_text(path: Path) -> str:
    with opened(path, os.O_RDONLY, "r") as file:
        return file.read()


def parsed(parse: Callable[[str], Any], text: str) -> Any:
    """What a TOML or JSON text says; all that can be wrong with it is a ValueError."""
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def new_file(path: Path) -> IO[bytes]:
    """A file to write in place of whatever has this name; a link is removed, and never followed."""
    path.unlink(missing_ok=True)
    return opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb")


def atomic_write(path: Path, write: Callable[[IO[bytes]], object], fsync: bool = False) -> None:
    """The file as a whole, or the one that was there before; `write` gets a draft next to it, `.NAME.PID.partial`.

    With `fsync` it is on the disk, and not only on its way there, before it takes the place of the other.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with new_file(draft) as file:
            write(file)
            if fsync:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)  # of a disk that is full


def replace_bytes(path: Path, content: bytes) -> None:
    """The file as a whole, or the one that was there before."""
    partial = path.with_name(path.name + ".partial")
    with new_file(partial) as file:
        file.write(content)
    partial.replace(path)


def replace_text(path: Path, text: str) -> None:
    replace_bytes(path, text.encode())


@contextlib.contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock file: wait until nobody else does, or stop with the words `busy`. A process that dies lets go."""
    with opened(path, os.O_RDWR | os.O_CREAT, "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise UserError(busy) from None
        except OSError:
            pass  # a share that knows no locks
        yield


def only_writer(folder: Path) -> AbstractContextManager[None]:
    """Hold a run's folder: two commands that write one run would spoil it."""
    return locked(
        folder / LOCK,
        f"another command is writing the run {folder.name!r}; wait until it has ended, or stop it with Ctrl-C, "
        "then give this command again",
    )


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """A file that fedpdc wrote."""
    try:
        return parsed(json.loads, path.read_text())
    except ValueError:
        where = f"{path.name} of {path.parent.name}"
        raise UserError(f"{where} is damaged or not copied whole; copy or make it again") from None
