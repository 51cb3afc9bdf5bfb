"""Drafters with faults that need no change of weights: the real engine serves them as well as a sound one.

Each is tried three ways: as it is, which the engine refuses or drafts nothing with; with the agent's overlay in
between; and as the copy that `kubectl specdec convert` writes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.engine import Engine, EngineSlot, Launch, failing, models, wait_until_ended
from tests.support.models import DrafterShape, answer, drafter, mendable, simulate
from tests.support.models.mendable import SWAPPED, Mendable

from specdec.api.drafter import Layers
from specdec.cli.main import specdec
from specdec.engine.agent.judging import survey
from specdec.engine.agent.staging import Overlay, make_overlay
from specdec.engine.loopback import Commit
from specdec.engine.protocol import DrafterRef

pytestmark = pytest.mark.engine

VERSION = "0.5.23"
TOKENS = 41
ANSWERS = 6
UNMENDED: dict[str, tuple[Callable[[Path], object], str]] = {
    "normed": (mendable.normed, "derived context_length"),
    "null width": (mendable.null_width, "TypeError"),
}
"""What ends a start on a drafter as it is, and what SGLang says."""


def overlay_of(folder: Path, layers: Layers | None = None) -> Overlay:
    """Judge and link a drafter as the agent does before every start and swap; `layers` is what the spec says."""
    around = survey(models()["kimi"], VERSION, ("--context-length", "512"), {}, 3)
    reference = DrafterRef(revision=folder.name, version="v", path=str(folder), layers=layers)
    return make_overlay(folder.parent / "state", folder.parent, reference, around)


def converted(folder: Path, name: str, one: Mendable | None = None) -> Path:
    """Write a mended copy as a person does."""
    copy = folder.parent / f"{name}-converted"
    words = [
        "convert",
        "--drafter",
        folder,
        "--target",
        models()["kimi"],
        "--engine-version",
        VERSION,
        "--to",
        copy,
    ]
    if one is not None and one.layers is not None:
        words += ["--convention", one.layers.convention.value]
        words += ["--layers", ",".join(map(str, one.layers.ids))] if one.layers.ids else []
    result = CliRunner().invoke(specdec, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return copy


def serve(engine: Engine, folder: Path, name: str) -> None:
    """Swap a folder in."""
    staged = engine.stage(folder, name)
    assert staged.state == "done", staged.message
    assert engine.order(Commit(stage=staged.number)).state == "done"


def check_acceptance(
    engine: Engine,
    prompts: Iterator[list[int]],
    quality: float = mendable.QUALITY,
    before: tuple[int, ...] = (),
) -> None:
    """Each answer has exactly the correct drafts that its quality computes; below 1, all not those of a perfect one."""
    drafts = perfect = 0
    for _ in range(ANSWERS):
        prompt = [*before, *next(prompts)]
        generation = engine.generate(prompt, TOKENS)
        assert generation.tokens == answer(prompt[-1], TOKENS)
        assert generation.drafts == sum(simulate(prompt[-1], TOKENS, quality))
        drafts += generation.drafts
        perfect += sum(simulate(prompt[-1], TOKENS, 1.0))
    assert drafts == perfect if quality == 1.0 else drafts < perfect


def check_nothing_accepted(
    engine: Engine, prompts: Iterator[list[int]], before: tuple[int, ...] = ()
) -> None:
    """Answers are right, and hardly a draft is: what users get who are not told of the fault."""
    generations = [engine.generate([*before, *next(prompts)], TOKENS) for _ in range(ANSWERS)]
    drafts, calls = (sum(getattr(each, name) for each in generations) for name in ("drafts", "calls"))
    assert 1 + drafts / calls < 1.1


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for drafters that engines start with: they are read again while the engine runs."""
    return tmp_path_factory.mktemp("mendable")


@pytest.fixture(scope="module")
def unmended(slot: EngineSlot, built: Path) -> Iterator[dict[str, Engine]]:
    """Engines that start on drafters as they are, beside those that serve; their tests come after these."""
    slot.clear()
    engines = {}
    with ExitStack() as held:
        for name, (build, _) in UNMENDED.items():
            build(built / f"unmended-{name}")
            models()[f"unmended-{name}"] = built / f"unmended-{name}"
            engines[name] = held.enter_context(failing(Launch(f"unmended-{name}")))
        yield engines


@pytest.fixture
def trained_elsewhere(slot: EngineSlot, built: Path) -> Engine:
    """Engine that was started on the overlay of a drafter of speculators, trained on other layers than the default."""
    folder = built / "speculators"
    if not folder.exists():
        mendable.speculators_without_ids(folder)
    models()["speculators"] = overlay_of(folder).folder
    return slot.use(Launch("speculators"))


@pytest.mark.usefixtures("unmended")
def test_a_drafter_is_mended_while_it_loads_at_the_start(trained_elsewhere: Engine, prompts, built: Path):
    assert "overlay" in trained_elsewhere.report().patches
    assert "overlay.json: 15 renames, 1 transforms, 0 drops" in trained_elsewhere.log.read_text()
    check_acceptance(trained_elsewhere, prompts)
    fresh = built / "again"
    mendable.speculators_without_ids(fresh)
    name = "model.safetensors"
    assert (built / "speculators" / name).read_bytes() == (fresh / name).read_bytes(), (
        "the source is untouched"
    )


@pytest.mark.parametrize("name", SWAPPED)
def test_a_drafter_is_refused_as_it_is_and_reaches_its_acceptance_mended(
    trained_elsewhere: Engine, prompts, tmp_path: Path, name: str
):
    engine, one, folder = trained_elsewhere, SWAPPED[name], tmp_path / name
    one.build(folder)
    refused = engine.stage(folder, name)
    assert (refused.state, refused.reason) == ("refused", one.refused), refused.message
    overlay = overlay_of(folder, one.layers)
    assert overlay.repairs
    serve(engine, overlay.folder, f"{name}-overlaid")
    check_acceptance(engine, prompts)
    serve(engine, converted(folder, name, one), f"{name}-converted")
    check_acceptance(engine, prompts)


def test_norm_flags_a_window_and_a_context_are_given_to_the_engine(slot: EngineSlot, prompts, built: Path):
    mendable.normed(built / "normed")
    overlay = overlay_of(built / "normed")
    models()["normed"] = overlay.folder
    engine = slot.use(Launch("normed", arguments=overlay.arguments, environment=overlay.environment))
    check_acceptance(engine, prompts, before=mendable.FAR)
    serve(engine, converted(built / "normed", "normed"), "normed-converted")
    check_acceptance(engine, prompts, before=mendable.FAR)


def test_a_drafter_without_a_head_takes_the_targets(slot: EngineSlot, prompts, built: Path, tmp_path: Path):
    mendable.headless(built / "headless")
    models()["headless"] = overlay_of(built / "headless").folder
    engine = slot.use(Launch("headless"))
    check_acceptance(engine, prompts, 1.0)
    serve(engine, converted(built / "headless", "headless"), "headless-converted")
    check_acceptance(engine, prompts, 1.0)
    mendable.headless_with_a_copy(tmp_path / "copied")
    serve(engine, overlay_of(tmp_path / "copied").folder, "copied-overlaid")
    check_acceptance(engine, prompts, 1.0)
    serve(engine, converted(tmp_path / "copied", "copied"), "copied-converted")
    check_acceptance(engine, prompts, 1.0)


@pytest.mark.parametrize("name", UNMENDED)
def test_what_a_swap_would_not_notice_ends_a_start_on_it_as_it_is(unmended: dict[str, Engine], name: str):
    wait_until_ended(unmended[name])
    assert UNMENDED[name][1] in unmended[name].log.read_text()


def test_norms_without_their_flags_are_refused(engine: Engine, tmp_path: Path):
    mendable.normed(tmp_path)
    shutil.copy(models()["good"] / "config.json", tmp_path)
    outcome = engine.stage(tmp_path, "unflagged")
    assert (outcome.state, outcome.reason) == ("refused", "TensorsNotConsumed")
    assert "input_norm.weight" in outcome.message
    assert "fc_norm.0.weight" in outcome.message


@pytest.mark.parametrize(
    ("shape", "before"),
    [(mendable.SHAPE, ()), (None, mendable.FAR)],
    ids=["other layers", "no window"],
)
def test_weights_that_the_engine_is_not_told_how_to_feed_draft_nothing(
    engine: Engine, prompts, tmp_path: Path, shape: DrafterShape | None, before: tuple[int, ...]
):
    drafter(tmp_path, shape)
    if shape is None:
        mendable.save_weights(tmp_path / "model.safetensors", mendable.poisoned(DrafterShape()))
    serve(engine, tmp_path, "untold")
    check_nothing_accepted(engine, prompts, before)


def test_rules_that_the_plugin_does_not_know_refuse_the_drafter(engine: Engine, prompts, tmp_path: Path):
    drafter(tmp_path)
    (tmp_path / "overlay.json").write_text('{"renames": {}, "transforms": {"d2t": "rotate"}, "drops": []}')
    outcome = engine.stage(tmp_path, "newer")
    assert (outcome.state, outcome.reason) == ("refused", "OverlayUnknown")
    (tmp_path / "overlay.json").write_text("[]")
    assert engine.stage(tmp_path, "broken").reason == "OverlayUnknown"
    check_acceptance(engine, prompts, 1.0)
