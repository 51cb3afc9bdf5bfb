"""The tiny models that the real engine serves, judged: what headers show is found, what they can't is left to the engine."""

from __future__ import annotations

import pytest
from tests.support.models import make
from tests.support.models.broken import (
    BUILDERS,
    BY_ENGINE,
    BY_HEADERS,
    absolute_token_map,
    one_token_map,
)

from specdec.preflight.preflight import RepairMode, Request, preflight
from specdec.preflight.source import LocalFolder

OF_CATALOG = {
    "good": None,
    "q70": None,
    "q40": None,
    "embedding": None,
    "dead": None,
    "renamed": "ParametersNotFed",
}
VERDICTS = (
    OF_CATALOG
    | {"absolute_token_map": "TokenMapAbsolute", "one_token_map": None}
    | {name: reason for name, (reason, _) in BY_HEADERS.items()}
    | dict.fromkeys(BY_ENGINE)
)
"""First blocking code without repair; None passes, among them what only values show (dead, not_a_number)."""
BROKEN = BUILDERS | {"absolute_token_map": absolute_token_map, "one_token_map": one_token_map}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    made = make(root, ("kimi", *OF_CATALOG))
    for name, build in BROKEN.items():
        build(root / name)
        made[name] = root / name
    return made


@pytest.mark.parametrize("name", VERDICTS)
def test_a_tiny_drafter_gets_its_verdict(models, name):
    request = Request(
        LocalFolder(models[name]), LocalFolder(models["kimi"]), "0.5.23", repair=RepairMode.NEVER
    )
    blocking = preflight(request).report.blocking
    assert (blocking[0].code if blocking else None) == VERDICTS[name]


def test_the_tiny_drafter_with_absolute_ids_is_mended(models):
    request = Request(LocalFolder(models["absolute_token_map"]), LocalFolder(models["kimi"]), "0.5.23")
    outcome = preflight(request)
    assert not outcome.report.blocking
    assert outcome.mended.overlay.transforms == {"d2t": "absolute-to-offsets"}
