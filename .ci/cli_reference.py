"""Writes docs/cli.md (`make docs`): Typer's own reference of the commands, slightly tidied."""

import html
import re
import subprocess
import sys
from pathlib import Path

OPENING = """\
# Commands

Generated from the program by `make docs`; do not edit. Adding `--help` to a command prints the same text. Exit codes:
0 success, 1 the work failed, 2 the input was wrong, 130 stopped with Ctrl-C.
"""


def reference() -> str:
    command = [sys.executable, "-m", "typer", "fedpdc_med.cli", "utils", "docs", "--name", "fedpdc"]
    text = html.unescape(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    text = text.partition("\n")[2]  # its title
    text = re.sub(r"^#+ `(.*)`$", r"## \1", text, flags=re.MULTILINE)
    text = re.sub(r"^\* `--(help|install-completion|show-completion)`.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\*\*Options\*\*:\n\n(?!\*)", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(\* `[a-z][a-z-]*`): .*$", r"\1", text, flags=re.MULTILINE)  # truncated summaries of commands
    text = re.sub(r"^(?:Examples?: +| {2})(\w+=\S+ )?(fedpdc .*)$", r"    \1\2", text, flags=re.MULTILINE)
    return OPENING + text.rstrip() + "\n"


if __name__ == "__main__":
    Path("docs/cli.md").write_text(reference(), encoding="utf-8")
