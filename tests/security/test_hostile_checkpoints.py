"""Hostile checkpoints at every door: the command, the conversion, the agent's staging and its digests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.headers import kimi_k25
from tests.support.hostile import CASES, RAN

from specdec.cli.main import specdec
from specdec.engine.agent.staging import make_overlay
from specdec.engine.protocol import DrafterRef
from specdec.preflight.checkpoint import CheckpointRefusedError
from specdec.preflight.digest import content_digest, header_digest

JUDGED = {"ParametersNotFed", "TokenMapLengthWrong"}
"""Sound as files: only the judgement against a target and an engine refuses them."""
UNSOUND = [case for case, hostile in CASES.items() if hostile.code not in JUDGED]


def command(verb: str, drafter: Path, place: Path, *more: str) -> Result:
    target = kimi_k25().write(place / "target")
    words = (verb, "--drafter", str(drafter), "--target", str(target), "--engine-version", "0.5.23", *more)
    return CliRunner().invoke(specdec, words)


@pytest.mark.parametrize("case", CASES)
def test_the_command_names_the_fault_and_neither_breaks_nor_moves_the_cursor(tmp_path: Path, case: str):
    folder = CASES[case].make(tmp_path / "drafter")
    result = command("preflight", folder, tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert CASES[case].code in result.output
    assert all(letter.isprintable() or letter == "\n" for letter in result.output)
    assert not (folder / RAN).exists()


@pytest.mark.parametrize("case", CASES)
def test_nothing_of_it_is_converted(tmp_path: Path, case: str):
    folder, copy = CASES[case].make(tmp_path / "drafter"), tmp_path / "copy"
    assert command("convert", folder, tmp_path, "--to", str(copy)).exit_code == 1
    assert not copy.exists()
    assert not (folder / RAN).exists()


@pytest.mark.parametrize("case", UNSOUND)
def test_the_agent_refuses_it_by_the_same_code_and_links_nothing(tmp_path: Path, case: str):
    folder = CASES[case].make(tmp_path / "models" / "drafter")
    reference = DrafterRef(revision="r", version="v", path=str(folder))
    state = tmp_path / "state"
    with pytest.raises(CheckpointRefusedError) as caught:
        make_overlay(state, tmp_path / "models", reference)
    assert caught.value.reason == CASES[case].code
    assert not state.exists()
    assert not (folder / RAN).exists()


def said(digest: Callable[[Path], str], folder: Path) -> str:
    try:
        return digest(folder)
    except CheckpointRefusedError as refusal:
        return str(refusal)


@pytest.mark.parametrize("case", CASES)
def test_its_digest_is_one_or_a_refusal_and_never_waits(tmp_path: Path, case: str):
    folder = CASES[case].make(tmp_path / "drafter")
    large = CASES[case].code in {"HeaderTooLarge", "TokenMapLengthWrong"}
    for digest in (header_digest,) if large else (header_digest, content_digest):
        assert said(digest, folder).isprintable()
    assert not (folder / RAN).exists()
