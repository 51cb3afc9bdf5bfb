"""The container's termination message: what `kubectl describe pod` shows when this container has ended.

The agent outlives SGLang, so the message is written at each failure and emptied when the engine serves: whatever
ends the container in between, the last failure is what people see.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from specdec.preflight.report import TERMINATION_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from specdec.engine.protocol import FailureReport

log = logging.getLogger("specdec.agent")


def message(report: FailureReport) -> bytes:
    """Write a failure for people, within the limit."""
    ended = f" ({report.ended})" if report.ended else ""
    lines = [f"{report.at} {report.reason}{ended}: {report.message}", *report.lines]
    return "\n".join(lines).encode()[:TERMINATION_BYTES]


def leave(path: Path, content: bytes) -> None:
    """Put it where the kubelet reads it; outside of Kubernetes there is no such file, and none is made."""
    try:
        with path.open("r+b") as file:
            file.truncate()
            file.write(content)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("the termination message could not be written (%s)", error)
