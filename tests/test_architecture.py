"""The paper beside the code: what docs/paper.md says is where it says, and nowhere else."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fedpdc_med"
ROW = re.compile(r"^\| (?P<paper>[^|]+) \| `(?P<name>[\w.]+)` in `(?P<file>[\w/]+\.py)` \|$", re.MULTILINE)
PART = re.compile(r"\b(equation|algorithm|definition)s? (\d+)(?: to (\d+))?", re.IGNORECASE)


def parts_of_the_paper(text):
    """`Equations 6 to 8` are equation 6, equation 7 and equation 8."""
    for kind, first, last in PART.findall(text):
        yield from (f"{kind.lower()} {number}" for number in range(int(first), int(last or first) + 1))


def docstrings(file):
    """(Class.function, its docstring) of everything in a file; the module's own has an empty name."""

    def below(node, name):
        yield name, ast.get_docstring(node) or ""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                yield from below(child, f"{name}.{child.name}".lstrip("."))

    yield from below(ast.parse(file.read_text(encoding="utf-8")), "")


def test_each_part_of_the_paper_is_in_the_place_that_the_docs_name_and_in_no_other():
    table = {
        (part, row["file"], row["name"])
        for row in ROW.finditer((ROOT / "docs" / "paper.md").read_text(encoding="utf-8"))
        for part in parts_of_the_paper(row["paper"])
    }
    code = {
        (part, file.relative_to(PACKAGE).as_posix(), name)
        for file in sorted(PACKAGE.rglob("*.py"))
        for name, docstring in docstrings(file)
        for part in parts_of_the_paper(docstring)
    }
    assert code == table
    equations = {f"equation {number}" for number in (3, 4, 6, 7, 8, 9)}
    assert {part for part, *_ in table} == equations | {"algorithm 2", "definition 1"}
