"""One start of SGLang, from staging to its first requests; every wait has a deadline and a name."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import shutil
import sys
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from specdec.engine.agent.board import LOAD_CHARACTERS, shortened
from specdec.engine.agent.candidacy import DEAD, Candidacy
from specdec.engine.agent.child import Child
from specdec.engine.agent.diagnosis import diagnose, telling
from specdec.engine.agent.failures import Blame, Failure, StartFailedError, blamed, failed
from specdec.engine.agent.judging import PreflightRefusedError, Surroundings, survey
from specdec.engine.agent.ladder import RUNGS, Attempt
from specdec.engine.agent.launch import (
    ADAPTIVE_FILE,
    DEFAULTS,
    Launch,
    LaunchRefusedError,
    Profile,
    Secrets,
    render,
)
from specdec.engine.agent.loopback_client import EngineUnreachableError, Loopback, OrderRefusedError
from specdec.engine.agent.oom import oom_kills
from specdec.engine.agent.orphans import end_strays
from specdec.engine.agent.prompts import LONGEST_PROMPT, PROMPTS, given
from specdec.engine.agent.slot import DrafterSlot, Staged, described, link, still
from specdec.engine.agent.staging import content_digest, inside, same_contents
from specdec.engine.agent.times import now_text
from specdec.engine.agent.volumes import on_volume
from specdec.engine.agent.warmup import Baseline, noting
from specdec.engine.loopback import START_REPORT, Report, StartReport
from specdec.engine.plugin import DRAFTER_PATCHES, PATCHES
from specdec.engine.protocol import NOT_THERE, Drafting, LaunchPlan, Phase
from specdec.preflight.arguments import Arguments, parsed
from specdec.preflight.checkpoint import CheckpointRefusedError
from specdec.preflight.digest import header_digest

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from specdec.engine.agent.board import Board
    from specdec.engine.agent.phases import Mark
    from specdec.engine.agent.plan import Obeyed
    from specdec.engine.agent.probe import Finding
    from specdec.engine.agent.settings import Settings
    from specdec.engine.agent.staging import Overlay

log = logging.getLogger("specdec.agent")
Result = TypeVar("Result")

TARGET_SECONDS = 120.0
"""Deadline for reading the target's headers."""
WATCH_SECONDS = 0.05
LAST_WORDS_SECONDS = 3.0
"""A dying SGLang drops its connections before its exit and its last lines are known."""
BOOT = re.compile("[0-9a-f]{8}")
"""Name of one start and of its folder below the run folder."""


@dataclass(frozen=True)
class Running:
    """An engine that serves."""

    child: Child
    loopback: Loopback
    candidacy: Candidacy | None
    """None if it was started without a drafter: nothing can be swapped."""


class Start:
    """One start, with what it holds; `child` is there as soon as there is something to stop."""

    def __init__(
        self, settings: Settings, profile: Profile, plan: LaunchPlan, obeyed: Obeyed, board: Board
    ) -> None:
        self.child: Child | None = None
        self.phase_when_up = Phase.SERVING
        """Draining, if a drain was asked for before this start was done."""
        self.loopback: Loopback | None = None
        self.settings = settings
        self.profile = profile
        self.plan = plan.model_copy(update={"revision": obeyed.revision, "drafter": obeyed.drafter})
        self.drafting = obeyed.drafting
        self.board = board
        self.boot = secrets.token_hex(4)
        self.run_dir = settings.run_dir / self.boot
        self._around: Surroundings | None = None
        self._prompts: tuple[str, ...] = PROMPTS
        self._overlay: Overlay | None = None
        self._digest: asyncio.Task[str] | None = None
        self._oom_kills = oom_kills()
        self._load = ""
        """How SGLang read the drafter, in a sentence."""

    async def up(self, attempt: Attempt, why_not: Failure | None) -> Running:
        """Start until it serves; `why_not` says why this attempt leaves the drafter out.

        Raises
        ------
        StartFailedError
            It did not come to serve; `child` may still have to be stopped.
        """
        self.board.change(phase=Phase.STAGING, boot=self.boot, revision="", digest="", steps=0, drafting=Drafting.OFF,
                          reason="", message="reading the target's headers", warmup=None, load="", plain=False, rung=RUNGS[attempt.rung].name, progress_at=now_text())  # fmt: skip
        await self._check_target()
        if attempt.with_drafter and self.plan.drafter is not None:
            why_not = await self._stage_drafter()
        child = await self._launch(attempt)
        loopback = self.loopback
        if loopback is None:
            raise RuntimeError("a launched engine has a loopback")
        report = await self._unless_ended(child, self._until_up(child, loopback))
        self._refuse_unpatched(report)
        finding = await self._unless_ended(child, self._warm_up(loopback, report))
        await self._unless_ended(child, loopback.freeze_gc())
        candidacy = await self._unless_ended(child, self._candidacy(loopback, finding))
        self._say_serving(finding, why_not)
        return Running(child, loopback, candidacy)

    async def _check_target(self) -> None:
        """Read the target's headers: a broken target must not cost a start."""
        try:
            found = await on_volume(TARGET_SECONDS, self._survey)
        except CheckpointRefusedError as refusal:
            missing = refusal.reason in NOT_THERE
            reason = "TargetNotFound" if missing else f"Target{refusal.reason}"
            raise failed(reason, str(refusal)) from refusal
        except TimeoutError as error:
            raise failed(
                "TargetVolumeHangs",
                f"{self.plan.target_path} could not be read within {TARGET_SECONDS:.0f} s: check the volume",
            ) from error
        except OSError as error:
            raise failed(
                "TargetNotReadable", f"{self.plan.target_path} can't be read ({error}): check the volume"
            ) from error
        self.board.change(target_digest=found, message="staging the drafter")

    def _survey(self) -> str:
        folder = inside(self.settings.models_dir, self.plan.target_path)
        digest = header_digest(folder)
        arguments = (*self.profile.args, *self.plan.arguments)
        try:
            self._around = survey(
                folder, self.profile.version, arguments, self.profile.env, self.plan.num_steps
            )
        except Exception:
            log.exception("the preflight failed on %s: drafters are served unjudged", folder)
        return digest

    async def _stage_drafter(self) -> Failure | None:
        drafter = self.plan.drafter
        if drafter is None:
            return None
        wish = self.plan.preflight
        try:
            self._overlay = await link(
                self.settings.state_dir, self.settings.models_dir, drafter, self._around, wish
            )
        except CheckpointRefusedError as refusal:
            if isinstance(refusal, PreflightRefusedError):
                self.board.judged(refusal.report, drafter.revision, wish)
            return Failure(refusal.reason, str(refusal), blamed(refusal.reason))
        if self._overlay.report is not None:
            self.board.judged(self._overlay.report, drafter.revision, wish)
        for repair in self._overlay.repairs:
            log.info("drafter %s: %s", drafter.revision, repair)
        # Beside the start, not before it: SGLang needs longer to read the target.
        self._digest = asyncio.create_task(content_digest(self._overlay))
        return None

    async def _launch(self, attempt: Attempt) -> Child:
        plan, profile = self.plan, self.profile
        if self._overlay is not None:
            extra = self._overlay.arguments
            plan = plan.model_copy(update={"arguments": (*plan.arguments, *extra)})
            profile = profile.model_copy(update={"env": {**profile.env, **dict(self._overlay.environment)}})
        own = Secrets(loopback=secrets.token_urlsafe(24), probe_prefix=f"specdec-{secrets.token_hex(8)}-")
        try:
            launch = render(
                plan,
                profile,
                python=sys.executable,
                overlay=self._overlay.folder if self._overlay else None,
                drafting=self.drafting,
                address=(self.settings.engine_host, self.settings.engine_port),
                run_dir=self.run_dir,
                secrets=own,
                rung=RUNGS[attempt.rung],
                environ=os.environ,
            )
            if left := await asyncio.to_thread(end_strays, self.settings.run_dir):
                log.warning("killed %d processes of an earlier start: %s", len(left), sorted(left))
            await asyncio.to_thread(_prepare, self.run_dir, launch)
            child = self.child = Child.start(launch, self._mark)
        except LaunchRefusedError as error:
            raise failed("PlanRefused", str(error)) from error
        except OSError as error:
            raise failed(
                "NotStarted", f"SGLang could not be started ({error}): is this an engine image?"
            ) from error
        self.loopback = Loopback(self.run_dir, self.settings.engine_port, own, self.plan.served_name)
        log.info("started SGLang as process %d, boot %s: %s", child.pid, self.boot, " ".join(launch.argv))
        if (rung := RUNGS[attempt.rung]).name:
            log.info("rung %s of the start-up ladder: %s", rung.name, rung.why)
        self.board.change(
            phase=Phase.LOADING_WEIGHTS, message="SGLang's process was started", progress_at=now_text()
        )
        return child

    def _mark(self, mark: Mark) -> None:
        if self.board.status.phase in {Phase.STAGING, Phase.LOADING_WEIGHTS, Phase.CAPTURING_GRAPHS}:
            self.board.change(phase=mark.phase, message=mark.detail, progress_at=now_text())

    async def _until_up(self, child: Child, loopback: Loopback) -> Report:
        """Wait until web app and plugin answer; a start without progress for too long has failed."""
        socket = self.run_dir / "scheduler-0.sock"
        while not (socket.exists() and await loopback.answers()):
            idle = time.monotonic() - child.progress_at
            if idle > self.plan.stall_seconds:
                raise stalled(child.mark, idle)
            await asyncio.sleep(WATCH_SECONDS)
        try:
            return await loopback.report()
        except EngineUnreachableError as error:
            raise failed("PluginSilent", str(error)) from error

    def diagnosis(self, child: Child) -> Failure:
        """Say why SGLang ended."""
        try:
            report = StartReport.model_validate_json((self.run_dir / START_REPORT).read_bytes())
        except (OSError, ValidationError):
            report = None
        killed = oom_kills() > self._oom_kills
        return diagnose(tuple(child.tail), child.exited.result(), report, oom_killed=killed)

    def with_lines(self, failure: Failure) -> Failure:
        """Add what SGLang said last, where the failure is not read from it."""
        if failure.lines or self.child is None:
            return failure
        return replace(failure, lines=telling(tuple(self.child.tail)))

    def _refuse_unpatched(self, report: Report) -> None:
        wanted = {*PATCHES, *(DRAFTER_PATCHES if self._overlay else ())}
        missing = sorted(wanted - set(report.patches))
        if missing:
            raise failed(
                "PatchNotInForce",
                f"SGLang {report.sglang} runs without {', '.join(missing)}, expected all patches: use a supported image",
            )
        self.board.change(
            engine=f"sglang-{report.sglang}+{self.profile.platform}+specdec-{version('specdec-operator')}",
            max_steps=max(report.states, default=0),
            plain=report.plain,
        )

    async def _warm_up(self, loopback: Loopback, report: Report) -> Finding:
        limit = self.plan.warmup_seconds
        waits = f"sending own requests for at most {limit} s"
        self.board.change(phase=Phase.WARMING_UP, message=waits, progress_at=now_text())
        self._prompts, why_own = await asyncio.to_thread(given, self.settings.prompts_dir)
        sees = self._around is not None and self._around.sees
        baseline = Baseline(loopback, report.revision, report.steps, *self._bounds(), self._prompts, sees)
        try:
            finding, warmup = await baseline.measure(limit)
        except (EngineUnreachableError, OrderRefusedError) as error:
            raise failed("WarmUpFailed", str(error), Blame.UNKNOWN) from error
        if not finding.answered:
            said = finding.result.message or f"no answer within {limit} s, expected one"
            raise failed("WarmUpFailed", said, Blame.UNKNOWN)
        self._load = report.load.sentence if report.load else ""
        self.board.change(warmup=noting(warmup, why_own))
        return finding

    def _bounds(self) -> tuple[int, int]:
        """Requests that the engine decodes at once, and tokens that one of them may have."""
        given = Arguments(parsed((*self.profile.args, *self.plan.arguments)))
        running = given.number("--max-running-requests") or int(dict(DEFAULTS)["--max-running-requests"])
        sizes = [given.number(name) for name in ("--context-length", "--max-total-tokens")]
        return running, min((size for size in sizes if size), default=LONGEST_PROMPT * 4)

    async def _candidacy(self, loopback: Loopback, finding: Finding) -> Candidacy | None:
        """Hand the running engine over to swaps, with a dead drafter switched off."""
        overlay, digest = self._overlay, self._digest
        if overlay is None or digest is None:
            return None
        try:
            found = await digest
            await still(overlay)
            await asyncio.to_thread(same_contents, self.settings.state_dir, overlay.drafter, found)
        except CheckpointRefusedError as refusal:
            raise failed(refusal.reason, str(refusal), blamed(refusal.reason)) from refusal
        load = shortened(described(self._load, overlay), LOAD_CHARACTERS)
        self.board.change(revision=overlay.drafter.revision, digest=found, load=load)
        slot = DrafterSlot(
            loopback,
            self.settings.state_dir,
            self.settings.models_dir,
            self.plan.num_steps,
            around=self._around,
            first=overlay,
        )
        candidacy = Candidacy(
            slot,
            self.board,
            Staged(overlay, found, load=load),
            drafting=self.drafting,
            dead=finding.dead,
            degenerate=finding.degenerate,
            prompts=self._prompts,
        )
        try:
            await candidacy.apply_drafting()
        except (EngineUnreachableError, OrderRefusedError) as error:
            raise failed("DraftingNotSet", str(error)) from error
        return candidacy

    def _say_serving(self, finding: Finding, why_not: Failure | None) -> None:
        said: dict[str, Any] = {"reason": "", "message": ""}
        if finding.dead and self._overlay is not None:
            said = {"reason": DEAD, "message": f"drafting is off: {finding.result.message}"}
        elif why_not is not None:
            said = {"reason": why_not.reason, "message": f"started without the drafter: {why_not.message}"}
        self.board.change(phase=self.phase_when_up, progress_at=now_text(), **said)

    async def _unless_ended(self, child: Child, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for work, but not longer than SGLang lives; its end explains more than what failed by it."""
        task = asyncio.create_task(work)
        ended = asyncio.create_task(child.ended())
        try:
            await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and task.exception() is not None:
                await asyncio.wait({ended}, timeout=LAST_WORDS_SECONDS)
            if ended.done():
                raise StartFailedError(self.diagnosis(child))
            return task.result()
        finally:
            for waiting in (task, ended):
                waiting.cancel()
            await asyncio.gather(task, ended, return_exceptions=True)

    async def down(self) -> None:
        """Stop what this start holds."""
        if self._digest is not None:
            self._digest.cancel()
            await asyncio.gather(self._digest, return_exceptions=True)
        if self.loopback is not None:
            await self.loopback.close()
        if self.child is not None:
            await self.child.stop()


def stalled(mark: Mark, idle: float) -> StartFailedError:
    """Say that a start makes no progress; stuck graph capture takes the next rung."""
    blame = Blame.GRAPHS if mark.phase is Phase.CAPTURING_GRAPHS else Blame.UNKNOWN
    return failed(
        "StartStalled",
        f"no progress for {idle:.0f} s in {mark.phase.value} after: {mark.detail[:120]}; see the container's log",
        blame,
    )


def _prepare(run_dir: Path, launch: Launch) -> None:
    """Make the new run folder and drop those of earlier starts.

    Raises
    ------
    StartFailedError
        The pod's volume does not take it.
    """
    try:
        run_dir.parent.mkdir(parents=True, exist_ok=True)
        for old in run_dir.parent.iterdir():
            if BOOT.fullmatch(old.name):
                shutil.rmtree(old, ignore_errors=True)
        run_dir.mkdir(mode=0o700)
        (run_dir / ADAPTIVE_FILE).write_text(launch.adaptive)
    except OSError as error:
        raise failed(
            "RunFolderNotWritten", f"{run_dir} could not be written ({error}): see the pod's volume"
        ) from error
