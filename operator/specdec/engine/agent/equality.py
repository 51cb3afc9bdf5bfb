"""Whether drafting changes greedy answers: a pure rule over token ids and log-probabilities.

Verification runs other batch shapes than plain decoding, so on a GPU other kernels, and two tokens that are as
good as tied may come out the other way round. So answers may part at a near tie and nowhere else: at the first
differing token the emitted one is at most `tolerance` below the target's best, as one prefill scores both. The
tolerance is twice what plain decoding itself shows against that prefill, at the same batch sizes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from specdec.engine.protocol import Agreement

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_TOLERANCE = 0.25
"""Nats. A few hundred tokens are few for a far quantile; bfloat16 logits between 16 and 32 are 1/8 apart."""
QUANTILE = 0.999


def parting(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Place of the first token in which two answers differ; None if one is the other, or the beginning of it."""
    return next(
        (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None
    )


def tolerance(plain: Sequence[float]) -> float:
    """How far below the best a token may be, from how far plain decoding's own tokens are, in nats."""
    if not plain:
        return LEAST_TOLERANCE
    far = sorted(plain)[min(len(plain) - 1, math.floor(QUANTILE * len(plain)))]
    return max(LEAST_TOLERANCE, 2 * far)


def agreement(parted: Sequence[float], plain: Sequence[float]) -> Agreement:
    """Judge the tokens at which answers with drafting left those without, each by how far below the best it is."""
    worst = max(parted, default=0.0)
    return Agreement.DIFFERENT if worst > tolerance(plain) else Agreement.SAME
