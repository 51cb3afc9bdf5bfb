"""The agent's own prompts: short, ordinary, of three domains, so that no single habit decides a probe."""

from __future__ import annotations

import itertools
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMPTS = (
    "Explain in two sentences why the sky is blue.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "A train travels 120 km in 1.5 hours. What is its average speed? Show the steps.",
    "Suggest three names for a small bakery and say why each one fits.",
    "Write an SQL query for the ten customers with the highest total order value.",
    "What is 17 times 24? Work it out step by step.",
)


def endless() -> Iterator[str]:
    """Go round the prompts; each begins with a random number, so that no cached prefix of an earlier drafter fits."""
    for prompt in itertools.cycle(PROMPTS):
        yield f"[{secrets.randbelow(10**8):08d}] {prompt}"
