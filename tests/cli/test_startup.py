"""--help waits for nothing that takes time, and shows an example of every command."""

import subprocess
import sys

import pytest
import typer

from fedpdc_med.cli import app

HEAVY = ("torch", "pandas", "numpy", "pydicom", "streamlit", "scipy", "sklearn", "monai", "nvflare")


def commands(group, *before):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield (*before, name)


EVERY = list(commands(typer.main.get_command(app)))

ASK = """
import sys
from fedpdc_med.cli import app
for words in {asked!r}:
    try:
        app([*words, "--help"], standalone_mode=False)
    except SystemExit:
        pass
    print("loaded:", *(name for name in {heavy!r} if name in sys.modules))
"""


def test_neither_importing_the_commands_nor_their_help_loads_anything_heavy():
    code = ASK.format(asked=[(), *EVERY], heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    loaded = [line for line in done.stdout.splitlines() if line.startswith("loaded:")]
    assert len(loaded) == 1 + len(EVERY), done.stderr
    assert set(loaded) == {"loaded:"}


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_shows_an_example_of_itself(words):
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    assert "Example" in command.help and f"fedpdc {' '.join(words)}" in command.help
