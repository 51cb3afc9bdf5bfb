"""Sentences that tell people what to change name only what people have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

import specdec.api
from specdec.api.v1alpha1 import Resources, SpecDecodeServerSpec
from specdec.engine.agent.signatures import SIGNATURES

SOURCES = Path(specdec.api.__file__).parents[1]
NAMED = re.compile(r"(?<![\w./])(engine|rollout|acceptance|preflight)((?:\.[a-z][A-Za-z]+)+)")
FILES = {"json", "md"}
"""What follows in the name of a file: engine.json is the image's profile."""


def sentences() -> Iterator[tuple[str, str]]:
    """Yield every text of the package, with the file that it stands in."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield str(path.relative_to(SOURCES)), node.value


def modules(room: str) -> set[str]:
    return {path.stem for path in (SOURCES / room).iterdir()}


def fields(model: Any) -> dict[str, Any]:
    return {to_camel(name): field.annotation for name, field in model.model_fields.items()}


def known(path: list[str]) -> bool:
    """Whether the spec has such a field; below a map any key may be named."""
    model: Any = SpecDecodeServerSpec
    for name in path:
        if not hasattr(model, "model_fields"):
            return path[:2] == ["engine", "resources"] and path[2] in fields(Resources)
        if name not in fields(model):
            return False
        model = fields(model)[name]
    return True


def test_every_field_that_a_text_names_is_one_of_the_spec():
    named = {
        (file, match[0])
        for file, text in sentences()
        for match in NAMED.finditer(text)
        if match[2].split(".")[1] not in FILES | modules(match[1])
    }
    assert len(named) > 15
    assert {(file, name) for file, name in named if not known(name.split("."))} == set()


@pytest.mark.parametrize("known_end", SIGNATURES, ids=lambda one: one.reason)
def test_advice_names_no_argument_that_has_no_field(known_end):
    assert not re.search(r"--[a-z]", known_end.advice)
