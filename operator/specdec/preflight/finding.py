"""What the preflight answers: findings and repairs, each a code for programs and sentences for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MOST = 800
"""Characters of a finding's part: names come from strangers' files."""


class Severity(StrEnum):
    """What a finding does to a rollout, worst first."""

    ERROR = "Error"
    """Blocks: the drafter would not start, or serve without being of use."""
    UNKNOWN = "Unknown"
    """Something could not be judged; neither a pass nor a block."""
    WARNING = "Warning"
    """Allowed and said: it may be wrong, or costs quality."""


@dataclass(frozen=True)
class Finding:
    """One fault: what was found, what was expected, what to do."""

    code: str
    """CamelCase reason; the check that made it has the same name."""
    severity: Severity
    found: str
    expected: str
    hint: str
    source: str
    """Where the rule comes from: SGLang's file, an issue."""

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        return f"{self.found}, expected {self.expected}: {self.hint}"

    def to_json(self) -> dict[str, str]:
        """For programs."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "found": self.found,
            "expected": self.expected,
            "hint": self.hint,
            "source": self.source,
        }


@dataclass(frozen=True)
class Fault:
    """What a check found; its check adds code and source."""

    found: str
    expected: str
    hint: str
    severity: Severity | None = None
    """None takes the check's own."""


@dataclass(frozen=True)
class Repair:
    """A fault that was mended in the overlay or will be while loading; no weight file is touched."""

    code: str
    """The code of the finding that it makes go away."""
    said: str

    def to_json(self) -> dict[str, str]:
        """For programs."""
        return {"code": self.code, "said": self.said}


NAMES_SHOWN = 4


def some(names: list[str] | tuple[str, ...], shown: int = NAMES_SHOWN) -> str:
    """List a few names and count the others: reports stay short whatever the input."""
    clean = [printable(name) for name in names[:shown]]
    more = len(names) - len(clean)
    return ", ".join(clean) + (f" and {more} more" if more > 0 else "")


def printable(text: str, most: int = 120) -> str:
    """Text of a stranger's file, without control characters and not too long."""
    if len(text) <= most and text.isprintable():
        return text
    clean = "".join(char if char.isprintable() else "?" for char in text[: most + 1])
    return clean if len(clean) <= most else f"{clean[: most - 3]}..."
