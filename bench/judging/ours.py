"""Our judge on a trace: the product's own code, fed with what each poll of the agents would bring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.judging.traces import DOMAINS, POLL_SECONDS, STEPS, Trace, drafts_of
from specdec.acceptance.compare import Arm, Comparison
from specdec.acceptance.judge import ROLLOUT, STEADY, Case, Floor, Levels, verdict
from specdec.acceptance.measure import WINDOW_REQUESTS, Measurement, PodState
from specdec.acceptance.routing import Dealt, Routing
from specdec.acceptance.tally import Tally
from specdec.acceptance.verdict import Judgement
from specdec.engine.protocol import ProbeResult
from specdec.rollout.evidence import PROBE_FRESH_SECONDS

KEPT = 0.95
"""The default of acceptance.maxRegression is 0.05."""
REST_SECONDS = 5.0
PROBE_CALLS = 60
PROBE_DOMAIN = float(DOMAINS[0])
"""The agent's own requests are chats, as MT-Bench's are."""


def polls(traces: list[Trace], seconds: float) -> Iterator[tuple[float, list[list[int]]]]:
    """What each poll finds finished on each engine: requests, calls, drafts, and their cross sums."""
    indices = [np.ceil(trace.at / seconds).astype(int) for trace in traces]
    last = max((int(index[-1]) for index in indices if len(index)), default=0) + 1
    sums = np.stack(
        [
            np.stack([np.bincount(index, column, last + 1) for column in _columns(trace)], axis=1)
            for trace, index in zip(traces, indices, strict=True)
        ]
    ).astype(int)
    for poll in np.nonzero(sums[:, :, 0].sum(axis=0))[0]:
        yield float(poll) * seconds, sums[:, poll].tolist()


def found_worse(candidate: Trace, active: Trace, kept: float = KEPT) -> float | None:
    """When the paired test is sure, looking twice a second."""
    comparison = Comparison(STEPS, kept)
    for now, (mine, theirs) in polls([candidate, active], POLL_SECONDS):
        comparison = comparison.fed(Arm(*mine[:3]), Arm(*theirs[:3]), now)
        if comparison.worse(ROLLOUT.paired):
            return now
    return None


def dealt(engines: list[Trace]) -> Dealt:
    """What the engines' history with one drafter says of the routing."""
    routing = Routing()
    for now, rows in polls(engines, REST_SECONDS):
        routing = routing.fed({str(number): Arm(*row[:3]) for number, row in enumerate(rows)}, now)
    return routing.dealt


@dataclass(frozen=True)
class Window:
    """What the ledger holds of one engine, and the last probe."""

    tally: Tally = Tally()  # noqa: RUF009 - frozen
    young: Tally = Tally()  # noqa: RUF009 - frozen
    """What came after the next baseline of a settled drafter."""
    probe: ProbeResult | None = None
    probed_at: float = 0.0

    def fed(self, row: list[int], *, settled: bool) -> Window:
        """Book one poll; a settled drafter's window rolls as the ledger's does."""
        requests, calls, drafts, dd, dc, cc = row
        news = Tally(requests, calls, drafts, dd, dc, cc, calls)
        young = self.young + news
        if settled and young.requests >= WINDOW_REQUESTS:
            return replace(self, tally=young, young=Tally())
        return replace(self, tally=self.tally + news, young=young)


def taken_away(
    rng: np.random.Generator, trace: Trace, floor: float, quality: float, levels: Levels
) -> float | None:
    """When the layers that look at one drafter alone take it away, probes included."""
    window = Window()
    for now, (row,) in polls([trace], REST_SECONDS):
        window = window.fed(row, settled=levels is STEADY)
        if window.probe and now - window.probed_at > PROBE_FRESH_SECONDS:
            window = replace(window, probe=None)
        said = _verdict(window, floor, levels)
        if said.needs_probe and window.probe is None:
            window = replace(window, probe=_probe(rng, quality), probed_at=now)
            said = _verdict(window, floor, levels)
        if said.judgement is Judgement.UNHEALTHY and not said.needs_probe:
            return now
    return None


def _verdict(window: Window, floor: float, levels: Levels):  # noqa: ANN202
    seen = Measurement("r", STEPS, window.tally, {"a": PodState.COUNTING})
    return verdict(Case(seen, Floor(floor), (window.probe,) if window.probe else (), levels, "asked"))


def _probe(rng: np.random.Generator, quality: float) -> ProbeResult:
    """The agent's own requests, a minute's worth of verify calls for one engine."""
    length = np.array([1 + (PROBE_DOMAIN - 1) * quality])
    drafts = int(drafts_of(rng, length, np.array([PROBE_CALLS]))[0])
    return ProbeResult(
        id="asked",
        revision="r",
        passed=drafts > 0,
        accept_length=f"{1 + drafts / PROBE_CALLS:.3f}",
        calls=PROBE_CALLS,
    )


def _columns(trace: Trace) -> tuple[NDArray[np.int64], ...]:
    calls, drafts = trace.calls, trace.drafts
    return np.ones_like(calls), calls, drafts, drafts * drafts, drafts * calls, calls * calls
