"""A candidacy in virtual time: a slot that does as it is told, and probes that show what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from specdec.api.preflight import Preflight
from specdec.engine.agent import candidacy as subject
from specdec.engine.agent.board import Board
from specdec.engine.agent.judging import STANDARD
from specdec.engine.agent.loopback_client import EngineUnreachableError, OrderRefusedError
from specdec.engine.agent.probe import Finding
from specdec.engine.agent.slot import Staged
from specdec.engine.agent.staging import Overlay
from specdec.engine.loopback import Outcome
from specdec.engine.loopback import Report as Counted
from specdec.engine.protocol import Candidate, DrafterRef, Drafting, ProbeResult, Swap
from specdec.preflight.report import Report


def ref(name: str) -> DrafterRef:
    return DrafterRef(revision=name, version=name, path=f"/models/{name}")


def staged(name: str, number: int = 0) -> Staged:
    return Staged(Overlay(Path(f"/o/{name}"), Path(f"/models/{name}"), ref(name)), f"sha256:{name}", number)


class Slot:
    """Says yes to everything; what is named in `refused` is refused, what is in `slow` takes its time."""

    most_steps = 3

    def __init__(self) -> None:
        self.serves = "home"
        self.steps = 3
        self.refused: dict[str, str] = {}
        self.slow: dict[str, float] = {}
        self.reports: dict[str, Report] = {}
        self.silent_until = 0.0
        self.silent_after_commit = False
        self.trail: list[str] = []
        self.loopback = self
        self._numbers = iter(range(1, 1000))

    async def report(self) -> Counted:
        if asyncio.get_running_loop().time() < self.silent_until:
            raise EngineUnreachableError("silent")
        return Counted(rank=0, sglang="0", patches=(), revision=self.serves, steps=self.steps, states=(0, 3))

    async def keep_staged(self, home: Staged) -> Staged:
        return home

    async def stage(
        self, drafter: DrafterRef, wish: Preflight = STANDARD, tell: Callable[[Report], None] = print
    ) -> Staged:
        if drafter.revision in self.reports:
            tell(self.reports[drafter.revision])
        await asyncio.sleep(self.slow.get(drafter.revision, 0.1))
        if drafter.revision in self.refused:
            raise OrderRefusedError(self.refused[drafter.revision], "no")
        return staged(drafter.revision, next(self._numbers))

    async def commit(self, chosen: Staged) -> Outcome:
        name = chosen.overlay.drafter.revision
        if f"commit {name}" in self.refused:
            raise OrderRefusedError(self.refused[f"commit {name}"], "no")
        if asyncio.get_running_loop().time() < self.silent_until:
            raise EngineUnreachableError("no answer to the commit")
        self.serves = name
        self.trail.append(name)
        if self.silent_after_commit:
            self.silent_after_commit = False
            raise EngineUnreachableError("no answer to the commit")
        return Outcome(number=0, state="done", seconds="0.25", in_flight=5)

    async def draft(self, steps: int) -> None:
        await asyncio.sleep(self.slow.get("draft", 0))
        self.steps = steps


class Scene:
    """A candidacy, its slot, and what its probes will show."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.slot = Slot()
        self.board = Board("uid")
        self.dead: set[str] = set()
        self.degenerate: set[str] = set()
        self.few: set[str] = set()
        self.probe_seconds = 1.0
        self.steps_while_probing: list[int] = []
        monkeypatch.setattr(subject, "probe", self.probe)
        self.candidacy = subject.Candidacy(
            self.slot,  # type: ignore[arg-type]
            self.board,
            staged("home"),
            clock=asyncio.get_running_loop().time,
            **{"drafting": Drafting.ON, "dead": False, "degenerate": False, **options},
        )

    async def probe(self, _: Any, *, identity: str, revision: str, asked: Iterator[str]) -> Finding:
        assert next(asked)
        self.steps_while_probing.append(self.slot.steps)
        await asyncio.sleep(self.probe_seconds)
        bad = revision in self.dead | self.few | self.degenerate
        calls = 10 if revision in self.few else 40
        result = ProbeResult(id=identity, revision=revision, passed=not bad, calls=calls)
        return Finding(result, answered=6, degenerate=revision in self.degenerate)

    @property
    def candidate(self) -> Candidate:
        assert self.board.status.candidate is not None
        return self.board.status.candidate

    def swap(self, name: str, within: int = 60) -> None:
        command = Swap(drafter=ref(name), confirm_within_seconds=within)
        assert self.candidacy.judge(command).accepted
        self.candidacy.begin(command)


@asynccontextmanager
async def running(scene: Scene) -> AsyncIterator[Scene]:
    task = asyncio.create_task(scene.candidacy.run())
    await asyncio.sleep(0)
    try:
        yield scene
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
