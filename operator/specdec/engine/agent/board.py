"""The status as it stands, shared between the supervising loop and the API's own thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from specdec.engine.agent.judging import result
from specdec.engine.agent.times import now_text
from specdec.engine.protocol import Drafting, Phase, Source, Status

if TYPE_CHECKING:
    from specdec.api.preflight import Preflight
    from specdec.engine.loopback import Report as Counted
    from specdec.engine.protocol import Counters, PreflightResult
    from specdec.preflight.report import Report

STATUS_BYTES = 2048
KEPT_REPORTS = 4
SILENT = frozenset({"progress_at", "in_flight", "counters"})
"""Fields that change all the time: they don't change the serial."""
MOST_WAITERS = 32
MESSAGE_CHARACTERS = 240
TERSE_CHARACTERS = 80
LOAD_CHARACTERS = 160
"""Of the sentence on the drafter's load; it is never cut further, so that it reads the same at all times."""


def shortened(text: str, most: int) -> str:
    """Cut a sentence that is too long for the status, visibly."""
    return text if len(text) <= most else text[: most - 1] + "…"


class Board:
    """Holds the status; every change gets a new serial and wakes who waits for one."""

    def __init__(self, pod_uid: str) -> None:
        self._lock = threading.Lock()
        # Begins with the time, so that a serial of an earlier life is never met again.
        serial = int(time.time() * 1000)
        self._status = Status(
            serial=serial, pod_uid=pod_uid, boot="", phase=Phase.STAGING, progress_at=now_text()
        )
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self.reports: dict[str, tuple[PreflightResult, Report]] = {}
        """What the preflight found by revision, for the operator and whole, the newest last; replaced, never changed."""

    @property
    def status(self) -> Status:
        """The status now, without what only the plugin knows."""
        with self._lock:
            return self._status

    def change(self, **fields: Any) -> None:
        """Set fields; nothing happens if all of them are as they were."""
        if isinstance(fields.get("message"), str):
            fields["message"] = fields["message"][:MESSAGE_CHARACTERS]
        with self._lock:
            changed = {name for name, value in fields.items() if getattr(self._status, name) != value}
            if not changed:
                return
            loud = bool(changed - SILENT)
            self._status = self._status.model_copy(
                update={**fields, "serial": self._status.serial + (1 if loud else 0)}
            )
            waiters = tuple(self._waiters) if loud else ()
        for loop, event in waiters:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    def judged(self, report: Report, revision: str, wish: Preflight) -> None:
        """Say that the preflight has judged a drafter; what it found is asked for, a status has no room for it."""
        found = result(report, revision, wish)
        kept = {name: old for name, old in self.reports.items() if name != revision}
        self.reports = dict([*kept.items(), (revision, (found, report))][-KEPT_REPORTS:])
        self.change(preflight=found.model_copy(update={"report": {}}))

    async def wait(self, since: int, seconds: float) -> None:
        """Wait until the serial differs from `since`, at most so long."""
        event = asyncio.Event()
        waiter = (asyncio.get_running_loop(), event)
        with self._lock:
            # Beyond the most, a long poll is a short one: nobody may crowd the kubelet's probes out.
            if self._status.serial != since or len(self._waiters) >= MOST_WAITERS:
                return
            self._waiters.add(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), seconds)
        finally:
            with self._lock:
                self._waiters.discard(waiter)


def with_report(status: Status, report: Counted | None) -> Status:
    """Add what the plugin counts; a drafter's absence leaves revision and steps empty."""
    if report is None:
        return status
    serving = report.revision if report.states else ""
    # An idle engine shows the steps of its last batch; the next one has those that were ordered.
    steps = report.steps if report.in_flight else status.steps
    return status.model_copy(
        update={
            "revision": serving,
            "steps": steps,
            "drafting": Drafting.ON if steps else Drafting.OFF,
            "in_flight": report.in_flight,
            "counters": report.counters,
        }
    )


def fitted(status: Status, limit: int = STATUS_BYTES) -> bytes:
    """Write the status within its limit.

    The log lines of a failure go first, then what the warm-up said, then long messages are cut, then goes the baseline,
    then the counters that matter least.
    """
    rows = tuple(sorted(status.counters, key=lambda row: _weight(status, row)))
    brief = _without_lines(status)
    told = _without_old_news(brief)
    terse = _terse(told)
    lean = _lean(terse)
    for slim in (status, brief, told, terse, lean):
        written = _written(slim.model_copy(update={"counters": rows}))
        if len(written) <= limit:
            return written
    for kept in range(len(rows) - 1, -1, -1):
        written = _written(lean.model_copy(update={"counters": rows[:kept]}))
        if len(written) <= limit:
            break
    return written


def _without_lines(status: Status) -> Status:
    """Leave a failure's log lines to the container's log."""
    if status.failure is None:
        return status
    return status.model_copy(update={"failure": status.failure.model_copy(update={"lines": ()})})


def _without_old_news(status: Status) -> Status:
    """Leave out what the warm-up said: whoever shows it has kept it, and what is new must not be cut for it."""
    if status.warmup is None:
        return status
    return status.model_copy(update={"warmup": status.warmup.model_copy(update={"message": ""})})


def _terse(status: Status) -> Status:
    """Cut what people read down to what fits; codes and numbers stay."""
    parts = {
        name: part.model_copy(update={"message": shortened(part.message, TERSE_CHARACTERS)})
        for name in ("candidate", "failure", "probe")
        if (part := getattr(status, name)) is not None
    }
    return status.model_copy(update={**parts, "message": shortened(status.message, TERSE_CHARACTERS)})


def _lean(status: Status) -> Status:
    """Leave out what stood in the first status of this start: whoever shows it has kept it."""
    warmup = status.warmup
    if warmup is not None:
        warmup = warmup.model_copy(update={"per_position": (), "speeds": ()})
    return status.model_copy(update={"warmup": warmup, "load": ""})


def _written(status: Status) -> bytes:
    # `phase` and the like have no default, so an empty status still says where it is.
    return status.model_dump_json(by_alias=True, exclude_defaults=True).encode()


def _weight(status: Status, row: Counters) -> tuple[int, int, int]:
    candidate = status.candidate.revision if status.candidate else ""
    order = {revision: rank for rank, revision in enumerate((status.promoted, candidate, status.revision))}
    return (
        -order.get(row.revision, -1),
        (Source.TRAFFIC, Source.PROBE, Source.CARRIED).index(row.source),
        -row.steps,
    )
