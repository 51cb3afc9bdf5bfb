"""Look-ups of the claims that servers name: claims carry no label of ours, so they are asked for by name."""

from __future__ import annotations

from dataclasses import dataclass, field

from specdec.controller.clock import Clock
from specdec.controller.kinds import CLAIM
from specdec.controller.kube import ForbiddenError, Kube
from specdec.rollout.world import ClaimView

FRESH_SECONDS = 15.0
"""A claim is asked for again after this long: a missing one that appears is noticed in time."""


@dataclass
class Claims:
    """Remembers each claim for a while; passes come many times a second during a rollout."""

    kube: Kube
    clock: Clock
    _known: dict[tuple[str, str], tuple[float, ClaimView]] = field(default_factory=dict)

    async def views(self, namespace: str, names: tuple[str, ...]) -> tuple[ClaimView, ...]:
        """Views of the named claims."""
        return tuple([await self._view(namespace, name) for name in names])

    async def _view(self, namespace: str, name: str) -> ClaimView:
        now = self.clock.monotonic()
        at, view = self._known.get((namespace, name), (-FRESH_SECONDS, None))
        if view is None or now - at >= FRESH_SECONDS:
            view = await self._ask(namespace, name)
            self._known[namespace, name] = (now, view)
        return view

    async def _ask(self, namespace: str, name: str) -> ClaimView:
        try:
            claim = await self.kube.get(CLAIM, namespace, name)
        except ForbiddenError:
            # Not seeing is no reason to hold a server back: the kubelet sees whether it is there.
            return ClaimView(name, exists=True)
        if claim is None:
            return ClaimView(name, exists=False)
        return ClaimView(name, exists=True, access_modes=tuple(claim["spec"].get("accessModes", ())))
