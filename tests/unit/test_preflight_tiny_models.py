"""The tiny models that the real engine serves, judged: what headers show is found, what they can't is left to the engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.models import make
from tests.support.models.broken import (
    BUILDERS,
    BY_ENGINE,
    BY_HEADERS,
    absolute_token_map,
    one_token_map,
)
from tests.support.models.mendable import (
    NORMED,
    SWAPPED,
    headless,
    headless_with_a_copy,
    normed,
    null_width,
    sound,
)

from specdec.preflight.arguments import rendered
from specdec.preflight.checkpoint import read_config
from specdec.preflight.facts import Declared
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


@pytest.mark.parametrize("name", SWAPPED)
def test_a_tiny_drafter_that_can_be_mended_is_and_its_config_is_then_the_sound_ones(models, tmp_path, name):
    mendable = SWAPPED[name]
    sound(tmp_path / "sound")
    mendable.build(tmp_path / name)
    asked = Request(
        LocalFolder(tmp_path / name), LocalFolder(models["kimi"]), "0.5.23",
        declared=mendable.layers.declared if mendable.layers else Declared(),
    )  # fmt: skip
    assert preflight(replace(asked, repair=RepairMode.NEVER)).report.blocking
    outcome = preflight(asked)
    assert outcome.report.findings == ()
    assert {repair.code for repair in outcome.report.repairs} == mendable.repairs
    assert outcome.mended.case.drafter.config == read_config(tmp_path / "sound")


@pytest.mark.parametrize(
    ("build", "codes"),
    [(normed, NORMED), (headless, {"DraftVocabularyUndeclared"}), (headless_with_a_copy, {"TensorsDropped"}),
     (null_width, {"TargetHiddenSizeNull"})],
)  # fmt: skip
def test_those_that_need_an_engine_of_their_own_are_mended_too(models, tmp_path, build, codes):
    build(tmp_path)
    served = rendered(("--context-length", "512"))
    outcome = preflight(Request(LocalFolder(tmp_path), LocalFolder(models["kimi"]), "0.5.23", served))
    assert outcome.report.blocking == ()
    assert {repair.code for repair in outcome.report.repairs} == codes
