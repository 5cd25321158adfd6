"""Names and notes come from runs, and runs from anybody: a terminal shows them and obeys nothing in them."""

import io
import sys

import pytest
from rich.table import Table
from rich.text import Text

from fedpdc_med.cli import main
from fedpdc_med.common import console as terminal

HOSTILE = "\x1b]0;a title\x07 \x9b31m [/red] [link=http://evil.test]x[/link] :smile: \u202egnp"
SHOWN = "\ufffd]0;a title \ufffd31m [/red] [link=http://evil.test]x[/link] :smile: \ufffdgnp"


@pytest.fixture
def console():
    made = terminal.make()
    made.file, made.width = io.StringIO(), 120
    return made


def test_text_is_shown_and_never_obeyed(console):
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    console.print(table)
    console.print(f"External site {HOSTILE}", style="yellow")
    assert console.file.getvalue().count(SHOWN) == 4
    assert not set(console.file.getvalue()) & set("\x1b\x07\x9b\u202e")


def test_our_own_colours_stay(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    console = terminal.make()
    console.file = io.StringIO()
    console.print(Text("ok", "green"), HOSTILE, highlight=False)
    assert console.file.getvalue() == f"\x1b[32mok\x1b[0m {SHOWN}\n"


def test_an_error_that_repeats_a_name_shows_it(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fedpdc", "resume", f"run{HOSTILE}".replace("/", "")])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert "run\ufffd]0;a title" in said and "\x1b" not in said
