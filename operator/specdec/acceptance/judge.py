"""Verdict on one drafter from one measurement and its probes.

The error budget of a rollout is one number, `ROLLOUT.alpha` = 1e-3: the chance that a drafter at its floor is taken
away, however long and however often it is looked at. It is spent on two independent looks. Live traffic
raises a suspicion (`Levels.suspicion`, at any time); a probe must then agree (`Levels.probe`). A probe that
is merely below the floor agrees only once live traffic alone is beyond doubt (`Levels.alone`). A probe at or
above the floor keeps the drafter, whatever the traffic: else one tenant with random text forces a rollback.

A candidate is also compared with the active drafter where both serve side by side (`compare`, `Levels.paired`):
that needs no probe, since both get the same traffic, and where they do not (`routing`) nothing is decided. On a
single engine it is compared with what served before it (`before`), and a probe must agree.

Healthy means: enough distinct requests, no suspicion, and an accept length at or above the floor. How long
that must hold before a promotion is the planner's `minSoakSeconds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specdec.acceptance.before import Predecessor, length
from specdec.acceptance.compare import Comparison
from specdec.acceptance.measure import Measurement, PodState
from specdec.acceptance.routing import Dealt
from specdec.acceptance.sequential import below, probe_doubt
from specdec.acceptance.verdict import Doubt, Judgement, Layer, Verdict
from specdec.api.v1alpha1 import Acceptance
from specdec.engine.protocol import ProbeResult

DEAD_LENGTH = 1.1
"""Below this accept length a drafter is dead: no published one breaks even under 1.12."""

PROBE_CALLS = 40
"""Fewest verify calls of a probe that says anything."""

PROBE_DEAD = 1.3
"""A failed probe of a higher accept length failed for another reason: its answers only repeated themselves."""

LEANING = 0.05
"""Probes of candidate and predecessor that leave less doubt than this keep a suspicion up: another probe is asked for."""


@dataclass(frozen=True)
class Levels:
    """How much doubt each look may leave; their sum is the budget."""

    suspicion: float
    """Live traffic, before a probe is asked for."""
    probe: float
    """The probe, given a suspicion."""
    alone: float
    """Live traffic, where the probe only leans the same way."""
    lean: float = 1.0
    """What the probe may leave where live traffic alone is beyond doubt; 1: below the limit at all."""
    paired: float = 0.0
    """Candidate against active; 0 where there is no candidate."""

    @property
    def probed_before(self) -> float:
        """What the probes of a candidate and of what served before it may leave, given a suspicion; they spend `paired`."""
        return self.paired / self.suspicion

    @property
    def alpha(self) -> float:
        """Chance that a drafter at its floor, and as good as the active one, is taken away."""
        return self.suspicion * self.probe + self.alone + self.paired


ROLLOUT = Levels(suspicion=0.1, probe=0.009, alone=5e-5, paired=5e-5)
"""A candidate: alpha = 1e-3 for the whole rollout."""

STEADY = Levels(suspicion=1e-4, probe=0.009, alone=1e-7, lean=0.02)
"""The active drafter: alpha = 1e-6 for each window, since windows go on for ever.

So do probes while hard traffic lasts, and one in seven of a drafter a standard deviation above its floor is
below it: a leaning probe must be more than that.
"""


@dataclass(frozen=True)
class Floor:
    """What the user asks of a drafter."""

    length: float | None = None
    """Lowest accept length."""
    min_requests: int = 4

    @classmethod
    def of(cls, acceptance: Acceptance, steps: int) -> Floor:
        """Read the spec; of a length and a rate the stricter counts."""
        wanted = [float(acceptance.min_accept_length)] if acceptance.min_accept_length else []
        if acceptance.min_accept_rate:
            wanted.append(1 + float(acceptance.min_accept_rate) * steps)
        return cls(max(wanted, default=None), acceptance.min_requests)

    def impossible(self, steps: int) -> str:
        """Say why no drafter can reach the floor; "" if one can."""
        if self.length is None or self.length <= steps + 1:
            return ""
        return (
            f"the floor on the accept length is {self.length:.2f}, but with numSteps = {steps} the most that"
            f" a drafter can reach is {steps + 1}: lower the floor or raise numSteps"
        )


@dataclass(frozen=True)
class Rival:
    """The active drafter, which serves beside a candidate."""

    version: str
    comparison: Comparison
    dealt: Dealt
    """How traffic reaches the engines."""
    serves: bool = True
    """Whether it serves on an engine still: else nothing more will be compared."""


@dataclass(frozen=True)
class Case:
    """Everything that one verdict weighs."""

    seen: Measurement
    floor: Floor
    probes: Sequence[ProbeResult] = ()
    """The agents' last probes of this drafter."""
    levels: Levels = ROLLOUT
    probe_id: str = ""
    """Id of the probe that was asked for because of live traffic; "" if none was or it is old."""
    rival: Rival | None = None
    """Of a candidate: what it is compared with."""
    predecessor: Predecessor | None = None
    """Of a candidate on the only engine: what served there before it."""


def verdict(case: Case) -> Verdict:
    """Judge one drafter; layers in order, fastest first."""
    return (
        _probe_failed(case)
        or _untrusted(case.seen)
        or _suspected(case, DEAD_LENGTH, Layer.DEAD_DRAFTER)
        or _suspected(case, case.floor.length, Layer.BELOW_FLOOR)
        or _worse(case)
        or _worse_than_before(case)
        or _too_little(case.seen, case.floor)
        or _doubtful(case.seen, case.floor)
        or _behind(case)
        or _healthy(case.seen, case.floor)
    )


def _probe_failed(case: Case) -> Verdict | None:
    """Find the agent's own requests barely accepted: that is not the traffic's fault."""
    failed = next((probe for probe in case.probes if _dead(probe)), None)
    if failed is None:
        return None
    message = f"the probe failed: accept length {failed.accept_length} over {failed.calls} verify calls"
    return _say(case.seen, Judgement.UNHEALTHY, Layer.DEAD_DRAFTER, message)


def _untrusted(seen: Measurement) -> Verdict | None:
    """Hold where no engine can be believed."""
    if seen.all_pods(PodState.SILENT):
        return _say(
            seen, Judgement.UNKNOWN, Doubt.ENGINES_SILENT, "no engine's agent answers: nothing is decided"
        )
    if seen.all_pods(PodState.IMPOSSIBLE):
        return _say(
            seen, Judgement.UNKNOWN, Doubt.COUNTERS_IMPOSSIBLE, f"{seen.lie}: these counters count nothing"
        )
    return None


def _suspected(case: Case, limit: float | None, layer: Layer) -> Verdict | None:
    """Find live traffic below a limit, and weigh it against the probe that was asked for."""
    seen, levels = case.seen, case.levels
    if limit is None or seen.tally.requests < case.floor.min_requests:
        return None
    if not below(seen.tally, limit, seen.steps, levels.suspicion):
        return None
    compared = f"{_length(seen)} < {limit:.2f} {_window(seen)}"
    suspicion = replace(_say(seen, Judgement.UNHEALTHY, layer, compared), needs_probe=True)
    asked = [probe for probe in case.probes if case.probe_id and probe.id == case.probe_id and probe.calls]
    if not asked:
        return suspicion
    length, calls = _pooled(asked)
    if length >= limit:
        message = (
            f"{compared}, but the probe's was {length:.2f} over {calls} verify calls: the drafter is kept"
        )
        return _say(seen, Judgement.UNKNOWN, Doubt.PROBE_CONTRADICTS, message)
    doubt = probe_doubt(length, calls, limit, seen.steps)
    leans = doubt <= levels.lean and below(seen.tally, limit, seen.steps, levels.alone)
    if doubt <= levels.probe or leans:
        return _say(seen, Judgement.UNHEALTHY, layer, compared)
    return suspicion


def _worse(case: Case) -> Verdict | None:
    """Find a candidate worse than the active drafter on the same traffic."""
    rival = case.rival
    if rival is None or not rival.comparison.worse(case.levels.paired):
        return None
    compared = _beside(rival)
    match rival.dealt:
        case Dealt.EVENLY:
            return _say(case.seen, Judgement.UNHEALTHY, Layer.WORSE_THAN_ACTIVE, compared)
        case Dealt.STICKY:
            message = f"{compared}, but engines with equal drafters differ too: requests stick to engines"
            return _say(case.seen, Judgement.UNKNOWN, Doubt.STICKY_ROUTING, message)
        case Dealt.UNCHECKED:
            message = f"{compared}, but whether all engines get the same traffic was not seen for long enough"
            return _say(case.seen, Judgement.UNKNOWN, Doubt.ROUTING_UNCHECKED, message)


def _worse_than_before(case: Case) -> Verdict | None:
    """Find a candidate below what served before it on the same engine, on users' requests and on the agent's own."""
    seen, before = case.seen, case.predecessor
    if before is None or before.limit is None or not case.levels.paired:
        return None
    if min(seen.tally.requests, before.seen.requests) < case.floor.min_requests:
        return None
    if not below(seen.tally, before.limit, seen.steps, case.levels.suspicion):
        return None
    compared = f"{_length(seen)} < {before.kept:.2f} x {before.limit / before.kept:.2f} of {before.version} before it {_window(seen)}"
    asked = any(case.probe_id and probe.id == case.probe_id and probe.calls for probe in case.probes)
    doubt = before.doubt(seen.steps)
    if asked and doubt > LEANING:
        return None  # the same prompts show no such difference: the traffic is another
    if not asked or doubt > case.levels.probed_before:
        said = _say(seen, Judgement.UNHEALTHY, Layer.WORSE_THAN_ACTIVE, compared)
        return replace(said, needs_probe=True)
    probed = f"{length(before.candidate_probed):.2f} and {length(before.probed):.2f} in the probes"
    return _say(seen, Judgement.UNHEALTHY, Layer.WORSE_THAN_ACTIVE, f"{compared}; {probed}")


def _behind(case: Case) -> Verdict | None:
    """Hold back a good word while the candidate is behind the active drafter and more can be known."""
    rival = case.rival
    if rival is None or not rival.serves or rival.dealt is not Dealt.EVENLY or not rival.comparison.behind:
        return None
    message = f"{_beside(rival)}, which chance can explain"
    return _say(case.seen, Judgement.UNKNOWN, Doubt.NEAR_ACTIVE, message)


def _too_little(seen: Measurement, floor: Floor) -> Verdict | None:
    """Say nothing on few requests."""
    requests = seen.tally.requests
    if requests >= floor.min_requests:
        return None
    if not requests:
        message = "no user's request was finished with this drafter yet"
        return _say(seen, Judgement.UNKNOWN, Doubt.NO_TRAFFIC, message)
    message = f"{requests} of the {floor.min_requests} distinct requests that a verdict needs"
    return _say(seen, Judgement.UNKNOWN, Doubt.INSUFFICIENT_DATA, message)


def _doubtful(seen: Measurement, floor: Floor) -> Verdict | None:
    """Hold back a good word while an engine lies or the floor is not reached."""
    if PodState.IMPOSSIBLE in seen.pods.values():
        return _say(
            seen, Judgement.UNKNOWN, Doubt.COUNTERS_IMPOSSIBLE, f"{seen.lie}: its counters count nothing"
        )
    length = seen.tally.accept_length
    if floor.length is not None and length is not None and length < floor.length:
        message = f"{_length(seen)} < {floor.length:.2f} {_window(seen)}, which chance can explain"
        return _say(seen, Judgement.UNKNOWN, Doubt.NEAR_FLOOR, message)
    return None


def _healthy(seen: Measurement, floor: Floor) -> Verdict:
    if floor.length is None:
        return _say(seen, Judgement.HEALTHY, Layer.ALIVE, f"{_length(seen)} {_window(seen)}")
    message = f"{_length(seen)} >= {floor.length:.2f} {_window(seen)}"
    return _say(seen, Judgement.HEALTHY, Layer.ABOVE_FLOOR, message)


def _dead(probe: ProbeResult) -> bool:
    """Whether a probe failed for want of accepted drafts, and not for want of calls or for odd answers."""
    return not probe.passed and probe.calls >= PROBE_CALLS and float(probe.accept_length or "1") < PROBE_DEAD


def _pooled(probes: Sequence[ProbeResult]) -> tuple[float, int]:
    calls = sum(probe.calls for probe in probes)
    return sum(float(probe.accept_length or "1") * probe.calls for probe in probes) / calls, calls


def _length(seen: Measurement) -> str:
    return f"accept length {seen.tally.accept_length or 1:.2f}"


def _beside(rival: Rival) -> str:
    """Say how the two compare."""
    found = rival.comparison
    mine, theirs = found.lengths
    return (
        f"accept length {mine:.2f} < {found.kept:.2f} x {theirs:.2f} of {rival.version}"
        f" beside it, over {found.requests} requests"
    )


def _window(seen: Measurement) -> str:
    return f"over {seen.tally.requests} requests ({seen.tally.finished_calls} verify calls)"


def _say(seen: Measurement, judgement: Judgement, reason: Layer | Doubt, message: str) -> Verdict:
    return Verdict(
        judgement,
        reason.value,
        message,
        accept_length=seen.tally.accept_length,
        requests=seen.tally.requests,
        calls=seen.tally.finished_calls,
        per_position=seen.tally.per_position,
    )
