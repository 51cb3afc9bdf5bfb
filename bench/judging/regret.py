"""Lost tokens against an oracle while the load crosses break-even, by what decides when to draft.

Load goes from batch 1 to 64 and back. A request's speed without drafting falls as that of Kimi-K2.5 on eight
H200s does (TPOT 9.2, 53 and 365 ms at 1, 16 and 100 requests); the speedup falls from 1.67 at batch 1 to 0.85 at 32, as
one published drafter's does whose acceptance hardly moves. A limit on acceptance can only be always on or
always off here. Ours is the product's baseline and block schedule; a block's speeds are noisy by 5 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.judging.traces import Floats
from specdec.acceptance.baseline import NOTHING, Baseline, Pace, Stretch
from specdec.rollout.pace import BLOCK_SECONDS, PROBATION_PERIOD, PROBATION_SECONDS, REST_PERIOD, SATURATED

BATCHES = np.array([1.0, 8.0, 16.0, 32.0, 64.0])
SPEEDUPS = np.array([1.67, 1.30, 1.05, 0.85, 0.75])
TPOT_AT = np.array([1.0, 16.0, 100.0])
TPOT = np.array([0.0092, 0.053, 0.365])
MOST_RUNNING = 96
NOISE = 0.05


@dataclass(frozen=True)
class Regret:
    """Tokens lost against the oracle, as shares of the oracle's."""

    ours: float
    always: float
    never: float
    switches: int

    @property
    def against_fixed(self) -> float:
        """Ours over the best fixed threshold's."""
        return self.ours / min(self.always, self.never)


def crossing(seed: int, hours: float) -> Regret:
    """Let the load rise and fall once in so many hours, a second at a time."""
    rng = np.random.default_rng(seed)
    seconds = int(hours * 3600)
    batch = np.exp2(6 * np.sin(np.linspace(0, np.pi, seconds)) ** 2)
    plain = batch / np.exp(np.interp(np.log(batch), np.log(TPOT_AT), np.log(TPOT)))
    gain = np.interp(np.log(batch), np.log(BATCHES), SPEEDUPS)
    best = plain * np.maximum(1, gain)
    drafted, switches = _drafted(rng, batch, plain, gain)
    total = best.sum()
    return Regret(
        ours=float(1 - np.where(drafted, plain * gain, plain).sum() / total),
        always=float(1 - (plain * gain).sum() / total),
        never=float(1 - plain.sum() / total),
        switches=switches,
    )


def _drafted(rng: np.random.Generator, batch: Floats, plain: Floats, gain: Floats) -> tuple[Floats, int]:
    """When the engine drafts under our rule, and how often the rule changed its mind."""
    baseline, slower, switches = Baseline(), False, 0
    drafted = np.zeros(len(batch), dtype=bool)
    noise = np.exp(rng.normal(0, NOISE, len(batch)))
    for now in range(len(batch)):
        period = PROBATION_PERIOD if now < PROBATION_SECONDS else REST_PERIOD
        within = now % period < BLOCK_SECONDS
        full = batch[now] >= SATURATED * MOST_RUNNING
        drafts = within if slower else not (within and not full)
        drafted[now] = drafts
        speed = plain[now] * (gain[now] if drafts else 1.0) * noise[now]
        done = Stretch(int(speed), float(batch[now]))
        baseline = baseline.fed(
            drafts=bool(drafts), on=done if drafts else NOTHING, off=NOTHING if drafts else done
        )
        pace = baseline.pace(1.0) if now % 3 == 0 else Pace.UNKNOWN
        if pace is (Pace.FASTER if slower else Pace.SLOWER):
            slower, baseline, switches = not slower, Baseline(), switches + 1
    return drafted, switches
