"""The life of a candidate on this engine: staged, swapped in, probed, confirmed or taken back.

One job at a time; a newer Swap, a Rollback or a Drain ends a wait of the job before it. The dead-man switch
needs nobody: without a Confirm before the deadline, by the monotonic clock, the agent goes back home. *Home*
is the drafter that this engine was started with or that was promoted since.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar

from specdec.engine.agent.board import MESSAGE_CHARACTERS
from specdec.engine.agent.commands import TAKEN, refused
from specdec.engine.agent.loopback_client import EngineUnreachableError, OrderRefusedError
from specdec.engine.agent.probe import probe
from specdec.engine.agent.times import now_text
from specdec.engine.protocol import (
    Answer,
    Candidate,
    CandidateState,
    Command,
    Confirm,
    Drafting,
    Drain,
    Probe,
    Promote,
    Rollback,
    SetDrafting,
    Swap,
)
from specdec.preflight.checkpoint import CheckpointRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from specdec.engine.agent.board import Board
    from specdec.engine.agent.probe import Finding
    from specdec.engine.agent.slot import DrafterSlot, Staged

    Job = Callable[[], Coroutine[Any, Any, None]]

log = logging.getLogger("specdec.agent")
Result = TypeVar("Result")

RECOVERY_SECONDS = 30.0
"""How long a silent engine is asked again before it counts as lost."""
SERVES = frozenset({CandidateState.PROBING, CandidateState.SERVING})
UNDECIDED = SERVES | {CandidateState.STAGING, CandidateState.SWAPPING}


class SupersededError(Exception):
    """A newer command ended the wait."""


class Candidacy:
    """What may be done with the drafter of one running engine, and what became of the last candidate."""

    def __init__(
        self,
        slot: DrafterSlot,
        board: Board,
        home: Staged,
        *,
        drafting: Drafting,
        dead: bool,
        degenerate: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slot = slot
        self.home = home
        self.serving = home
        self.drafting = drafting
        """The mode that is wanted; a dead drafter does not draft all the same."""
        self.dead = {home.overlay.drafter.revision} if dead else set[str]()
        self._degenerate = degenerate
        """Whether the target's answers were degenerate at the start already."""
        self.deadline: float | None = None
        self._board = board
        self._clock = clock
        self._jobs: asyncio.Queue[tuple[Job, bool]] = asyncio.Queue()
        self._interrupt = asyncio.Event()
        self._interrupting = 0
        """Queued jobs that end the wait of the one before them."""
        self._leaving = False

    @property
    def candidate(self) -> Candidate | None:
        """The last candidate, as the status shows it."""
        return self._board.status.candidate

    @property
    def away(self) -> bool:
        """Whether something else than home serves."""
        return self.serving.overlay.drafter != self.home.overlay.drafter

    def _is(self, revision: str, *states: CandidateState) -> bool:
        now = self.candidate
        return now is not None and now.revision == revision and now.state in states and not self._leaving

    def judge(self, command: Command) -> Answer:
        """Decide whether a command can be taken now; changes nothing."""
        match command:
            case Confirm() if not self._is(command.revision, *SERVES):
                return refused(
                    "NotServing", f"{command.revision} does not serve as a candidate: nothing to confirm"
                )
            case Promote() if not self._is(command.revision, CandidateState.SERVING) and (
                command.revision != self.home.overlay.drafter.revision
            ):
                return refused(
                    "NotServing",
                    f"{command.revision} is no candidate that passed its probe: swap it in first",
                )
            case Probe() if command.revision != self.serving.overlay.drafter.revision:
                return refused(
                    "NotServing",
                    f"{command.revision} does not serve, {self.serving.overlay.drafter.revision} does",
                )
            case _:
                return TAKEN

    def begin(self, command: Command) -> None:
        """Do what a taken command says, or queue it."""
        match command:
            case Swap():
                self._queue(lambda: self._swap(command), interrupt=True)
            case Confirm():
                self._arm(command.within_seconds)
            case Promote():
                self._promote(command.revision)
            case Rollback():
                self._queue(lambda: self._leave(command.revision, command.reason), interrupt=True)
            case SetDrafting():
                self.drafting = command.drafting
                self._queue(self.apply_drafting)
            case Probe():
                self._queue(lambda: self._probe(command.id))
            case Drain():
                pass

    def disarm(self) -> None:
        """Stop the dead-man switch: a Promote is being written down."""
        self.deadline = None

    def _queue(self, job: Job, *, interrupt: bool = False) -> None:
        self._jobs.put_nowait((job, interrupt))
        if interrupt:
            self._interrupting += 1
            self._interrupt.set()

    def _picked(self, *, interrupting: bool) -> None:
        self._interrupting -= interrupting
        if not self._interrupting:
            self._interrupt.clear()

    async def run(self) -> None:
        """Do the jobs one after the other, and go back home when nobody confirms in time.

        Raises
        ------
        EngineUnreachableError
            The engine did not do in time what it was ordered: only a restart brings a known state.
        """
        while True:
            try:
                job, interrupting = await asyncio.wait_for(self._jobs.get(), self._left())
            except TimeoutError:
                # A Confirm or a Promote may have come while it was waited.
                if self._left() != 0:
                    continue
                job, interrupting = self._not_confirmed, False
            self._picked(interrupting=interrupting)
            try:
                await job()
            except SupersededError:
                log.info("a newer command or the dead-man switch ended a wait")
            except EngineUnreachableError as error:
                await self._recover(str(error))

    def _left(self) -> float | None:
        """Seconds until the dead-man switch; None if it is off."""
        return None if self.deadline is None else max(0.0, self.deadline - self._clock())

    async def _not_confirmed(self) -> None:
        await self._back("NotConfirmed", "no Confirm came in time: the dead-man switch took it back")

    async def _recover(self, message: str) -> None:
        """Find out what serves after an order without an answer, and leave a candidate that got into doubt."""
        until = self._clock() + RECOVERY_SECONDS
        while True:
            try:
                report = await self.slot.loopback.report()
                break
            except EngineUnreachableError:
                if self._clock() > until:
                    raise
                await asyncio.sleep(1)
        log.warning("the engine answers again after: %s", message)
        if report.revision != self.home.overlay.drafter.revision:
            await self._back("EngineUnreachable", message)
        else:
            self._serve(self.home)
            if self.candidate is not None and self.candidate.state in UNDECIDED:
                self._end("EngineUnreachable", message)

    async def apply_drafting(self) -> None:
        """Bring the steps in force to what is wanted."""
        on = self.drafting is Drafting.ON and self.serving.overlay.drafter.revision not in self.dead
        steps = self.slot.most_steps if on else 0
        await self.slot.draft(steps)
        self._board.change(steps=steps, drafting=Drafting.ON if steps else Drafting.OFF)

    async def _swap(self, command: Swap) -> None:
        drafter = command.drafter
        self._board.change(candidate=Candidate(revision=drafter.revision, state=CandidateState.STAGING))
        try:
            self.home = await self._unless_superseded(self.slot.keep_staged(self.home))
            staged = await self._unless_superseded(self.slot.stage(drafter))
            self._note(CandidateState.SWAPPING, digest=staged.digest)
            outcome = await self.slot.commit(staged)
        except (CheckpointRefusedError, OrderRefusedError) as refusal:
            await self._refuse(refusal.reason, str(refusal))
            return
        self._serve(staged)
        self._note(
            CandidateState.PROBING,
            swap_seconds=outcome.seconds,
            swapped_at=now_text(),
            requests_at_swap=outcome.in_flight,
        )
        self._arm(command.confirm_within_seconds)
        finding = await self._unless_superseded(self._probe_serving(""))
        reason = probe_failure(finding, degenerate_before=self._degenerate)
        if reason:
            await self._back(reason, finding.result.message)
        else:
            self._note(CandidateState.SERVING)

    async def _refuse(self, reason: str, message: str) -> None:
        self._note(CandidateState.REFUSED, reason=reason, message=message)
        if self.away:
            # The candidate before it is named by no status any more, and nobody will confirm it.
            await self._go_home()
            await self.apply_drafting()

    async def _leave(self, revision: str, reason: str) -> None:
        if self._is(revision, *UNDECIDED):
            await self._back(reason, "the operator asked for it")

    async def _back(self, reason: str, message: str) -> None:
        began = self._clock()
        self._leaving = True
        try:
            await self._go_home()
            seconds = self._clock() - began
            await self.apply_drafting()
        finally:
            self._leaving = False
        self._end(reason, message, back_seconds=f"{seconds:.3f}", back_at=now_text())

    def _end(self, reason: str, message: str, **fields: Any) -> None:
        now = self.candidate
        served = now is not None and bool(now.swapped_at)
        state = CandidateState.SWAPPED_BACK if served else CandidateState.REFUSED
        self._note(state, reason=reason, message=message, confirm_by="", **(fields if served else {}))

    async def _go_home(self) -> None:
        self.deadline = None
        if not self.away:
            return
        try:
            await self.slot.commit(self.home)
        except (CheckpointRefusedError, OrderRefusedError) as refusal:
            # Only a restart can bring home back; until the operator decides, nothing bad drafts.
            self.dead.add(self.serving.overlay.drafter.revision)
            self._board.change(
                reason="SwapBackRefused", message=f"drafting is off: the way back was refused ({refusal})"
            )
            return
        self._serve(self.home)

    def _promote(self, revision: str) -> None:
        if not self._is(revision, CandidateState.SERVING):
            return
        self.home = self.serving
        self.deadline = None
        self._note(CandidateState.PROMOTED, confirm_by="")

    async def _probe(self, identity: str) -> None:
        finding = await self._unless_superseded(self._probe_serving(identity))
        revision = self.serving.overlay.drafter.revision
        if finding.result.passed:
            self.dead.discard(revision)
        await self.apply_drafting()

    async def _probe_serving(self, identity: str) -> Finding:
        """Probe what serves; a drafter that is switched off drafts for that long."""
        try:
            await self.slot.draft(self.slot.most_steps)
            finding = await probe(
                self.slot.loopback, identity=identity, revision=self.serving.overlay.drafter.revision
            )
        finally:
            if self.drafting is Drafting.OFF:
                await self.apply_drafting()
        self._board.change(probe=finding.result)
        return finding

    def _serve(self, staged: Staged) -> None:
        self.serving = staged
        self._board.change(revision=staged.overlay.drafter.revision, digest=staged.digest)

    def _arm(self, seconds: int) -> None:
        self.deadline = self._clock() + seconds
        now = self.candidate
        if now is not None:
            self._board.change(candidate=now.model_copy(update={"confirm_by": now_text(seconds)}))

    def _note(self, state: CandidateState, **fields: Any) -> None:
        now = self.candidate
        if now is not None:
            fields["message"] = str(fields.get("message", now.message))[:MESSAGE_CHARACTERS]
            self._board.change(candidate=now.model_copy(update={"state": state, **fields}))
            log.info("candidate %s: %s %s", now.revision, state.value, fields)

    async def _unless_superseded(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for work, but not longer than until a newer command comes or nobody confirmed what serves."""
        task = asyncio.create_task(work)
        newer = asyncio.create_task(self._interrupt.wait())
        try:
            while not (task.done() or newer.done() or self._left() == 0):
                await asyncio.wait({task, newer}, timeout=self._left(), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise SupersededError
        finally:
            for waiting in (task, newer):
                waiting.cancel()
            await asyncio.gather(task, newer, return_exceptions=True)


def probe_failure(finding: Finding, *, degenerate_before: bool) -> str:
    """Say why a candidate must leave after its probe; "" lets it stay."""
    if finding.degenerate and not degenerate_before:
        return "ProbeFailed: DegenerateAnswers"
    if finding.dead:
        return "ProbeFailed: DeadDrafter"
    if not finding.result.passed and not finding.degenerate:
        return "ProbeFailed: TooFewCalls"
    return ""


def gone(candidate: Candidate | None) -> dict[str, Any]:
    """What the status says of a candidate whose engine has ended: the next start has the promoted drafter."""
    if candidate is None or candidate.state not in UNDECIDED:
        return {}
    served = bool(candidate.swapped_at)
    fields = {
        "state": CandidateState.SWAPPED_BACK if served else CandidateState.REFUSED,
        "reason": "EngineEnded",
        "message": "the engine ended while it was the candidate: the next start has the promoted drafter",
        "back_at": now_text() if served else "",
        "confirm_by": "",
    }
    return {"candidate": candidate.model_copy(update=fields)}
