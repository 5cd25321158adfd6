"""Files are written whole or not at all; folders may come from anyone, so no link in them is followed when writing."""

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

LOCK = "job.lock"  # held by the process that writes a run


def refuse_links(folder: Path) -> None:
    """Stop at the first entry that is neither a file nor a folder; the folder itself may be a link."""
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
            raise refused(Path(entry.path))


def refused(path: Path) -> UserError:
    what = "a link" if path.is_symlink() else "not an ordinary file"
    return UserError(
        f"{path.name} in the folder {path.absolute().parent.name} is {what}, which fedpdc never creates. "
        f"Find out where the folder comes from, then remove {path.name}"
    )


def opened(path: Path, how: int, mode: str) -> IO[Any]:
    """Open an ordinary file by the flags of `os.open`, without waiting for the other end of a pipe."""
    try:
        file = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a pipe without a reader
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
    """Parse TOML or JSON text; anything wrong with it raises a ValueError."""
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def new_file(path: Path) -> IO[bytes]:
    """Open a new file for writing in place of anything with this name; a link is removed, never followed."""
    path.unlink(missing_ok=True)
    return opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb")


def atomic_write(
    path: Path, write: Callable[[IO[bytes]], object], fsync: bool = False, draft: Path | None = None
) -> None:
    """The file as a whole, or the one that was there before; `write` gets a draft next to it, `.NAME.PID.partial`.

    With `fsync` it is on the disk, and not only on its way there, before it takes the place of the other.
    """
    draft = draft or path.with_name(f".{path.name}.{os.getpid()}.partial")
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
    """A file of a run, which one process at a time writes: the draft that a kill leaves is replaced by the next."""
    atomic_write(path, lambda file: file.write(content), draft=path.with_name(path.name + ".partial"))


def replace_text(path: Path, text: str) -> None:
    replace_bytes(path, text.encode())


@contextlib.contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock file: wait for it, or stop with the message `busy` if it is held. A process that dies releases it."""
    with opened(path, os.O_RDWR | os.O_CREAT, "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise UserError(busy) from None
        except OSError:
            pass  # a network share without locks
        yield


def only_writer(folder: Path) -> AbstractContextManager[None]:
    """Lock a run's folder: two commands writing the same run would corrupt it."""
    return locked(
        folder / LOCK,
        f"another command is writing the run {folder.name!r}; wait for it to finish, or stop it with Ctrl-C, "
        "then run this command again",
    )


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """Read a file that fedpdc wrote."""
    try:
        return parsed(json.loads, path.read_text(encoding="utf-8"))
    except ValueError:
        where = f"{path.name} of {path.parent.name}"
        raise UserError(f"{where} is corrupt or incomplete; copy it again or recreate it") from None
