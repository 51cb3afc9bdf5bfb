"""One engine: our look before and after a swap, and what switching back and forth would take.

Before and after is the product's own code (`acceptance.before`, the layer in `acceptance.judge`). Switching back
and forth is not in the product: it is played here at its best (blocks chosen for the answers' length, swaps that cost
nothing, the product's own betting over pairs of blocks in random order) to see what it would buy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bench.judging.ours import KEPT, PROBE_DOMAIN, Window, polls
from bench.judging.traces import (
    CALLS_A_SECOND,
    POLL_SECONDS,
    STEPS,
    Trace,
    Traffic,
    drafts_of,
    engine,
    timeline,
)
from specdec.acceptance.before import Predecessor
from specdec.acceptance.compare import Arm, Comparison
from specdec.acceptance.judge import ROLLOUT, Case, Floor, verdict
from specdec.acceptance.measure import Measurement, PodState
from specdec.acceptance.tally import Tally
from specdec.acceptance.verdict import Judgement
from specdec.engine.protocol import ProbeResult
from specdec.rollout.evidence import PROBE_FRESH_SECONDS

PROBE_CALLS = 45
PROBE_SECONDS = 2.0
BEFORE_SECONDS = 900.0
SWITCH_BLOCK_SECONDS = 30.0
"""Six times an answer of average length: what does not begin and end within a block is lost."""


@dataclass(frozen=True)
class Switched:
    """What switching back and forth took."""

    seconds: float
    swaps: int


def found_after(traffic: Traffic, quality: float, seed: int) -> float | None:
    """When a candidate with this share of the active's quality is taken back after its swap; None: it is kept."""
    rng = np.random.default_rng([seed, round(traffic.rate * 10)])
    whole = timeline(rng, BEFORE_SECONDS + traffic.seconds)
    history = engine(rng, replace(traffic, seconds=BEFORE_SECONDS), whole)
    trace = engine(rng, traffic, whole[int(BEFORE_SECONDS // 300) :], quality)
    before = Window()
    for _, (row,) in polls([history], POLL_SECONDS):
        before = before.fed(row, settled=True)
    probed, theirs = _probed(rng, quality), _probed(rng, 1.0)
    window, asked_at = Window(), -PROBE_FRESH_SECONDS
    for now, (row,) in polls([trace], POLL_SECONDS):
        window = window.fed(row, settled=False)
        predecessor = Predecessor("active", KEPT, before.tally, theirs, probed)
        fresh = asked_at + PROBE_SECONDS <= now <= asked_at + PROBE_FRESH_SECONDS
        said = verdict(_case(window.tally, predecessor, asked=fresh))
        if said.judgement is Judgement.UNHEALTHY and not said.needs_probe:
            return now
        if said.needs_probe and now > asked_at + PROBE_FRESH_SECONDS:
            asked_at, probed = now, probed + _probed(rng, quality)
    return None


def _case(tally: Tally, predecessor: Predecessor, *, asked: bool) -> Case:
    probes = (ProbeResult(id="asked", revision="r", passed=True, accept_length="2", calls=PROBE_CALLS),)
    seen = Measurement("r", STEPS, tally, {"a": PodState.COUNTING})
    return Case(seen, Floor(), probes if asked else (), probe_id="asked", predecessor=predecessor)


def _probed(rng: np.random.Generator, quality: float) -> Tally:
    """What a probe counts: its prompts are chats, as MT-Bench's are."""
    length = np.array([1 + (PROBE_DOMAIN - 1) * quality])
    return Tally(calls=PROBE_CALLS, correct=(int(drafts_of(rng, length, np.array([PROBE_CALLS]))[0]),))


def switched(traffic: Traffic, quality: float, seed: int) -> Switched | None:
    """When switching back and forth would be sure; None: never in the time."""
    rng = np.random.default_rng([seed, round(traffic.rate * 10)])
    domains = timeline(rng, traffic.seconds)
    arms = [_by_block(engine(rng, traffic, domains, share)) for share in (quality, 1.0)]
    comparison, swaps, serves = Comparison(STEPS, KEPT), 1, 0
    for pair in range(int(traffic.seconds / SWITCH_BLOCK_SECONDS) // 2):
        first = int(rng.integers(2))
        swaps += 1 + (first != serves)
        serves = 1 - first
        found = {arm: arms[arm].get(2 * pair + (arm != first), Arm()) for arm in (0, 1)}
        now = (2 * pair + 2) * SWITCH_BLOCK_SECONDS
        comparison = comparison.fed(found[0], found[1], now)
        if comparison.worse(ROLLOUT.paired):
            return Switched(now, swaps)
    return None


def _by_block(trace: Trace) -> dict[int, Arm]:
    """Requests that began and ended within one block, by block."""
    ended = (trace.at // SWITCH_BLOCK_SECONDS).astype(int)
    began = ((trace.at - trace.calls / CALLS_A_SECOND) // SWITCH_BLOCK_SECONDS).astype(int)
    blocks: dict[int, Arm] = {}
    for block, whole, calls, drafts in zip(ended, began == ended, trace.calls, trace.drafts, strict=True):
        if whole:
            blocks[int(block)] = blocks.get(int(block), Arm()).plus(Arm(1, int(calls), int(drafts)))
    return blocks
