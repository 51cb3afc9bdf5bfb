"""All checks, in the order in which their findings are told: what explains most comes first."""

from __future__ import annotations

from specdec.preflight.check import Check
from specdec.preflight.checks import (
    architecture,
    arguments,
    context,
    engine,
    layers,
    norms,
    vocabulary,
    weights,
)

CHECKS: tuple[Check, ...] = (
    *engine.CHECKS, *architecture.CHECKS, *weights.CHECKS, *vocabulary.CHECKS, *layers.CHECKS, *norms.CHECKS,
    *context.CHECKS, *arguments.CHECKS,
)  # fmt: skip
