"""Counter deltas: what each drafter did on users' requests since it was swapped in.

The ledger remembers one window for each pod, revision and step count. It is the only memory of the judge
and may be lost: a new ledger takes the counters as they stand for its baseline and begins again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from specdec.acceptance.tally import Tally
from specdec.engine.protocol import Counters, Source, Status

NOTHING = Tally()

SILENT_SECONDS = 30.0
"""An agent that said nothing for this long is silent: six polls at rest."""

WINDOW_REQUESTS = 256
"""A settled drafter is judged over its last 256 to 512 requests on each pod, so that a late fault is not diluted."""


class PodState(StrEnum):
    """What a pod's counters are worth."""

    COUNTING = "Counting"
    """They rise as they should."""
    SILENT = "Silent"
    """The agent did not answer for a while; what it said before still counts."""
    WENT_BACK = "WentBack"
    """A counter fell without a restart of the engine: the baseline was taken anew."""
    IMPOSSIBLE = "Impossible"
    """The sums contradict each other; none of them counts."""


@dataclass(frozen=True)
class Reading:
    """One pod's status as it was heard."""

    pod: str
    status: Status
    heard_at: float


@dataclass(frozen=True)
class Window:
    """What one pod counted for one revision and step count since the baseline."""

    pod: str
    boot: str
    swapped_at: str
    last: Tally
    base: Tally = NOTHING
    carried: Tally = NOTHING
    """From the engine's earlier boots."""
    young: Tally = NOTHING
    """The next baseline of a settled drafter."""
    state: PodState = PodState.COUNTING
    lie: str = ""
    """Why the sums cannot be true."""

    @property
    def tally(self) -> Tally:
        """Everything since the baseline."""
        return self.carried + (self.last - self.base)


Key = tuple[str, str, int]
"""Pod UID, revision, steps."""


@dataclass(frozen=True)
class Measurement:
    """What one revision did, summed over the pods whose counters can be trusted."""

    revision: str
    steps: int
    tally: Tally = NOTHING
    pods: Mapping[str, PodState] = field(default_factory=lambda: MappingProxyType({}))
    lie: str = ""
    """One pod's contradiction, with its name."""

    def all_pods(self, state: PodState) -> bool:
        """Whether there are pods and all are in this state."""
        return bool(self.pods) and all(pod == state for pod in self.pods.values())


@dataclass(frozen=True, slots=True)
class Ledger:
    """All windows; `take` returns the next ledger."""

    windows: Mapping[Key, Window] = field(default_factory=lambda: MappingProxyType({}))
    heard: Mapping[str, tuple[str, float]] = field(default_factory=lambda: MappingProxyType({}))
    """Boot and time of the last status, by pod UID."""

    def take(self, readings: Iterable[Reading], settled: frozenset[str] = frozenset()) -> Ledger:
        """Book what was read; pods that are not among the readings are forgotten.

        `settled` names revisions that were promoted: their windows roll.
        """
        windows: dict[Key, Window] = {}
        heard: dict[str, tuple[str, float]] = {}
        for reading in readings:
            uid = reading.status.pod_uid
            heard[uid] = (reading.status.boot, reading.heard_at)
            windows |= self._pod(reading)
        rolled = {key: _rolled(window) if key[1] in settled else window for key, window in windows.items()}
        return Ledger(rolled, heard)

    def _pod(self, reading: Reading) -> dict[Key, Window]:
        status = reading.status
        known = status.pod_uid in self.heard
        mine = {key: window for key, window in self.windows.items() if key[0] == status.pod_uid}
        rows = {
            (status.pod_uid, row.revision, row.steps): row
            for row in status.counters
            if row.source is Source.TRAFFIC
        }
        booted = {key: _booted(window, status.boot) for key, window in mine.items()}
        for key, row in rows.items():
            fresh = Window(reading.pod, status.boot, _swapped_at(status, row.revision), Tally())
            if not known:  # counted before we looked: whose traffic that was is not known
                fresh = replace(fresh, base=Tally.of(row), last=Tally.of(row), young=Tally.of(row))
            booted[key] = _counted(booted.get(key, fresh), row, status)
        return booted

    def measure(self, revision: str, steps: int, now: float) -> Measurement:
        """Pool the pods' windows of one revision: sums, then ratios, never a mean of ratios."""
        windows = {key: w for key, w in self.windows.items() if key[1:] == (revision, steps)}
        states = {w.pod: self._state(key[0], w, now) for key, w in windows.items()}
        trusted = [w.tally for w in windows.values() if states[w.pod] is not PodState.IMPOSSIBLE]
        lies = [f"{w.pod} reports {w.lie}" for w in windows.values() if w.lie]
        return Measurement(
            revision, steps, sum(trusted, Tally()), MappingProxyType(states), "; ".join(lies[:1])
        )

    def _state(self, uid: str, window: Window, now: float) -> PodState:
        if window.state is PodState.IMPOSSIBLE:
            return window.state
        # Whoever asks the engines tells of silence: to a rollout's pass it is no deadline (rollout/now.py).
        return PodState.SILENT if float(now) - self.heard[uid][1] > SILENT_SECONDS else window.state


def _booted(window: Window, boot: str) -> Window:
    """Begin at 0 again when the engine's process is another one; what the old one counted stays."""
    if window.boot == boot:
        return window
    return replace(window, boot=boot, carried=window.tally, base=Tally(), last=Tally(), young=Tally(), lie="")


def _counted(window: Window, row: Counters, status: Status) -> Window:
    """Book one row."""
    now = Tally.of(row)
    swapped_at = _swapped_at(status, row.revision) or window.swapped_at
    if swapped_at != window.swapped_at:  # swapped in again: what it did the last time is old evidence
        window = replace(window, swapped_at=swapped_at, base=window.last, carried=Tally(), young=window.last)
    if lie := now.impossible(row.steps):
        return replace(window, last=now, state=PodState.IMPOSSIBLE, lie=lie)
    if window.state is PodState.IMPOSSIBLE or now.fell_below(window.last):
        return replace(window, base=now, last=now, young=now, state=PodState.WENT_BACK, lie="")
    return replace(window, last=now, state=PodState.COUNTING, lie="")


def _rolled(window: Window) -> Window:
    """Move a settled drafter's baseline on once enough new requests were seen."""
    if window.last.requests - window.young.requests < WINDOW_REQUESTS:
        return window
    return replace(window, carried=Tally(), base=window.young, young=window.last)


def _swapped_at(status: Status, revision: str) -> str:
    candidate = status.candidate
    return candidate.swapped_at if candidate and candidate.revision == revision else ""
