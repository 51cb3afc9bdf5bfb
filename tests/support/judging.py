"""One line from a fixture to its codes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.support.headers import Fixture, kimi_k25

from specdec.preflight.arguments import Arguments, parsed
from specdec.preflight.preflight import Outcome, RepairMode, Request, preflight
from specdec.preflight.source import LocalFolder

STOCK: frozenset[str] = frozenset()
"""SGLang without this project's plugin."""
SPECULATIVE = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "x")


def judged(drafter: Fixture, version: str = "0.5.23", target: Fixture | None = None, **asked: Any) -> Outcome:
    """Judge a drafter for Kimi-K2.5, by default on stock SGLang and without repair."""
    with tempfile.TemporaryDirectory() as place:
        ours = drafter.write(Path(place) / "drafter")
        theirs = (target or kimi_k25()).write(Path(place) / "Kimi-K2.5")
        asked = {"patches": STOCK, "repair": RepairMode.NEVER} | asked
        return preflight(Request(LocalFolder(ours), LocalFolder(theirs), version, **asked))


def arguments(*words: str, **environment: str) -> Arguments:
    """A person's own command line that drafts by EAGLE-3, with these words behind it."""
    return Arguments(parsed([*SPECULATIVE, *words]), environment)


def codes(outcome: Outcome) -> dict[str, str]:
    """Findings as code -> severity."""
    return {finding.code: finding.severity.value for finding in outcome.report.findings}


def repairs(outcome: Outcome) -> list[str]:
    """Codes of what was mended."""
    return [repair.code for repair in outcome.report.repairs]
