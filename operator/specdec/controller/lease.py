"""Leader election by a Lease: one process decides, and it stops before another one may begin.

The holder renews every 2 s and stops 10 s after its last success by a clock that never jumps; others take
over once they have seen the Lease unchanged for 15 s. While the API server is away nobody decides and nobody
can take over: when it is back, whose name still stands goes on with what it knows. The epoch rises with every change of the holder and
goes into every command: an agent refuses a smaller one, so a holder that was asleep can do no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specdec.controller import metrics
from specdec.controller.clock import Clock
from specdec.controller.kinds import LEASE
from specdec.controller.kube import ConflictError, Kube, KubeError
from specdec.rollout.clock import exact

log = logging.getLogger(__name__)

NAME = "specdec-operator"
DURATION_SECONDS = 15
RENEW_DEADLINE_SECONDS = 10.0
RETRY_SECONDS = 2.0
REGAIN_SECONDS = 0.5
"""Between two attempts to get it back."""

Manifest = dict[str, Any]


class LeaseLostError(Exception):
    """Another process has taken the Lease: this one ends."""


@dataclass
class Lease:
    """The right to decide."""

    kube: Kube
    clock: Clock
    namespace: str
    identity: str
    epoch: int = 0
    regained: Callable[[], None] = lambda: None
    """Called when it is held again after it was not."""
    _renewed: float = field(default=float("-inf"))
    _taken_by: str = ""
    """Who has it after this process had it."""
    _seen: tuple[str, float] = ("", 0.0)
    """Version of another's Lease and when it was first seen."""

    def held(self) -> bool:
        """Say whether this process may still decide."""
        return self.clock.monotonic() - self._renewed < RENEW_DEADLINE_SECONDS

    async def acquire(self) -> None:
        """Wait until this process is the one."""
        while True:
            if await self._attempt():
                break
            await asyncio.sleep(RETRY_SECONDS)
        metrics.LEADER.set(1)
        log.info("%s holds the lease %s/%s, epoch %d", self.identity, self.namespace, NAME, self.epoch)

    async def keep(self) -> None:
        """Renew for ever.

        Raises
        ------
        LeaseLostError
            Somebody else took it.
        """
        held = True
        while not self._taken_by:
            await asyncio.sleep(RETRY_SECONDS if self.held() else REGAIN_SECONDS)
            await self._attempt()
            if self.held() is not held:
                held = not held
                self._turned(held)
        metrics.LEADER.set(0)
        raise LeaseLostError(f"{self._taken_by} has taken the lease {self.namespace}/{NAME}")

    def _turned(self, held: bool) -> None:
        metrics.LEADER.set(held)
        if held:
            log.info("the lease is held again: %s goes on", self.identity)
            self.regained()
        else:
            log.warning("the lease was not renewed for %.0f s: nothing is decided", RENEW_DEADLINE_SECONDS)

    async def release(self) -> None:
        """Give it back, so that the next process need not wait."""
        if not self.held():
            return
        self._renewed = float("-inf")
        metrics.LEADER.set(0)
        try:
            lease = await self.kube.get(LEASE, self.namespace, NAME)
            if lease is not None and lease["spec"].get("holderIdentity") == self.identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self.kube.replace(LEASE, self.namespace, lease)
        except KubeError as error:
            log.warning("lease not released: %s", error)

    async def _attempt(self) -> bool:
        """Renew or take the Lease; says whether it is ours now."""
        # The time before the request counts: its answer may take long.
        started = self.clock.monotonic()
        try:
            async with asyncio.timeout(RENEW_DEADLINE_SECONDS / 2):
                lease = await self.kube.get(LEASE, self.namespace, NAME)
                written = await self._write(lease)
        except ConflictError:
            return False
        except (KubeError, TimeoutError) as error:
            # An outage is told once, not at every attempt.
            level = logging.WARNING if self.held() or not self.epoch else logging.DEBUG
            log.log(level, "lease: %s", str(error) or "no answer in time")
            return False
        if written is None:
            return False
        self._renewed = started
        self.epoch = int(written["spec"].get("leaseTransitions", 0))
        return True

    async def _write(self, lease: Manifest | None) -> Manifest | None:
        now = exact(self.clock.now())
        if lease is None:
            return await self.kube.create(LEASE, self.namespace, self._first(now))
        spec = lease["spec"]
        if spec.get("holderIdentity") == self.identity:
            lease["spec"] = {**spec, "renewTime": now}
            return await self.kube.replace(LEASE, self.namespace, lease)
        if self.epoch:
            self._taken_by = spec.get("holderIdentity") or "another process"
            return None
        if not self._expired(lease):
            return None
        transitions = int(spec.get("leaseTransitions", 0)) + 1
        lease["spec"] = self._spec(now, transitions)
        return await self.kube.replace(LEASE, self.namespace, lease)

    def _expired(self, lease: Manifest) -> bool:
        """Say whether a holder was silent for its whole duration, by our clock and never by its own."""
        if not lease["spec"].get("holderIdentity"):
            return True
        version, now = lease["metadata"]["resourceVersion"], self.clock.monotonic()
        if version != self._seen[0]:
            self._seen = (version, now)
        return now - self._seen[1] >= float(lease["spec"].get("leaseDurationSeconds", DURATION_SECONDS))

    def _first(self, now: str) -> Manifest:
        # Minutes since 1970: a Lease that is made anew after an uninstall still has the highest epoch ever seen.
        metadata = {"name": NAME, "namespace": self.namespace}
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": metadata,
            "spec": self._spec(now, int(self.clock.now() // 60)),
        }

    def _spec(self, now: str, transitions: int) -> Manifest:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION_SECONDS,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
