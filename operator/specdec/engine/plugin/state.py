"""What the scheduler process knows about its drafter: one object, shared by all patches."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from specdec.engine.loopback import LoadReport, Outcome
from specdec.engine.plugin.counters import Table
from specdec.engine.plugin.settings import Settings

KEPT_OUTCOMES = 16


@dataclass
class Engine:
    """State of one scheduler process.

    Written by the scheduler's own thread, and by the staging thread through :meth:`note` only; read by the
    report's thread.
    """

    settings: Settings
    revision: str = ""
    """The serving drafter's."""
    generation: int = 0
    """Rises with every commit: two stays of the same revision differ, since draft KV of one may hold what
    another drafter wrote."""
    wanted_steps: int | None = None
    """Steps to draft with from the next batch on; None before the start is over."""
    warm: bool = False
    """Whether draft KV is kept up to date while drafting is off."""
    cold: bool = False
    """Whether tokens were decoded since whose draft KV was not written."""
    scheduler: Any = None
    load: LoadReport | None = None
    """Of the last load into the serving drafter."""
    patches: tuple[str, ...] = ()
    counters: Table = field(default_factory=Table)
    _outcomes: OrderedDict[int, Outcome] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, outcome: Outcome) -> None:
        """Remember what became of an order."""
        with self._lock:
            self._outcomes[outcome.number] = outcome
            while len(self._outcomes) > KEPT_OUTCOMES:
                self._outcomes.popitem(last=False)

    def outcomes(self) -> tuple[Outcome, ...]:
        """The last orders' outcomes, oldest first."""
        with self._lock:
            return tuple(self._outcomes.values())

    @property
    def worker(self) -> Any:
        """SGLang's EAGLE worker, which switches steps; None without a drafter."""
        return getattr(self.scheduler, "draft_worker", None)

    @property
    def drafts(self) -> bool:
        """Whether this engine has a drafter."""
        return self.worker is not None


_engine: Engine | None = None


def install(settings: Settings) -> Engine:
    """Make this process's state; once, when the plugin registers."""
    global _engine  # noqa: PLW0603 - hooks are functions that SGLang calls: they find their state here
    _engine = Engine(settings, revision=settings.revision)
    return _engine


def engine() -> Engine:
    """Return this process's state."""
    if _engine is None:
        raise RuntimeError("specdec: a hook ran before the plugin was registered")
    return _engine
