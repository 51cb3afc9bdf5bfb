"""The counters as Prometheus metrics in the engine's own /metrics.

prometheus_client is imported at the first use, never with the plugin: its value class (plain or
multi-process) is fixed at import, and plugins load before SGLang sets PROMETHEUS_MULTIPROC_DIR.
"""

from __future__ import annotations

from typing import Any

from specdec.engine.plugin.counters import Key, Tally

_LABELS = ("revision", "steps", "source")


class _Metrics:
    def __init__(self) -> None:
        from prometheus_client import Counter

        self.calls = Counter(
            "specdec_verify_calls", "Verify calls: one request in one verify batch with steps >= 1.", _LABELS
        )
        self.correct = Counter(
            "specdec_correct_drafts",
            "Correct drafts per position (1 is the first); their sum / verify calls + 1 is the accept length.",
            (*_LABELS, "position"),
        )
        self.tokens = Counter("specdec_kept_tokens", "Kept tokens of decode batches.", _LABELS)
        self.children: dict[Key, _Children] = {}


class _Children:
    """The labelled children of one key: looking them up for every row would cost more than adding."""

    def __init__(self, metrics: _Metrics, key: Key) -> None:
        labels = (key.revision, str(key.steps), key.source.value)
        self.calls: Any = metrics.calls.labels(*labels) if key.steps else None
        self.tokens: Any = metrics.tokens.labels(*labels)
        self.correct: list[Any] = [
            metrics.correct.labels(*labels, str(position + 1)) for position in range(key.steps)
        ]


_metrics: _Metrics | None = None


def start() -> None:
    """Make the metrics; called when the scheduler is up and its metrics directory is set."""
    global _metrics  # noqa: PLW0603 - one registry per process
    _metrics = _Metrics()


def add(key: Key, tally: Tally) -> None:
    """One decode batch's rows under one key; nothing if the engine serves no metrics."""
    if _metrics is None:
        return
    children = _metrics.children.get(key)
    if children is None:
        children = _metrics.children[key] = _Children(_metrics, key)
    children.tokens.inc(tally.tokens)
    if children.calls is not None:
        children.calls.inc(tally.rows)
        for child, count in zip(children.correct, tally.correct(), strict=True):
            child.inc(count)
