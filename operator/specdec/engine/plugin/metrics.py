"""The counters as Prometheus metrics in the engine's own /metrics, from a thread: no batch waits for them.

prometheus_client is imported at the start, never with the plugin: its value class (plain or multi-process)
is fixed at import, and plugins load before SGLang sets PROMETHEUS_MULTIPROC_DIR.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specdec.engine.message import Counters
    from specdec.engine.plugin.counters import Table

log = logging.getLogger("specdec")

PUBLISH_SECONDS = 1.0
_LABELS = ("revision", "steps", "source")


class Exposition:
    """What was published so far."""

    def __init__(self) -> None:
        from prometheus_client import Counter

        self._calls = Counter(
            "specdec_verify_calls", "Verify calls: one request in one verify batch with steps >= 1.", _LABELS
        )
        self._correct = Counter(
            "specdec_correct_drafts",
            "Correct drafts per position (1 is the first); their sum / verify calls + 1 is the accept length.",
            (*_LABELS, "position"),
        )
        self._tokens = Counter("specdec_kept_tokens", "Kept tokens of decode batches.", _LABELS)
        self._published: dict[tuple[str, ...], int] = {}

    def publish(self, counters: Iterable[Counters]) -> None:
        """Bring the metrics up to these counters, which never fall."""
        for row in counters:
            labels = (row.revision, str(row.steps), row.source.value)
            self._raise(self._tokens, row.tokens, *labels)
            if row.steps:
                self._raise(self._calls, row.calls, *labels)
                for position, count in enumerate(row.correct, start=1):
                    self._raise(self._correct, count, *labels, str(position))

    def _raise(self, metric: Any, value: int, *labels: str) -> None:
        name = (metric._name, *labels)  # noqa: SLF001 - no public reader
        metric.labels(*labels).inc(value - self._published.get(name, 0))
        self._published[name] = value


def start(table: Table) -> None:
    """Publish from now on; called when the scheduler is up and its metrics directory is set."""
    threading.Thread(target=_publish, args=(Exposition(), table), name="specdec-metrics", daemon=True).start()


def _publish(exposition: Exposition, table: Table) -> None:
    while True:
        try:
            exposition.publish(table.snapshot())
        except Exception:
            # The next second's figures must still come.
            log.exception("the counters could not be published")
        time.sleep(PUBLISH_SECONDS)
