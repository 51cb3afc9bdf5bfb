"""What one request adds to an engine's counters, and how its drafts and its waiting time are drawn."""

from __future__ import annotations

import random

from specdec.engine.protocol import Counters

PLAIN_TOKENS_A_SECOND = 40


def drafted(rng: random.Random, calls: int, steps: int, chance: float) -> list[int]:
    """Draw how many drafts are right at each position."""
    right = [0] * steps
    for _ in range(calls):
        for position in range(steps):
            if rng.random() >= chance:
                break
            right[position] += 1
    return right


def waited(pace: random.Random, tokens: int, speedup: float) -> float:
    """Draw the seconds that a request waits: 40 tokens a second without drafting, and no two alike."""
    return tokens / (PLAIN_TOKENS_A_SECOND * speedup) * pace.uniform(0.85, 1.15)


def finished(row: Counters, calls: int, right: list[int], seconds: float) -> Counters:
    """Count a request that drafted."""
    drafts = sum(right)
    sums = {
        "requests": row.requests + 1,
        "calls": row.calls + calls,
        "correct": tuple(a + b for a, b in zip(row.correct, right, strict=True)),
        "dd": row.dd + drafts**2,
        "dc": row.dc + drafts * calls,
        "cc": row.cc + calls**2,
        "finished_drafts": row.finished_drafts + drafts,
        "finished_calls": row.finished_calls + calls,
    }
    return timed(row, calls + drafts, seconds).model_copy(update=sums)


def timed(row: Counters, tokens: int, seconds: float) -> Counters:
    """Count a request's tokens and how long it waited for them."""
    total = f"{float(row.request_seconds) + seconds:.6f}"
    return row.model_copy(update={"tokens": row.tokens + tokens, "request_seconds": total})
