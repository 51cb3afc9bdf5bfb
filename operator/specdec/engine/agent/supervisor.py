"""Keeping one engine up: start, serve, obey, start again, and in the end drain and stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from specdec.engine.agent import plan as plans
from specdec.engine.agent import termination
from specdec.engine.agent.candidacy import gone
from specdec.engine.agent.commands import TAKEN, Fence, refused, stale
from specdec.engine.agent.failures import Blame, Failure, StartFailedError
from specdec.engine.agent.ladder import Attempt, after_failure
from specdec.engine.agent.launch import LaunchRefusedError, read_profile
from specdec.engine.agent.loopback_client import EngineUnreachableError, watch
from specdec.engine.agent.orphans import reap
from specdec.engine.agent.start import Running, Start
from specdec.engine.agent.times import now_text
from specdec.engine.protocol import Answer, Command, Drain, Phase, Promote, SetDrafting

if TYPE_CHECKING:
    from specdec.engine.agent.board import Board
    from specdec.engine.agent.settings import Settings
    from specdec.engine.agent.vitals import Vitals
    from specdec.engine.protocol import Envelope, LaunchPlan

log = logging.getLogger("specdec.agent")

PLAN_SECONDS = 1.0
"""How often the mounted plan is looked at."""
REAP_SECONDS = 5.0
BEAT_SECONDS = 1.0
STEADY_SECONDS = 60.0
"""An engine that served this long had a good start: its end opens a new count of failures."""
LINGER_SECONDS = 5.0
"""After a pod is no longer ready, requests still come until every proxy knows."""
DRAIN_POLL_SECONDS = 0.5


class Supervisor:
    """The agent's main loop; all its methods run in one event loop."""

    def __init__(self, settings: Settings, board: Board, vitals: Vitals) -> None:
        self.settings = settings
        self.board = board
        self.vitals = vitals
        self.plan: LaunchPlan | None = None
        self.state: plans.Obeyed | None = None
        self.draining = False
        self._start: Start | None = None
        self._running: Running | None = None
        self._fence = Fence()
        self._commands = asyncio.Lock()

    @property
    def public_keys(self) -> tuple[str, ...]:
        """Keys that a command may be signed with."""
        return self.plan.public_keys if self.plan else ()

    async def run(self) -> None:
        """Start and start again, for ever."""
        attempt, why_not = Attempt(), None
        promoted = None
        while True:
            try:
                await self._read_plan()
                if self.state is not None and self.state.drafter != promoted:
                    attempt, why_not, promoted = Attempt(rung=attempt.rung), None, self.state.drafter
                attempt, failure = await self._one_life(attempt, why_not)
            except (plans.PlanUnreadableError, LaunchRefusedError) as error:
                failure = Failure("PlanUnreadable", str(error), Blame.SURROUNDINGS)
                attempt = after_failure(attempt, failure, platform="")
            except plans.StateNotWrittenError as error:
                failure = Failure("StateNotWritten", str(error), Blame.SURROUNDINGS)
                attempt = after_failure(attempt, failure, platform="")
            except OSError as error:
                log.exception("a start failed on this machine")
                failure = Failure(
                    "NotStarted", f"the start failed ({error}): see the log", Blame.SURROUNDINGS
                )
                attempt = after_failure(attempt, failure, platform="")
            self._say_failed(failure)
            why_not = None if attempt.with_drafter else why_not or failure
            await asyncio.sleep(attempt.pause_seconds)

    def _say_failed(self, failure: Failure) -> None:
        """Say it in the log, in the status, and where the kubelet looks when the container ends."""
        log.error("%s: %s", failure.reason, failure.message)
        now = now_text()
        report = failure.report(now)
        termination.leave(self.settings.termination_log, termination.message(report))
        self.board.change(
            phase=Phase.FAILED, reason=failure.reason, message=failure.message, progress_at=now, failure=report,
            **gone(self.board.status.candidate, failure),
        )  # fmt: skip

    async def _one_life(self, attempt: Attempt, why_not: Failure | None) -> tuple[Attempt, Failure]:
        """Start once and serve until it ends."""
        if self.plan is None or self.state is None:
            raise plans.PlanUnreadableError("there is no launch plan yet: the operator writes it")
        profile = await asyncio.to_thread(read_profile, self.settings.specdec_profile)
        start = self._start = Start(self.settings, profile, self.plan, self.state, self.board)
        if self.draining:
            start.phase_when_up = Phase.DRAINING
        steady = attempt
        try:
            running = await start.up(attempt, why_not)
            self.vitals.pid = running.child.pid
            termination.leave(self.settings.termination_log, b"")
            served = time.monotonic()
            failure = await self._serve(start, running)
            away = running.candidacy is not None and running.candidacy.away
            # What ended a candidate's service says nothing about the promoted drafter.
            if away or time.monotonic() - served > STEADY_SECONDS:
                steady = Attempt(rung=attempt.rung, with_drafter=attempt.with_drafter, blamed=attempt.blamed)
        except StartFailedError as error:
            failure = start.with_lines(error.failure)
        finally:
            self._running = None
            self.vitals.pid = None
            await asyncio.shield(start.down())
            self._start = None
        return after_failure(steady, failure, platform=profile.platform), failure

    async def _serve(self, start: Start, running: Running) -> Failure:
        self._running = running
        ended = asyncio.create_task(running.child.ended())
        jobs: set[asyncio.Task[Any]] = {
            ended,
            asyncio.create_task(self._watch_plan()),
            asyncio.create_task(watch(running.loopback)),
        }
        if running.candidacy is not None:
            jobs.add(asyncio.create_task(running.candidacy.run()))
        try:
            done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            if ended in done:
                return start.diagnosis(running.child)
            for job in done:
                job.result()
        except EngineUnreachableError as error:
            return start.with_lines(Failure("EngineUnreachable", str(error), Blame.SURROUNDINGS))
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
        return Failure("AgentStopped", "the agent's own work ended: report this", Blame.SURROUNDINGS)

    async def _read_plan(self) -> None:
        plan = await asyncio.to_thread(plans.read_plan, self.settings.plan_dir)
        kept = self.state or await asyncio.to_thread(plans.read_state, self.settings.state_dir)
        await self._obey(plan, kept)

    async def _obey(self, plan: LaunchPlan, kept: plans.Obeyed | None) -> None:
        self.plan = plan
        state = plans.obeyed(plan, kept)
        await self._keep(state)

    async def _keep(self, state: plans.Obeyed) -> None:
        """Write down what is obeyed before anything acts on it."""
        if state != self.state:
            await asyncio.to_thread(plans.write_state, self.settings.state_dir, state)
        self.state = state
        self.board.change(assignment=state.assignment, epoch=state.epoch, promoted=state.revision)

    async def _watch_plan(self) -> None:
        """Adopt a newer plan: keys and drafting at once, another drafter at the next start."""
        seen = self.plan
        while True:
            await asyncio.sleep(PLAN_SECONDS)
            try:
                plan = await asyncio.to_thread(plans.read_plan, self.settings.plan_dir)
            except plans.PlanUnreadableError as error:
                log.warning("%s", error)
                continue
            if plan == seen:
                continue
            seen = plan
            if self.plan is not None and plan.assignment < self.plan.assignment:
                continue
            try:
                await self._adopt(plan)
            except plans.StateNotWrittenError as error:
                log.warning("a newer plan waits for the next start: %s", error)

    async def _adopt(self, plan: LaunchPlan) -> None:
        async with self._commands:
            before, running = self.state, self._running
            await self._obey(plan, before)
            if before is None or self.state is None or running is None or running.candidacy is None:
                return
            if before.drafting != self.state.drafting:
                running.candidacy.begin(SetDrafting(drafting=self.state.drafting))

    async def take(self, envelope: Envelope, body_hash: str) -> Answer:
        """Take or refuse a command whose signature holds; what takes longer is seen in the status."""
        async with self._commands:
            if self.state is None:
                return refused("NoPlan", "the agent has no launch plan yet: send the command later")
            if self._fence.repeated(envelope, body_hash):
                return TAKEN
            answer = stale(envelope, self.state) or self._judge(envelope.command)
            if not answer.accepted:
                return answer
            running = self._running
            candidacy = running.candidacy if running else None
            promotes = isinstance(envelope.command, Promote)
            try:
                with candidacy.held() if candidacy and promotes else contextlib.nullcontext():
                    await self._keep(self._moved(envelope))
            except plans.StateNotWrittenError as error:
                return refused("StateNotWritten", str(error))
            self._fence.remember(envelope, body_hash)
            self._begin(envelope.command)
            return TAKEN

    def _judge(self, command: Command) -> Answer:
        running = self._running
        if isinstance(command, SetDrafting | Drain):
            return TAKEN
        if isinstance(command, Promote) and self.state and command.revision == self.state.revision:
            return TAKEN
        if running is None or self.draining:
            phase = self.board.status.phase.value
            return refused(
                "NotServing", f"the engine is in phase {phase}, expected Serving: send it again later"
            )
        if running.candidacy is None:
            return refused(
                "RestartNeeded",
                "the engine was started without a drafter and can't take one in: restart the pod",
            )
        return running.candidacy.judge(command)

    def _moved(self, envelope: Envelope) -> plans.Obeyed:
        """What is obeyed once this command is taken."""
        state, command = self.state, envelope.command
        if state is None:
            raise RuntimeError("a command is taken only with a state")
        fields = {"assignment": envelope.assignment, "epoch": envelope.epoch}
        running = self._running
        if isinstance(command, SetDrafting) and not command.for_seconds:
            return state.model_copy(update={**fields, "drafting": command.drafting})
        if (
            isinstance(command, Promote)
            and running
            and running.candidacy
            and command.revision != state.revision
        ):
            drafter = running.candidacy.serving.overlay.drafter
            return state.model_copy(update={**fields, "revision": drafter.revision, "drafter": drafter})
        return state.model_copy(update=fields)

    def _begin(self, command: Command) -> None:
        if isinstance(command, Drain):
            self._leave_service()
        running = self._running
        if running is not None and running.candidacy is not None:
            running.candidacy.begin(command)

    def _leave_service(self) -> None:
        self.draining = True
        if self._start is not None:
            self._start.phase_when_up = Phase.DRAINING
        self.board.change(phase=Phase.DRAINING, progress_at=now_text())

    async def housekeeping(self) -> None:
        """Reap orphans and show that this loop turns."""
        zombies: set[int] = set()
        looked = 0.0
        while True:
            self.vitals.beat = time.monotonic()
            if time.monotonic() - looked > REAP_SECONDS:
                looked = time.monotonic()
                zombies = await asyncio.to_thread(reap, zombies)
            await asyncio.sleep(BEAT_SECONDS)

    async def drain(self) -> None:
        """Leave the Service, go on accepting for a while, and wait for the streams in flight."""
        running = self._running
        self._leave_service()
        if running is None:
            return
        await asyncio.sleep(LINGER_SECONDS)
        seconds = self.plan.drain_seconds if self.plan else 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while running.child.running and (left := await _left(running)):
                    self.board.change(message=f"waiting for {left} in flight")
                    await asyncio.sleep(DRAIN_POLL_SECONDS)


async def _left(running: Running) -> str:
    """Say how many users' requests an engine has; "" only if it says itself that it has none."""
    try:
        count = (await running.loopback.report()).in_flight
    except EngineUnreachableError:
        # Long batches keep a scheduler from answering, and users' streams are what they decode.
        return "requests"
    return f"{count} requests" if count else ""
