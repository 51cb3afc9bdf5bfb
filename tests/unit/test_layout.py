"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.parts import PARTS

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "operator").rglob("*.py"))
MOST_LINES = 400


def test_operator_is_no_package_or_it_would_shadow_the_standard_library():
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_no_file_is_longer_than_400_lines():
    assert [p.name for p in SOURCES if len(p.read_text().splitlines()) > MOST_LINES] == []


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Length of a function less its docstring."""
    documented = ast.get_docstring(function, clean=False)
    return (
        (function.end_lineno or 0) - function.lineno + 1 - (documented.count("\n") + 1 if documented else 0)
    )


def test_no_function_is_longer_than_40_lines_of_code():
    long = [
        f"{path.name}:{node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and code_lines(node) > 40
    ]
    assert long == []


def test_the_makefile_has_ten_targets_or_fewer_and_each_says_what_it_is_for():
    rules = re.findall(r"^([a-z%-]+):(?!=).*?(## .+)?$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [name for name, words in rules if not words] == []
    assert len(rules) <= 10


def test_every_folder_of_tests_is_in_a_part_of_make_test():
    named = {word for commands in PARTS.values() for command in commands for word in command}
    folders = {
        f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in ROOT.glob("tests/**/test_*.py")
    }
    assert folders <= named
