"""How the plugin says no: a reason and a sentence; at the start, by ending the process."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NoReturn

from specdec.engine.loopback import START_REPORT, LoadReport, StartReport

log = logging.getLogger("specdec")


class RefusedError(Exception):
    """An order can't be carried out; nothing was changed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def write_start_report(run_dir: Path, report: StartReport) -> None:
    """Leave the report where the agent reads it, whole or not at all."""
    fresh = run_dir / f".{START_REPORT}.new"
    fresh.write_text(report.model_dump_json(by_alias=True))
    fresh.replace(run_dir / START_REPORT)


def refuse_start(run_dir: Path, reason: str, message: str, load: LoadReport | None = None) -> NoReturn:
    """End this process, and with it the engine, before it serves.

    SystemExit on purpose: SGLang logs any `Exception` of a plugin and goes on without it.
    """
    write_start_report(run_dir, StartReport(reason=reason, message=message, load=load))
    log.error("refusing to start: %s: %s", reason, message)
    raise SystemExit(f"specdec refuses to start: {reason}: {message}")
