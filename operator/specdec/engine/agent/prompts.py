"""The agent's own prompts: ordinary, of several domains, so that no single habit decides a probe."""

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
TEXT = (
    "The harbour of the old town was built for grain. Ships came down the river in autumn, when the water was high, "
    "and waited below the granaries until a place at the quay was free. A clerk wrote down each load: where it came "
    "from, who had sold it, what it weighed, and what the miller had said of it. Few of these books have survived. "
    "Those that have tell of droughts, of wars far away that nobody mentions by name, and of one winter in which the "
    "river froze so hard that carts took the ships' way. "
)
"""What a long prompt repeats."""


def endless() -> Iterator[str]:
    """Go round the prompts; each begins with a random number, so that no cached prefix of an earlier drafter fits."""
    for prompt in itertools.cycle(PROMPTS):
        yield marked(prompt)


def marked(prompt: str) -> str:
    """Begin a prompt with a random number."""
    return f"[{secrets.randbelow(10**8):08d}] {prompt}"


def long(characters: int) -> str:
    """Make a prompt of about so many characters."""
    task = "Sum up this text in three sentences: "
    repeated = itertools.islice(itertools.cycle(TEXT), max(0, characters - len(task)))
    return task + "".join(repeated)
