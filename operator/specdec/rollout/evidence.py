"""From what the agents report to verdicts by revision."""

from __future__ import annotations

from dataclasses import dataclass, field

from specdec.acceptance.before import Predecessor
from specdec.acceptance.deltas import deltas
from specdec.acceptance.judge import ROLLOUT, STEADY, Case, Floor, verdict
from specdec.acceptance.measure import SILENT_SECONDS, Ledger, Reading
from specdec.acceptance.tally import Tally
from specdec.acceptance.verdict import Doubt, Judgement, Verdict
from specdec.engine.protocol import ProbeResult, Source, Status
from specdec.rollout.beside import Beside
from specdec.rollout.clock import seconds
from specdec.rollout.quarantine import PROMOTED
from specdec.rollout.revisions import version
from specdec.rollout.scene import living_candidate
from specdec.rollout.stopwatch import Stopwatch
from specdec.rollout.world import Evidence, PodView, RevisionRecord, World

PROBE_ANSWER_SECONDS = 30.0
"""A probe that was asked for this long ago and not answered is asked for again."""
PROBE_FRESH_SECONDS = 600.0
"""What a probe showed holds for this long; while the suspicion lasts, another one is asked for."""
ENGINES_SILENT = Verdict(
    Judgement.UNKNOWN,
    Doubt.ENGINES_SILENT.value,
    f"no engine's agent answered for {SILENT_SECONDS:.0f} s: nothing is decided",
)


@dataclass(slots=True)
class Judge:
    """Remembers one server's counters between passes; losing them loses evidence, never safety."""

    ledger: Ledger = field(default_factory=Ledger)
    beside: Beside = field(default_factory=Beside)
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    since: float | None = None
    """When this process first judged, Unix seconds: nobody can have answered it before."""

    def evidence(self, world: World, now: float) -> Evidence:
        """Book what was heard and judge every revision that serves somewhere."""
        self.since = now if self.since is None else self.since
        readings = [
            Reading(pod.name, pod.status, pod.heard_at)
            for pod in world.pods
            if pod.status is not None and pod.heard_at is not None
        ]
        settled = frozenset(record.name for record in world.revisions if steady(world, record))
        before, self.ledger = self.ledger, self.ledger.take(readings, settled)
        done = deltas(before, self.ledger)
        self.beside = self.beside.fed(world, done, now)
        self.stopwatch = self.stopwatch.fed(world, done)
        silent = bool(world.pods) and all(_silent(pod, now, self.since) for pod in world.pods)
        served = serving(world)
        return {
            record.name: self.stopwatch.judged(
                world, record, ENGINES_SILENT if silent else self._judged(world, record, now)
            )
            for record in world.revisions
            if record.name in served
        }

    def _judged(self, world: World, record: RevisionRecord, now: float) -> Verdict:
        """Judge one revision."""
        steps = int(record.data.get("numSteps", 3))
        return verdict(
            Case(
                seen=self.ledger.measure(record.name, steps, now),
                floor=Floor.of(world.server.spec.acceptance, steps),
                probes=probes(world, record),
                levels=STEADY if steady(world, record) else ROLLOUT,
                probe_id=asked_probe(world, record.name, now),
                rival=self.beside.rival(world, record),
                predecessor=predecessor(world, record, self.ledger, steps, now),
            )
        )


def predecessor(
    world: World, record: RevisionRecord, ledger: Ledger, steps: int, now: float
) -> Predecessor | None:
    """Find what a candidate on the only engine is compared with: the promoted drafter that served until it came."""
    statuses = [pod.status for pod in world.pods if pod.status]
    if len(world.pods) != 1 or not statuses or world.launch_plan is None:
        return None
    status, active = statuses[0], world.launch_plan.revision
    promoted = next((other for other in world.revisions if other.name == active), None)
    found = living_candidate(status)
    if promoted is None or found is None or found.revision != record.name or record.name == active:
        return None
    if promoted.outcome != PROMOTED or promoted.data.get("numSteps") != record.data.get("numSteps"):
        return None
    return Predecessor(
        version=version(promoted),
        kept=1 - float(world.server.spec.acceptance.max_regression),
        seen=ledger.measure(active, steps, now).tally,
        probed=_probed(status, active, steps),
        candidate_probed=_probed(status, record.name, steps),
    )


def _probed(status: Status, revision: str, steps: int) -> Tally:
    """Pool the agent's own requests with one drafter since the engine started."""
    own = (Source.PROBE, revision, steps)
    return sum(
        (Tally.of(row) for row in status.counters if (row.source, row.revision, row.steps) == own), Tally()
    )


def steady(world: World, record: RevisionRecord) -> bool:
    """Whether a revision was promoted and is what engines start with: it is watched for ever."""
    launched = world.launch_plan is not None and world.launch_plan.revision == record.name
    return launched and record.outcome == PROMOTED


def serving(world: World) -> set[str]:
    """Revisions that serve on some pod, are a candidate there, or are what it starts with."""
    launched = {world.launch_plan.revision} if world.launch_plan else set()
    statuses = [pod.status for pod in world.pods if pod.status]
    candidates = {status.candidate.revision for status in statuses if status.candidate}
    return launched | candidates | {status.revision for status in statuses}


def probes(world: World, record: RevisionRecord) -> tuple[ProbeResult, ...]:
    """Take each pod's latest probe of a revision that serves there, from its present trial."""
    found = (_latest(pod, record) for pod in world.pods)
    return tuple(result for result in found if result is not None)


def asked_probe(world: World, revision: str, now: float) -> str:
    """Id of the probe that was asked for because of live traffic, while its answer counts."""
    asked = world.server.status.probe_asked
    return asked if asked_for(asked) == revision and now - asked_at(asked) <= PROBE_FRESH_SECONDS else ""


def probe_due(world: World, revision: str, now: float) -> bool:
    """Whether a probe must be asked for: none was, or nobody answered, or the answer is old.

    One revision at a time: the status remembers one probe.
    """
    last = world.server.status.probe_asked
    if asked_for(last) not in {"", revision} and now - asked_at(last) <= PROBE_ANSWER_SECONDS:
        return False
    asked = asked_probe(world, revision, now)
    if not asked:
        return True
    return not probe_answered(world, revision, now) and now - asked_at(asked) > PROBE_ANSWER_SECONDS


def probe_answered(world: World, revision: str, now: float) -> bool:
    """Whether the probe that was asked for because of live traffic was answered."""
    asked = asked_probe(world, revision, now)
    return any(
        pod.status and pod.status.probe and asked and pod.status.probe.id == asked for pod in world.pods
    )


def probe_id(revision: str, now: float) -> str:
    """Name a probe by what it is for and when it was asked for."""
    return f"{revision}/{int(now)}"


def asked_for(probe_id: str) -> str:
    """Revision that a probe is for."""
    return probe_id.rpartition("/")[0]


def asked_at(probe_id: str) -> float:
    """Unix seconds at which a probe was asked for."""
    digits = probe_id.rpartition("/")[2]
    return float(digits) if digits.isdigit() else 0.0


def _latest(pod: PodView, record: RevisionRecord) -> ProbeResult | None:
    status = pod.status
    if status is None or status.revision != record.name:
        return None
    candidate = living_candidate(status)
    since = candidate.swapped_at if candidate and candidate.revision == record.name else ""
    begun = max(seconds(since) or 0.0, (seconds(record.at) or 0.0) if not record.outcome else 0.0)
    results = [
        result
        for result in (status.warmup, status.probe)
        if result is not None and result.revision == record.name and (seconds(result.at) or begun) >= begun
    ]
    return max(results, key=lambda result: seconds(result.at) or 0.0, default=None)


def _silent(pod: PodView, now: float, since: float) -> bool:
    if pod.heard_at is None:
        return now - max(since, pod.created) > SILENT_SECONDS
    return float(now) - pod.heard_at > SILENT_SECONDS  # as in `Scene.heard`
