"""Engine pods: the agents behind their addresses, with the fences of the real agent around a fake engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tests.faults.network import Channel
from tests.support.scenario_agent import FakeAgent

from specdec.engine.agent.commands import TAKEN, Fence, stale
from specdec.engine.agent.plan import Obeyed
from specdec.engine.protocol import (
    Answer,
    CandidateState,
    Confirm,
    Drain,
    Envelope,
    LaunchPlan,
    Phase,
    Probe,
    Promote,
    Rollback,
    SetDrafting,
    Status,
)
from specdec.engine.signing import SignatureRefusedError, body_hash, verify

if TYPE_CHECKING:
    from tests.faults.process import Process

ON_TRIAL = (CandidateState.PROBING, CandidateState.SERVING)
POLL_STEP_SECONDS = 0.25
"""How often a long poll looks whether it has news."""


@dataclass
class EnginePod:
    """One pod: its place, its agent, and what the agent has obeyed so far."""

    name: str
    uid: str
    address: str
    agent: FakeAgent
    restart_hash: str
    epoch: int = 0
    fence: Fence = field(default_factory=Fence)
    serial: int = 1
    swapped_in: list[str] = field(default_factory=list)
    """Drafter paths, each time that one was swapped in."""
    refused: list[str] = field(default_factory=list)
    """Reasons of commands that were not taken."""
    _said: Status | None = None

    def status(self) -> Status:
        """What `/status` says; the serial rises when anything but counters changed."""
        said = self.agent.status().model_copy(update={"counters": (), "epoch": self.epoch})
        if self._said is not None and said != self._said:
            self.serial += 1
            self._note_swap(self._said, said)
        self._said = said
        return self.agent.status().model_copy(update={"serial": self.serial, "epoch": self.epoch})

    def _note_swap(self, before: Status, after: Status) -> None:
        if after.candidate and after.revision == after.candidate.revision != before.revision:
            self.swapped_in.append(self.agent.paths[after.revision])

    def take(self, token: str, body: bytes, plan: LaunchPlan) -> Answer:
        """Take a command as `specdec.engine.agent` does: signature, fences, sense."""
        try:
            verify(token, plan.public_keys, pod_uid=self.uid, body=body)
        except SignatureRefusedError as refusal:
            return self._refused("SignatureRefused", str(refusal))
        envelope = Envelope.model_validate_json(body)
        if self.fence.repeated(envelope, body_hash(body)):
            return TAKEN
        state = Obeyed(assignment=self.agent.assignment, epoch=self.epoch, revision=self.agent.promoted)
        answer = stale(envelope, state) or self._judged(envelope)
        if not answer.accepted:
            self.refused.append(answer.reason)
            return answer
        self.epoch = max(self.epoch, envelope.epoch)
        self.fence.remember(envelope, body_hash(body))
        self.agent.take(envelope.command, envelope.assignment)
        return TAKEN

    def _judged(self, envelope: Envelope) -> Answer:
        command, candidate = envelope.command, self.agent.candidate
        known = isinstance(command, Promote) and command.revision == self.agent.promoted
        if self.agent.phase is not Phase.SERVING:
            why = "NotServing"
        elif known or isinstance(command, SetDrafting | Drain):
            why = ""
        elif self.agent.max_steps == 0:
            why = "RestartNeeded"
        elif isinstance(command, Probe):
            why = "" if command.revision == self.agent.serving else "NotServing"
        elif isinstance(command, Confirm | Promote):
            states = ON_TRIAL if isinstance(command, Confirm) else (CandidateState.SERVING,)
            fits = candidate and candidate.state in states and candidate.revision == command.revision
            why = "" if fits else "NotServing"
        else:
            why = ""
        return Answer(accepted=False, reason=why, message="not now") if why else TAKEN

    def _refused(self, reason: str, message: str) -> Answer:
        self.refused.append(reason)
        return Answer(accepted=False, reason=reason, message=message)


class Reply:
    """An answer, as far as `specdec.controller.agents` reads it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    def raise_for_status(self) -> None:
        """It is 200 always: refusals are read from the body."""

    @property
    def content(self) -> Self:
        return self

    async def iter_any(self) -> Any:
        yield self._body


class _Asking:
    """A request under way, begun when it is entered."""

    def __init__(self, work: Any, seconds: float) -> None:
        self._work, self._seconds = work, seconds

    async def __aenter__(self) -> Reply:
        async with asyncio.timeout(self._seconds):
            return await self._work()

    async def __aexit__(self, *error: object) -> None:
        return None


class Session:
    """What `specdec.controller.agents.HttpAgents` asks of aiohttp, through the network."""

    def __init__(self, process: Process) -> None:
        self._process, self._world = process, process.world

    def get(self, url: str, *, params: dict[str, str], timeout: Any, **_: Any) -> _Asking:
        async def ask() -> Reply:
            pod = self._pod(url)

            async def deliver() -> Reply:
                if url.endswith("/preflight"):
                    assert pod.agent.preflight is not None
                    return Reply(pod.agent.preflight.model_dump_json(by_alias=True).encode())
                await self._wait(pod, params)
                return Reply(pod.status().model_dump_json(by_alias=True).encode())

            label = f"status of {pod.name}"
            return await self._carried(Channel.POLL, label, deliver)

        return _Asking(ask, timeout.total)

    def post(self, url: str, *, data: bytes, headers: dict[str, str], timeout: Any, **_: Any) -> _Asking:
        async def ask() -> Reply:
            pod, command = self._pod(url), Envelope.model_validate_json(data).command
            label = f"{command.verb} to {pod.name}"

            async def deliver() -> Reply:
                if pod.uid not in {each.uid for each in self._world.engines.values()}:
                    raise OSError("no route to host")
                token = headers["Authorization"].removeprefix("Bearer ")
                answer = pod.take(token, data, self._world.mounted_plan(pod))
                if answer.accepted and not isinstance(command, Confirm):
                    self._world.network.note(label)
                    self._world.rollbacks += isinstance(command, Rollback)
                    self._process.late += [label] * self._process.deposed
                return Reply(answer.model_dump_json(by_alias=True).encode())

            return await self._carried(Channel.COMMAND, label, deliver)

        return _Asking(ask, timeout.total)

    async def _carried(self, channel: Channel, label: str, deliver: Callable[[], Awaitable[Reply]]) -> Reply:
        await self._process.awake.wait()
        reply = await self._world.network.carry(channel, label, deliver, _spoiled)
        await self._process.awake.wait()
        return reply

    def _pod(self, url: str) -> EnginePod:
        address = url.split("/")[2].rpartition(":")[0]
        for pod in self._world.engines.values():
            if pod.address == address:
                return pod
        raise OSError(f"no route to host {address}")

    async def _wait(self, pod: EnginePod, params: dict[str, str]) -> None:
        since, left = params.get("since"), float(params.get("wait", 0))
        while left > 0 and str(pod.status().serial) == since:
            await asyncio.sleep(POLL_STEP_SECONDS)
            left -= POLL_STEP_SECONDS


def _spoiled(status: int) -> Reply:
    return Reply(
        b"<html>" if not status else b'{"accepted": false, "reason": "AgentBusy", "message": "later"}'
    )
