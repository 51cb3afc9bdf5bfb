"""The prompts of probe and warm-up: the user's, or ordinary ones of several domains, so that no habit decides."""

from __future__ import annotations

import base64
import itertools
import secrets
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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


MOST_PROMPTS = 16
LONGEST_PROMPT = 4000
"""Characters."""
IMAGE_SIZE = 56
"""Pixels of a side: two patches of 28, Kimi-K2.5's and Qwen-VL's merged patch."""
IMAGE_PROMPT = "Say in one sentence what colours this picture has."


def given(folder: Path) -> tuple[tuple[str, ...], str]:
    """Read the user's prompts, each a file as a ConfigMap's keys are mounted; else the agent's own, and why."""
    if not folder.is_dir():
        return PROMPTS, ""
    # A mounted ConfigMap also holds `..data` and the folder that this points to.
    files = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".") and path.is_file()]
    found = (path.read_text(errors="replace")[:LONGEST_PROMPT].strip() for path in files[:MOST_PROMPTS])
    if prompts := tuple(filter(None, found)):
        return prompts, ""
    return PROMPTS, "the ConfigMap of engine.warmupPrompts holds no prompt, so the agent's own were used"


def endless(prompts: Sequence[str]) -> Iterator[str]:
    """Go round the prompts; each begins with a random number, so that no cached prefix of an earlier drafter fits."""
    for prompt in itertools.cycle(prompts):
        yield marked(prompt)


def marked(prompt: str) -> str:
    """Begin a prompt with a random number."""
    return f"[{secrets.randbelow(10**8):08d}] {prompt}"


def long(characters: int) -> str:
    """Make a prompt of about so many characters."""
    task = "Sum up this text in three sentences: "
    repeated = itertools.islice(itertools.cycle(TEXT), max(0, characters - len(task)))
    return task + "".join(repeated)


def image() -> str:
    """Make a small picture, red above and blue below, as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    half = IMAGE_SIZE // 2
    rows = [b"\0" + colour * IMAGE_SIZE for colour in [b"\xc0\0\0"] * half + [b"\0\0\xc0"] * half]
    header = struct.pack(">IIBBBBB", IMAGE_SIZE, IMAGE_SIZE, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"".join(rows))), chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()
