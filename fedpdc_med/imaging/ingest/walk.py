"""All files below a folder: links are followed, and folders that cannot be opened are listed, to be reported."""

import os
from pathlib import Path

from fedpdc_med.common.paths import home

CLUTTER = (".ds_store", "thumbs.db", "desktop.ini")  # what file managers leave behind


def files_below(source: Path) -> list[tuple[str, Path]]:
    """Every file by its path below `source`, sorted; film stores and keys in it do not belong to the source."""
    if source.is_file():
        return [(source.name, source)]
    unreadable: list[Path] = []  # folders; reported as files that cannot be read
    found: list[Path] = []
    seen = {os.path.realpath(home())} - {os.path.realpath(source)}  # each folder is read once, so circular links end
    for folder, below, names in os.walk(
        source, followlinks=True, onerror=lambda error: unreadable.append(Path(error.filename))
    ):
        below.sort()
        if (real := os.path.realpath(folder)) in seen:
            below.clear()
            continue
        seen.add(real)
        found += [Path(folder, name) for name in names if not is_clutter(name)]
    found = [path for path in found if path.is_file() or path.is_symlink()]
    return sorted((path.relative_to(source).as_posix(), path) for path in found + unreadable)


def is_clutter(name: str) -> bool:
    return name.lower() in CLUTTER or name.startswith("._")
