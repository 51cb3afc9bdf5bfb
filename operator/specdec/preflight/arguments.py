"""SGLang's command line and environment, read as SGLang would read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

ALIASES = {
    "--model": "--model-path", "--tp": "--tp-size", "--tensor-parallel-size": "--tp-size", "--pp": "--pp-size",
    "--pipeline-parallel-size": "--pp-size", "--dp": "--dp-size", "--data-parallel-size": "--dp-size",
    "--speculative-draft-model": "--speculative-draft-model-path",
}  # fmt: skip
"""Names that SGLang takes for others."""

OWNED = frozenset({
    "--model-path", "--host", "--port", "--served-model-name", "--enable-metrics", "--skip-server-warmup",
    "--api-key", "--admin-api-key", "--tokenizer-worker-num", "--config", "--speculative-algorithm",
    "--speculative-draft-model-path", "--speculative-num-steps", "--speculative-eagle-topk",
    "--speculative-num-draft-tokens", "--speculative-adaptive", "--speculative-adaptive-config",
    "--speculative-draft-model-quantization", "--speculative-draft-kv-cache-dtype",
})  # fmt: skip
"""Arguments that the operator renders itself."""


@dataclass(frozen=True)
class Arguments:
    """An engine's arguments, rendered."""

    values: Mapping[str, str] = field(default_factory=dict)
    """By full name; a switch has the value ""."""
    environment: Mapping[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    """Names that a user added to what the operator renders."""

    def has(self, name: str) -> bool:
        """Whether an argument is given."""
        return name in self.values

    def text(self, name: str) -> str:
        """Value of an argument; empty if it is not given."""
        return self.values.get(name, "")

    def number(self, name: str) -> int | None:
        """Value as a whole number; None if it is not given or none."""
        text = self.text(name)
        return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None

    @property
    def drafts(self) -> bool:
        """Whether the engine speculates."""
        return self.has("--speculative-algorithm")


def parsed(argv: tuple[str, ...] | list[str]) -> dict[str, str]:
    """Arguments by full name; a later one wins, as in argparse."""
    found: dict[str, str] = {}
    name = ""
    for word in argv:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            name = ALIASES.get(name, name)
            found[name] = value if equals else ""
        elif name:
            found[name] = f"{found[name]} {word}".strip()
    return found


def rendered(
    extra: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    *,
    steps: int = 3,
    algorithm: str = "EAGLE3",
) -> Arguments:
    """What the operator makes of a user's extra arguments: a chain of `steps` drafts, nothing inherited."""
    own = {
        "--speculative-algorithm": algorithm,
        "--speculative-draft-model-path": "OVERLAY",
        "--speculative-num-steps": str(steps),
        "--speculative-eagle-topk": "1",
        "--speculative-num-draft-tokens": str(steps + 1),
        "--speculative-draft-model-quantization": "unquant",
    }
    users = parsed(extra)
    return Arguments({**users, **own}, environment or {}, tuple(users))
