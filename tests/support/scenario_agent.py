"""A fake agent for scenarios: speaks `engine.protocol` in virtual time, with drafters of chosen quality."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.scenario_counters import drafted, finished, timed, waited

from specdec.api.preflight import Preflight, PreflightMode
from specdec.engine.protocol import (
    Agreement,
    Candidate,
    CandidateState,
    Command,
    Confirm,
    Counters,
    Drafting,
    Drain,
    LaunchPlan,
    Phase,
    PreflightResult,
    Probe,
    ProbeResult,
    Promote,
    Rollback,
    SetDrafting,
    Source,
    Speed,
    Status,
    Swap,
    WarmUp,
)
from specdec.rollout.clock import exact

START_SECONDS = 3.0
STAGE_SECONDS = 1.0
PROBE_CALLS = 40
BUSY_SECONDS = 5.0
CARRIED_SECONDS = 4.0
"""What is in flight at a resume ends within this time, evenly."""
HOLES = 0.3
"""What is left of a drafter's quality and speed on a request whose draft KV has holes."""


def judged(revision: str, wish: Preflight, model: Model | None, now: float) -> PreflightResult:
    """What the preflight finds in a folder."""
    code = model.fault if model else "FileMissing"
    known = [] if code in wish.skip_checks or not code else [[code, "E", f"found {code}", "none"]]
    report = {
        "engineVersion": "0.5.23", "findings": known, "more": 0, "repairs": [], "digests": {},
        "skipped": [code] if code and not known else [],
    }  # fmt: skip
    return PreflightResult(revision=revision, settings=wish.settings, at=exact(now), report=report)


ENGINE = "sglang-0.5.23-cpu"
LIVING = (CandidateState.STAGING, CandidateState.SWAPPING, CandidateState.PROBING, CandidateState.SERVING)


@dataclass(frozen=True)
class Model:
    """What a drafter folder holds."""

    quality: float = 1.0
    """Chance that one draft token is right."""
    refusal: str = ""
    """Reason for which an engine refuses to load it."""
    fault: str = ""
    """Code of the preflight's finding that blocks it."""
    contents: str = ""
    """What its digest is made from; its path by default."""
    speedup: float = 1.5
    """Speed of a request with drafting over that without."""
    probe_quality: float | None = None
    """Quality on the agent's own prompts, where users' texts are odd."""


@dataclass
class FakeAgent:
    """One pod's agent and engine."""

    uid: str
    plan: LaunchPlan
    models: dict[str, Model]
    """By the drafter's path; a folder that isn't here doesn't exist."""
    now: float
    rng: random.Random
    pace: random.Random = field(default_factory=lambda: random.Random(1))
    boot: int = 1
    promoted: str = ""
    serving: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    drafting: Drafting = Drafting.ON
    wanted: Drafting = Drafting.ON
    for_now: tuple[Drafting, float] | None = None
    """A mode ordered for a while, and when that ends."""
    dead: set[str] = field(default_factory=set)
    phase: Phase = Phase.STAGING
    reason: str = ""
    message: str = ""
    max_steps: int = 0
    assignment: int = 0
    candidate: Candidate | None = None
    preflight: PreflightResult | None = None
    probe: ProbeResult | None = None
    warmup: WarmUp | None = None
    counters: dict[str, Counters] = field(default_factory=dict)
    telling: Callable[[tuple[Counters, ...]], tuple[Counters, ...]] = tuple
    """What it makes of its counters before it tells them."""
    failure: tuple[str, str] | None = None
    """Reason and message for which every start fails."""
    plain: bool = True
    """Whether drafting off decodes as a server without a drafter."""
    busy: int = 4
    """Requests in flight while there is traffic."""
    resumed_at: float = 0.0
    """Since when it drafts again: what was in flight then has holes in its draft KV, and drafts badly."""
    served_at: float = 0.0
    deadline: float | None = None
    due: float = 0.0
    """When the phase or the candidate's state moves on."""

    def __post_init__(self) -> None:
        self.due = self.now + START_SECONDS
        self.assignment = self.plan.assignment

    def status(self) -> Status:
        """What `/status` answers."""
        drafts = self.max_steps and self.drafting is Drafting.ON
        return Status(
            serial=1,
            pod_uid=self.uid,
            boot=str(self.boot),
            phase=self.phase,
            reason=self.reason,
            message=self.message,
            engine=ENGINE,
            assignment=self.assignment,
            revision=self.serving,
            promoted=self.promoted,
            digest=self._digest(self.serving),
            target_digest="sha256:target",
            steps=self.max_steps if drafts else 0,
            max_steps=self.max_steps,
            drafting=Drafting.ON if drafts else Drafting.OFF,
            drafting_until=exact(self.for_now[1]) if self.for_now else "",
            in_flight=self.busy if self.now - self.served_at < BUSY_SECONDS else 0,
            candidate=self.candidate,
            preflight=self.preflight,
            probe=self.probe,
            warmup=self.warmup,
            plain=self.plain and bool(self.max_steps),
            load="14 of 16 tensors consumed by 12 parameters" if self.serving else "",
            counters=self.telling(tuple(self.counters.values())),
        )

    def tick(self, now: float) -> None:
        """Let time pass."""
        self.now = now
        if self.phase is not Phase.SERVING:
            if now >= self.due:
                self._started()
            return
        if self.candidate and self.candidate.state in LIVING and now >= self.due:
            self._candidate_moves_on(self.candidate)
        if self.for_now is not None and now > self.for_now[1]:
            self.for_now = None
            self._apply_drafting()
        if self.deadline is not None and now > self.deadline:
            self._back("NotConfirmed", "no Confirm came in time")

    def restart(self, plan: LaunchPlan) -> None:
        """Start the engine's process anew, as after a crash: counters begin at 0, the promoted drafter serves."""
        self.boot += 1
        self.plan, self.counters, self.deadline = plan, {}, None
        if self.candidate and self.candidate.state in LIVING:
            self._end("EngineEnded", "the engine ended while it was the candidate")
        self.phase, self.due = Phase.STAGING, self.now + START_SECONDS

    def serve(self, calls: int, ease: float = 1.0) -> None:
        """Serve one user's request to its end."""
        if self.phase is not Phase.SERVING or not self.max_steps:
            return
        self.served_at = self.now
        if self.drafting is Drafting.OFF:
            self._serve_plainly(3 * calls)
            return
        model = self.models[self.paths[self.serving]]
        carried = self.pace.random() > (self.now - self.resumed_at) / CARRIED_SECONDS
        source, left = (Source.CARRIED, HOLES) if carried else (Source.TRAFFIC, 1.0)
        right = drafted(self.rng, calls, self.max_steps, model.quality * ease * left)
        self._book(source, calls, right, model.speedup * left)

    def _book(self, source: Source, calls: int, right: list[int], speedup: float) -> None:
        """Count one finished request."""
        key = self.serving if source is Source.TRAFFIC else f"{self.serving} {source}"
        row = self.counters.get(key) or Counters(
            revision=self.serving, steps=self.max_steps, source=source, correct=(0,) * self.max_steps
        )
        self.counters[key] = finished(row, calls, right, waited(self.pace, calls + sum(right), speedup))

    def _serve_plainly(self, tokens: int) -> None:
        """Serve one request without drafting."""
        key = f"{self.serving} without drafting"
        row = self.counters.get(key) or Counters(revision=self.serving, steps=0, source=Source.TRAFFIC)
        self.counters[key] = timed(row, tokens, waited(self.pace, tokens, 1.0))

    def take(self, command: Command, assignment: int) -> None:
        """Do what the operator says."""
        self.assignment = max(self.assignment, assignment)
        match command:
            case Swap():
                self._swap(command)
            case Confirm() if self._carries(command.revision):
                self.deadline = self.now + command.within_seconds
            case Promote() if self._carries(command.revision):
                self.promoted, self.deadline = command.revision, None
                self._note(state=CandidateState.PROMOTED)
            case Rollback():
                self._leave(command)
            case SetDrafting():
                self.for_now = (
                    (command.drafting, self.now + command.for_seconds) if command.for_seconds else None
                )
                self.wanted = self.wanted if self.for_now else command.drafting
                self._apply_drafting()
            case Probe():
                self._probe(command)
            case Drain():
                self.phase = Phase.DRAINING
            case _:
                pass  # refused: it does not serve as a candidate

    def _carries(self, revision: str) -> bool:
        serves = self.candidate is not None and self.candidate.state is CandidateState.SERVING
        return serves and self.serving == revision

    def _probe(self, command: Probe) -> None:
        self.probe = self._probed(command.revision, command.id)
        if self.probe.passed:
            self.dead.discard(command.revision)
        self._apply_drafting()

    def _started(self) -> None:
        if self.failure is not None:
            self.phase, (self.reason, self.message) = Phase.FAILED, self.failure
            self.due = self.now + START_SECONDS
            return
        self.promoted = self.serving = self.plan.revision
        self.wanted, self.for_now, self.max_steps = self.plan.drafting, None, 0
        self.reason = self.message = ""
        drafter = self.plan.drafter
        self.phase = Phase.SERVING
        if drafter is None:
            self.serving = ""
            return
        self.paths[drafter.revision] = drafter.path
        model = self.models.get(drafter.path)
        refused = self._refused(drafter.revision, self.plan.preflight)
        if model is None or refused:
            self.serving = ""
            self.reason = refused if model else "FileMissing"
            self.message = f"started without the drafter: {drafter.path} " + (
                "is refused" if model else "is no folder: check the claim and the path"
            )
            return
        self.max_steps = self.plan.num_steps
        self.warmup = self._warmed(drafter.revision)
        if not self.warmup.passed:
            self.dead.add(drafter.revision)
            self.reason, self.message = "DeadDrafter", "drafting is off: no drafts are accepted"
        self._apply_drafting()

    def _refused(self, revision: str, wish: Preflight) -> str:
        """Judge a folder as the spec wishes, then load it; says for which reason it is refused."""
        model = self.models.get(self.paths[revision])
        if model is None:
            return "FileMissing"
        if wish.mode is not PreflightMode.OFF:
            self.preflight = judged(revision, wish, model, self.now)
            if model.fault and wish.mode is PreflightMode.ENFORCE and model.fault not in wish.skip_checks:
                return model.fault
        return model.refusal or ("TensorsNotConsumed" if model.fault else "")

    def _swap(self, command: Swap) -> None:
        drafter = command.drafter
        self.paths[drafter.revision] = drafter.path
        self.candidate = Candidate(revision=drafter.revision, state=CandidateState.STAGING)
        self.deadline = None
        self.due = self.now + STAGE_SECONDS
        self._confirm_within = command.confirm_within_seconds
        self._wish = command.preflight

    def _candidate_moves_on(self, now: Candidate) -> None:
        model = self.models.get(self.paths[now.revision])
        staging = now.state is CandidateState.STAGING
        refused = self._refused(now.revision, self._wish) if staging else ""
        match now.state:
            case CandidateState.STAGING if model is None:
                self._note(
                    state=CandidateState.REFUSED,
                    reason="FileMissing",
                    message="is no folder",
                    refused_at=exact(self.now),
                )
                self.serving = self.promoted
            case CandidateState.STAGING if refused:
                self._note(
                    state=CandidateState.REFUSED,
                    reason=refused,
                    message="24 tensors of the checkpoint fit no parameter",
                    digest=self._digest(now.revision),
                    refused_at=exact(self.now),
                )
                self.serving = self.promoted
            case CandidateState.STAGING:
                self._note(state=CandidateState.SWAPPING, digest=self._digest(now.revision))
            case CandidateState.SWAPPING:
                self.serving = now.revision
                self._note(state=CandidateState.PROBING, swapped_at=exact(self.now), swap_seconds="0.240")
                self.deadline = self.now + self._confirm_within
            case CandidateState.PROBING:
                self.probe = self._probed(now.revision, "")
                if self.probe.passed:
                    self._note(state=CandidateState.SERVING)
                else:
                    self._back("ProbeFailed: DeadDrafter", self.probe.message)
            case _:
                pass

    def _leave(self, command: Rollback) -> None:
        if self.candidate and self.candidate.revision == command.revision and self.candidate.state in LIVING:
            self._back(command.reason, "the operator asked for it")

    def _back(self, reason: str, message: str) -> None:
        self.serving, self.deadline = self.promoted, None
        self._end(reason, message)
        self._apply_drafting()

    def _end(self, reason: str, message: str) -> None:
        served = bool(self.candidate and self.candidate.swapped_at)
        state = CandidateState.SWAPPED_BACK if served else CandidateState.REFUSED
        more = (
            {"back_at": exact(self.now), "back_seconds": "0.410"}
            if served
            else {"refused_at": exact(self.now)}
        )
        self._note(state=state, reason=reason, message=message, **more)

    def _note(self, **fields: object) -> None:
        assert self.candidate is not None
        self.candidate = self.candidate.model_copy(update=fields)

    def _apply_drafting(self) -> None:
        dead = self.serving in self.dead
        wanted = Drafting.OFF if dead else self.for_now[0] if self.for_now else self.wanted
        resumed = wanted is Drafting.ON and self.drafting is Drafting.OFF
        if resumed and self.now - self.served_at < BUSY_SECONDS:
            self.resumed_at = self.now
        self.drafting = wanted

    def _probed(self, revision: str, identity: str) -> ProbeResult:
        model = self.models[self.paths[revision]]
        quality = model.quality if model.probe_quality is None else model.probe_quality
        length = sum(quality**k for k in range(4))
        key = f"{revision} in probes"
        row = self.counters.get(key) or Counters(
            revision=revision, steps=self.plan.num_steps, source=Source.PROBE, correct=(0, 0, 0)
        )
        right = tuple(a + round(PROBE_CALLS * quality**k) for k, a in enumerate(row.correct, 1))
        self.counters[key] = row.model_copy(update={"calls": row.calls + PROBE_CALLS, "correct": right})
        return ProbeResult(
            id=identity,
            revision=revision,
            passed=quality > 0.1,
            accept_length=f"{length:.3f}",
            calls=PROBE_CALLS,
            message=f"{round(PROBE_CALLS * quality)} of {PROBE_CALLS} verify calls had a right first draft token",
            at=exact(self.now),
        )

    def _warmed(self, revision: str) -> WarmUp:
        probed = self._probed(revision, "warmup").model_dump()
        speeds = (Speed(batch=1, on="98.4", off="41.7"), Speed(batch=4, on="301.2", off="152.9"))
        return WarmUp.model_validate(probed | {"speeds": speeds, "answers": Agreement.SAME})

    def _digest(self, revision: str) -> str:
        path = self.paths.get(revision, "")
        model = self.models.get(path)
        return f"sha256:{model.contents or path}" if model else ""
