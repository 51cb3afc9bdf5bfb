"""Reasons that engines give: each is told in one place, and that place tells no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.paths import ROOT

from specdec.cli.reference import consequence
from specdec.engine import loopback
from specdec.engine.agent.ladder import RUNGS
from specdec.engine.agent.signatures import SIGNATURES
from specdec.engine.reasons import ANSWER, REASONS, REFUSED, RETURNED, START
from specdec.preflight.stories import STORIES

SOURCES = [
    path for half in ("agent", "plugin") for path in (ROOT / "operator/specdec/engine" / half).rglob("*.py")
]
REASON = re.compile(r"(?:ProbeFailed: )?(?:[A-Z][a-z]+){2,}")
WORD = re.compile(r"[A-Z][a-z]+")
SAYS_NO = {
    "RefusedError",
    "CheckpointRefusedError",
    "refuse_start",
    "failed",
    "Failure",
    "refused",
    "_back",
    "_recover",
}
OTHER = {"MergedColumnParallelLinear", *(rung.name for rung in RUNGS)}
"""Words in such a spelling that are no reasons: a class of SGLang, and rungs of the start-up ladder."""


def strings(node: ast.AST) -> Iterator[str]:
    return (
        item.value
        for item in ast.walk(node)
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    )


def words(node: ast.AST) -> Iterator[str]:
    """Strings, and those that both halves of the engine know by a name."""
    yield from strings(node)
    names = (item.id for item in ast.walk(node) if isinstance(item, ast.Name))
    yield from (text for name in names if isinstance(text := getattr(loopback, name, None), str))


def given(path: Path) -> set[str]:
    """All that a file says in a reason's spelling, and words of one hump where it says no."""
    tree = ast.parse(path.read_text())
    found = {text for text in strings(tree) if REASON.fullmatch(text)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in SAYS_NO:
            found |= {text for argument in call.args[:2] for text in words(argument) if WORD.fullmatch(text)}
    return {text.rpartition(": ")[2] for text in found}


KNOWN_ENDS = {known.reason for known in SIGNATURES}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_reason_of_the_engine_is_told(path: Path):
    assert given(path) - REASONS.keys() - STORIES.keys() - KNOWN_ENDS - OTHER == set()


def test_nothing_is_told_that_no_engine_says():
    assert REASONS.keys() - {reason for path in SOURCES for reason in given(path)} == set()


def test_a_reason_is_told_once():
    told = [reason for table in (REFUSED, RETURNED, START, ANSWER) for reason in table]
    assert sorted(told) == sorted(set(told))
    assert KNOWN_ENDS & set(told) == set()


@pytest.mark.parametrize("reason", REFUSED)
def test_the_page_says_what_becomes_of_a_refused_drafter(reason: str):
    wanted = {
        "NotSwappable": "engines restart with it",
        "TensorsNotConsumed": "it is rejected",
        "Busy": "it is tried again",
    }
    page = (ROOT / "docs/reference/conditions.md").read_text()
    assert f"| `{reason}` | {REFUSED[reason]} | {consequence(reason)} |" in page
    assert wanted.get(reason, consequence(reason)) == consequence(reason)
