"""The life of a candidate on this engine: staged, swapped in, probed, confirmed or taken back.

One job at a time; a newer Swap or a Rollback ends a wait of the job before it. The dead-man switch
needs nobody: without a Confirm before the deadline, by the monotonic clock, the agent goes back home. *Home*
is the drafter that this engine was started with or that was promoted since.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from specdec.engine.agent.board import LOAD_CHARACTERS, MESSAGE_CHARACTERS, shortened
from specdec.engine.agent.commands import TAKEN, refused
from specdec.engine.agent.failures import Blame
from specdec.engine.agent.jobs import Jobs, SupersededError
from specdec.engine.agent.loopback_client import EngineUnreachableError, OrderRefusedError
from specdec.engine.agent.mode import Mode
from specdec.engine.agent.probe import probe
from specdec.engine.agent.prompts import PROMPTS, endless
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
    from collections.abc import Callable, Iterator, Sequence

    from specdec.engine.agent.board import Board
    from specdec.engine.agent.failures import Failure
    from specdec.engine.agent.probe import Finding
    from specdec.engine.agent.slot import DrafterSlot, Staged
    from specdec.engine.protocol import DrafterRef
    from specdec.preflight.report import Report

log = logging.getLogger("specdec.agent")

DEAD = "DeadDrafter"
"""The status' reason while home drafts nothing of use and is kept off."""
RECOVERY_SECONDS = 30.0
"""How long a silent engine is asked again before it counts as lost."""
SERVES = frozenset({CandidateState.PROBING, CandidateState.SERVING})
UNDECIDED = SERVES | {CandidateState.STAGING, CandidateState.SWAPPING}


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
        prompts: Sequence[str] = PROMPTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slot = slot
        self.home = home
        self.serving = home
        self.dead = {home.overlay.drafter.revision} if dead else set[str]()
        self._prompts = prompts
        self._degenerate = degenerate
        """Whether the target's answers were degenerate at the start already."""
        self._board = board
        self._jobs = Jobs(self._not_confirmed, clock)
        self._mode = Mode(drafting, board, lambda: self._jobs.put(self.apply_drafting))
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
                # Named at once: what comes next in one breath means this one.
                new = Candidate(revision=command.drafter.revision, state=CandidateState.STAGING)
                self._board.change(candidate=new)
                self._jobs.put(lambda: self._swap(command), interrupt=True)
            case Confirm():
                self._arm(command.within_seconds)
            case Promote():
                self._promote(command.revision)
            case Rollback():
                interrupt = self._is(command.revision, *UNDECIDED)
                self._jobs.put(lambda: self._leave(command.revision, command.reason), interrupt=interrupt)
            case SetDrafting():
                self._mode.order(command)
            case Probe():
                self._jobs.put(lambda: self._probe(command.id))
            case Drain():
                pass  # the pod leaves the Service; what serves goes on until its streams are done

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop the dead-man switch while a Promote is being written down; only the Promote itself ends it."""
        deadline, self._jobs.deadline = self._jobs.deadline, None
        try:
            yield
        finally:
            self._jobs.deadline = deadline

    async def run(self) -> None:
        """Do the jobs one after the other, and go back home when nobody confirms in time.

        Raises
        ------
        EngineUnreachableError
            The engine did not do in time what it was ordered: only a restart brings a known state.
        """
        while True:
            job = await self._jobs.next()
            try:
                await job()
            except SupersededError:
                log.info("a newer command or the dead-man switch ended a wait")
            except EngineUnreachableError as error:
                await self._recover("EngineUnreachable", str(error))
            except Exception as error:
                # A fault of ours must not end users' streams: back to what is known to be good.
                log.exception("a job of the agent failed")
                await self._recover("InternalError", f"the agent failed ({error!r}): see its log")

    async def _not_confirmed(self) -> None:
        await self._back("NotConfirmed", "no Confirm came in time: the dead-man switch took it back")

    async def _recover(self, reason: str, message: str) -> None:
        """Find out what serves after an order without an answer, and leave a candidate that got into doubt."""
        until = self._jobs.clock() + RECOVERY_SECONDS
        while True:
            try:
                report = await self.slot.loopback.report()
                break
            except EngineUnreachableError:
                if self._jobs.clock() > until:
                    raise
                await asyncio.sleep(1)
        log.warning("the engine answers again after: %s", message)
        if report.revision != self.home.overlay.drafter.revision:
            await self._back(reason, message, surely=True)
            return
        self._serve(self.home)
        self._jobs.deadline = None
        await self.apply_drafting()
        if self.candidate is not None and self.candidate.state in UNDECIDED:
            self._end(reason, message)

    async def apply_drafting(self) -> None:
        """Bring the steps in force to what is wanted."""
        on = self._mode.now is Drafting.ON and self.serving.overlay.drafter.revision not in self.dead
        await self._draft(self.slot.most_steps if on else 0)

    async def _draft(self, steps: int) -> None:
        await self.slot.draft(steps)
        self._board.change(steps=steps, drafting=Drafting.ON if steps else Drafting.OFF)

    async def _swap(self, command: Swap) -> None:
        drafter = command.drafter
        if not self._is(drafter.revision, CandidateState.STAGING):
            return
        try:
            self.home = await self._jobs.wait(self.slot.keep_staged(self.home))
            staged = await self._jobs.wait(
                self.slot.stage(drafter, command.preflight, lambda found: self._judged(found, command))
            )
            self._note(drafter, CandidateState.SWAPPING, digest=staged.digest)
            outcome = await self.slot.commit(staged)
        except (CheckpointRefusedError, OrderRefusedError) as refusal:
            await self._refuse(drafter, refusal.reason, str(refusal))
            return
        self._serve(staged)
        swapped = {"swap_seconds": outcome.seconds, "swapped_at": now_text()}
        self._note(drafter, CandidateState.PROBING, requests_at_swap=outcome.in_flight, **swapped)
        self._arm(command.confirm_within_seconds)
        finding = await self._jobs.wait(self._probe_serving(""))
        reason = probe_failure(finding, degenerate_before=self._degenerate)
        if reason:
            await self._back(reason, finding.result.message)
        else:
            self._note(drafter, CandidateState.SERVING)

    def _judged(self, report: Report, command: Swap) -> None:
        self._board.judged(report, command.drafter.revision, command.preflight)

    async def _refuse(self, drafter: DrafterRef, reason: str, message: str) -> None:
        self._note(drafter, CandidateState.REFUSED, reason=reason, message=message, refused_at=now_text())
        if self.away:
            # The candidate before it is named by no status any more, and nobody will confirm it.
            await self._go_home()
            await self.apply_drafting()

    async def _leave(self, revision: str, reason: str) -> None:
        if self._is(revision, *UNDECIDED):
            await self._back(reason, "the operator asked for it")

    async def _back(self, reason: str, message: str, *, surely: bool = False) -> None:
        """Make home serve again and say why; `surely` commits even if home is believed to serve."""
        began, left = self._jobs.clock(), self.candidate
        self._leaving = True
        try:
            await self._go_home(surely=surely)
            seconds = self._jobs.clock() - began
            await self.apply_drafting()
        finally:
            self._leaving = False
        if self.candidate is left:  # or a Swap has named the next one meanwhile
            self._end(reason, message, f"{seconds:.3f}")

    def _end(self, reason: str, message: str, back_seconds: str = "") -> None:
        now = self.candidate
        if now is None or now.state not in UNDECIDED:
            return
        ended = over(now, reason, message)
        if ended.state is CandidateState.SWAPPED_BACK:
            ended = ended.model_copy(update={"back_seconds": back_seconds})
        self._board.change(candidate=ended)
        log.info("candidate %s: %s, %s: %s", ended.revision, ended.state.value, reason, ended.message)

    async def _go_home(self, *, surely: bool = False) -> None:
        self._jobs.deadline = None
        if not (self.away or surely):
            return
        try:
            await self.slot.commit(self.home)
        except (CheckpointRefusedError, OrderRefusedError) as refusal:
            # Only a restart can bring home back; until the operator decides, nothing bad drafts.
            self.dead.add(self.serving.overlay.drafter.revision)
            self._board.change(
                reason="SwapBackRefused",
                message=f"drafting is off: the way back was refused ({refusal})",
            )
            return
        self._serve(self.home)

    def _promote(self, revision: str) -> None:
        if not self._is(revision, CandidateState.SERVING):
            return
        self.home = self.serving
        self._jobs.deadline = None
        self._note(self.home.overlay.drafter, CandidateState.PROMOTED, confirm_by="")
        self._forget_dead_home()

    def _forget_dead_home(self) -> None:
        """Say no longer that home is dead, once a probe or a promotion has shown otherwise."""
        if self._board.status.reason == DEAD and self.home.overlay.drafter.revision not in self.dead:
            self._board.change(reason="", message="")

    async def _probe(self, identity: str) -> None:
        finding = await self._jobs.wait(self._probe_serving(identity))
        revision = self.serving.overlay.drafter.revision
        if finding.result.passed:
            self.dead.discard(revision)
            self._forget_dead_home()
        await self.apply_drafting()

    async def _probe_serving(self, identity: str) -> Finding:
        """Probe what serves; a drafter that is switched off drafts for that long."""
        try:
            await self._draft(self.slot.most_steps)
            finding = await probe(
                self.slot.loopback,
                identity=identity,
                revision=self.serving.overlay.drafter.revision,
                asked=endless(self._prompts),
            )
        finally:
            if self._mode.now is Drafting.OFF:
                await self.apply_drafting()
        self._board.change(probe=finding.result)
        return finding

    def _serve(self, staged: Staged) -> None:
        self.serving = staged
        self._board.change(
            revision=staged.overlay.drafter.revision,
            digest=staged.digest,
            load=shortened(staged.load, LOAD_CHARACTERS),
        )

    def _arm(self, seconds: int) -> None:
        self._jobs.deadline = self._jobs.clock() + seconds
        now = self.candidate
        if now is not None:
            self._board.change(candidate=now.model_copy(update={"confirm_by": now_text(seconds)}))

    def _note(self, drafter: DrafterRef, state: CandidateState, **fields: Any) -> None:
        """Say what became of a candidate, unless a newer one is named already."""
        now = self.candidate
        if now is not None and now.revision == drafter.revision:
            fields["message"] = str(fields.get("message", now.message))[:MESSAGE_CHARACTERS]
            self._board.change(candidate=now.model_copy(update={"state": state, **fields}))
            log.info("candidate %s: %s %s", now.revision, state.value, fields)


def probe_failure(finding: Finding, *, degenerate_before: bool) -> str:
    """Say why a candidate must leave after its probe; "" lets it stay."""
    if finding.degenerate and not degenerate_before:
        return "ProbeFailed: DegenerateAnswers"
    if finding.dead:
        return "ProbeFailed: DeadDrafter"
    if not finding.result.passed and not finding.degenerate:
        return "ProbeFailed: TooFewCalls"
    return ""


def gone(candidate: Candidate | None, failure: Failure) -> dict[str, Any]:
    """What the status says of a candidate whose engine has ended: the next start has the promoted drafter."""
    if candidate is None or candidate.state not in UNDECIDED:
        return {}
    crashed = candidate.swapped_at and failure.blame in {Blame.UNKNOWN, Blame.DRAFTER}
    message = f"the engine ended while it was the candidate: {failure.message}"
    return {"candidate": over(candidate, "EngineCrashed" if crashed else "EngineEnded", message)}


def over(candidate: Candidate, reason: str, message: str) -> Candidate:
    """Say of a candidate that it is no longer one: it went back if it served, and was refused if it never did."""
    served = bool(candidate.swapped_at)
    fields = {
        "state": CandidateState.SWAPPED_BACK if served else CandidateState.REFUSED,
        "reason": reason,
        "message": message[:MESSAGE_CHARACTERS],
        "back_at" if served else "refused_at": now_text(),
        "confirm_by": "",
    }
    return candidate.model_copy(update=fields)
