"""What the documentation promises: links lead somewhere, commands exist, tables match the code."""

import itertools
import re
import runpy
import shlex
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer

from fedpdc_med.cli import app
from fedpdc_med.methods import METHODS

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, *sorted(ROOT.glob("*.md")), ROOT / "public_reference" / "README.md"]
KITS = sorted((ROOT / "fedpdc_med" / "engines" / "flare" / "pages").glob("*.j2"))
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\S*/)?(?:fedpdc|as-fedpdc) ")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def each(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=name_of)


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose_of(page: Path) -> str:
    return FENCE.sub("", text_of(page))


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors that a Markdown viewer gives to headings."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each(PAGES)
def test_links_lead_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if target.startswith("https://"):
            continue
        file, _, anchor = unquote(target).partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), target
        assert not anchor or anchor in anchors_of(found), target


def test_every_page_is_in_the_index_once() -> None:
    listed = re.findall(r"^- \[[^]]+\]\((\w[\w-]*\.md)\): .+$", text_of(ROOT / "docs" / "index.md"), re.MULTILINE)
    assert sorted(listed) == [page.name for page in DOCS if page.name != "index.md"]


@each([page for page in PAGES if "![" in text_of(page)])
def test_every_picture_says_in_words_what_it_shows(page: Path) -> None:
    assert all(len(words) >= 20 for words in re.findall(r"!\[([^]]*)\]", text_of(page)))


def test_the_readme_is_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) < 120


@each([*PAGES, *KITS])
def test_every_command_and_option_exists(page: Path) -> None:
    for line in commands_in(text_of(page)):
        words = shlex.split(COMMAND.sub("", line), comments=True)
        command = typer.main.get_command(app)
        context = command.make_context("fedpdc", words, resilient_parsing=True)
        while hasattr(command, "resolve_command") and (rest := [*context._protected_args, *context.args]):
            name, command, rest = command.resolve_command(context, rest)
            assert command, f"{line}: there is no such command"
            context = command.make_context(name, rest, parent=context, resilient_parsing=True)
        assert not context.args, f"{line}: too many arguments"


def commands_in(text: str) -> list[str]:
    """Every `fedpdc ...` that is a line of its own in a code block, or the whole of a piece of code in a sentence."""
    text = re.sub(r"{{.*?}}", "NAME", text)  # of a page that is filled in
    blocks = [textwrap.dedent(block) for _, language, block in FENCE.findall(text) if not language]
    blocks += re.findall(r"(?:^ {4,}.*\n)+", text, re.MULTILINE)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    return [re.sub(r" ?\.\.\. ?", " ", line) for line in lines if COMMAND.match(line) and " | " not in line]


@each([page for page in PAGES if "```python" in text_of(page)])
def test_python_in_a_page_runs(page: Path) -> None:
    for _, language, block in FENCE.findall(text_of(page)):
        if language == "python":
            exec(textwrap.dedent(block), {})


def test_the_command_reference_is_what_make_docs_writes() -> None:
    generated = runpy.run_path(str(ROOT / ".ci" / "cli_reference.py"))["reference"]()
    assert text_of(ROOT / "docs" / "cli.md") == generated, "run: make docs"


def test_the_picture_of_imports_is_the_linters_contract() -> None:
    linter = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]["importlinter"]
    layers = next(one["layers"] for one in linter["contracts"] if one["type"] == "layers")
    page = text_of(ROOT / "docs" / "architecture.md")
    picture = page.partition("```mermaid\n")[2].partition("```")[0]
    drawn = [[set(side.split(" & ")) for side in line.split(" --> ")] for line in picture.splitlines()[1:]]
    pairs = [pair for line in drawn for pair in itertools.pairwise(line)]
    wanted = [{room.strip() for room in layer.split("|")} for layer in layers]
    assert [({room.strip() for room in up}, {room.strip() for room in down}) for up, down in pairs] == list(
        itertools.pairwise(wanted)
    )
    rooms = {folder.name for folder in (ROOT / "fedpdc_med").iterdir() if (folder / "__init__.py").exists()}
    assert rooms == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set().union(*wanted)


def test_the_table_of_methods_and_settings_is_complete() -> None:
    page = text_of(ROOT / "docs" / "methods.md")
    for name, method in METHODS.items():
        assert re.search(rf"^\| [^|]*`{name}`", page, re.MULTILINE), name
        for setting, field in method.model_fields.items():
            inherited = [vars(parent)["name"] for parent in method.__mro__ if "name" in vars(parent)]
            rows = [
                row
                for parent in inherited
                for row in re.findall(rf"^\| `{parent}` \| `{setting}` \|.*$", page, re.MULTILINE)
            ]
            assert rows and any(f"`{field.default}`" in row for row in rows), f"{name}: {setting} = {field.default}"


# What a native reader stumbles over: each has a usual name, most of them in docs/glossary.md.
PHRASES = (
    r"chose nothing|nothing was trained or chosen on",
    r"by whom, on how much",
    r"can(not)? be told (from|apart)|nothing to tell apart",
    r"holds no \w+ but",
    r"(that|which) comes? along|comes? along with",
    r"hospital modules?|one python module",
    r"phantom (films?|hospitals?)|computer-drawn|drawn by a program",
    r"took no part|sites? outside|films that correct|films people are shown",
    r"(holdout|weighting|correction) films",
    r"weighs? by|weighed by",
    r"to the letter|the literal fedpdc",
    r"dealt? out|fedpdc deal\b",
    r"the same bits|bit by bit",
    r"beside|\banew\b|\bmend(ed|s)?\b|goes on from|lies? in\b|stands? in (the|its|a)\b",
    r"flatters?\b",
    r"called normal|films? found|what the model called",
    r"promised probability|share that came true|promises too much",
    r"9[05] % interval|1 films\b|mean of (the )?classes",
    r"each site alone|shares nothing",
    r"give the same command again|say --\w+|told in words",
    r"\bdisc\b|data set|start-up kit",
    r"safe way|says how on top|is your name towards",
    r"not shown: fewer",
    r"less than the paper|a (round|second|hospital|class|site)'s time",
    r"(seconds|images|films) a (second|round|site|class)\b",
    r"the reference's",
)


@each([page for page in [*PAGES, *KITS] if page.name != "cli.md"])
def test_the_words_are_the_usual_ones(page: Path) -> None:
    text = " ".join(text_of(page).split()).lower()
    found = [hit[0] for phrase in PHRASES for hit in re.finditer(phrase, text)]
    assert not found
