"""Where film stores, the reference set, runs and the bundled files are on this machine."""

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedpdc_med.common.errors import UserError

TAKEN = ("global", "reference")  # the shared model and the reference set, which share a column with the sites


def home() -> Path:
    return Path(os.environ.get("FEDPDC_HOME") or "fedpdc-data")


def shipped(name: str) -> Path:
    """`sites`, `public_reference` or `app.py`: in the source tree, or where the wheel installed it."""
    in_source_tree = Path(__file__).resolve().parents[2] / name
    if in_source_tree.exists():
        return in_source_tree
    return Path(sysconfig.get_path("data")) / "share" / "fedpdc_med" / name


def program() -> str:
    """How to type `fedpdc` in a new shell: with its path, where the program is not on PATH."""
    here = Path(sys.executable).with_name("fedpdc")
    if shutil.which("fedpdc") or not here.exists():
        return "fedpdc"
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)


@contextmanager
def owner_only() -> Iterator[None]:
    """Files and folders made within this block, also by processes started in it, are readable by this user only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def site_store(site: str) -> Path:
    """The folder of a site's films; the name is checked because it becomes a folder name."""
    return home() / "sites" / checked_name(site)


def key_file(site: str) -> Path:
    """A site's secret key is kept outside its film store, so that copying or sending the store never includes it."""
    return home() / "keys" / f"{checked_name(site)}.key"


def checked_name(site: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", site):
        raise UserError(
            "a site's name may contain only lower-case letters, digits, - and _ (at most 64 characters), for example "
            "harbor-general"
        )
    return site


def hospital_name(site: str) -> str:
    """A name that a site may have."""
    if site in TAKEN:
        raise UserError(f"a site cannot be called {site!r}, which is a reserved name; choose another name")
    return checked_name(site)
