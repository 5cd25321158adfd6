"""Files of a folder that may come from anybody: nothing is read or written through a link in it."""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
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


def replace_bytes(path: Path, content: bytes) -> None:
    """The file as a whole, or the one that was there before."""
    partial = path.with_name(path.name + ".partial")
    with new_file(partial) as file:
        file.write(content)
    partial.replace(path)


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a run's folder: two commands that write one run would spoil it. A process that dies lets go."""
    with opened(folder / LOCK, os.O_RDWR | os.O_CREAT, "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another command is writing the run {folder.name!r}; wait until it has ended, or stop it with Ctrl-C, "
                "then give this command again"
            ) from None
        except OSError:
            pass  # a share that knows no locks
        yield
