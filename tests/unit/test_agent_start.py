"""What a start says that the pod's own volumes stop."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from tests.unit.test_agent_plan import A, plan, state

from specdec.engine.agent import start as subject
from specdec.engine.agent.board import Board
from specdec.engine.agent.failures import StartFailedError
from specdec.engine.agent.launch import Profile
from specdec.engine.agent.settings import Settings
from specdec.engine.agent.start import Start


@pytest.fixture
def start(tmp_path: Path) -> Start:
    settings = Settings(pod_uid="u", models_dir=tmp_path, run_dir=tmp_path / "run")
    return Start(settings, Profile(), plan(3), state(3, A), Board("u"))


async def test_a_target_that_can_not_be_read_is_named(start, monkeypatch):
    def broken(*_: object) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(subject, "inside", broken)
    with pytest.raises(StartFailedError, match=r"/models/m/t can't be read .*Input/output error") as caught:
        await start._check_target()
    assert caught.value.failure.reason == "TargetNotReadable"


def test_a_run_folder_that_can_not_be_made_is_not_the_images_fault(tmp_path):
    (tmp_path / "run").touch()
    launch = SimpleNamespace(adaptive="{}")
    with pytest.raises(StartFailedError, match="run/0123abcd could not be written") as caught:
        subject._prepare(tmp_path / "run" / "0123abcd", launch)  # type: ignore[arg-type]
    assert caught.value.failure.reason == "RunFolderNotWritten"
