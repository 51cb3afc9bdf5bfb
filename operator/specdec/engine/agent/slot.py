"""The engine's one drafter: what is staged beside it, what serves, how many steps it drafts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specdec.engine.agent.judging import STANDARD, PreflightRefusedError
from specdec.engine.agent.loopback_client import OrderRefusedError
from specdec.engine.agent.staging import content_digest, make_overlay, same_contents, unchanged
from specdec.engine.agent.volumes import on_volume
from specdec.engine.loopback import BUSY, Commit, Stage, Steps
from specdec.preflight.checkpoint import CheckpointRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from specdec.api.preflight import Preflight
    from specdec.engine.agent.judging import Surroundings
    from specdec.engine.agent.loopback_client import Loopback
    from specdec.engine.agent.staging import Overlay
    from specdec.engine.loopback import Outcome
    from specdec.engine.protocol import DrafterRef
    from specdec.preflight.report import Report

STAGE_SECONDS = 300.0
COMMIT_SECONDS = 30.0
BUSY_SECONDS = 0.5
"""How often a drafter is ordered again while the plugin stages another: its thread can't be stopped."""
LINK_SECONDS = 30.0
"""Deadline for linking an overlay: a volume that takes longer hangs."""


@dataclass(frozen=True)
class Staged:
    """A drafter, ready to be committed."""

    overlay: Overlay
    digest: str
    number: int = 0
    """Number of its Stage order."""
    load: str = ""
    """How its tensors were read, in a sentence."""


def described(load: str, overlay: Overlay) -> str:
    """Say how a drafter was read, repairs first: they are what its author should know."""
    return "; ".join((*overlay.repairs, load) if load else overlay.repairs)


async def link(
    state: Path, models: Path, drafter: DrafterRef, around: Surroundings | None, wish: Preflight = STANDARD
) -> Overlay:
    """Judge a drafter and make its overlay, off the event loop.

    Raises
    ------
    CheckpointRefusedError
        The folder can't be served, or the volume hangs.
    """
    try:
        return await on_volume(LINK_SECONDS, make_overlay, state, models, drafter, around, wish)
    except TimeoutError as error:
        raise _hangs(drafter) from error
    except OSError as error:
        raise CheckpointRefusedError(
            "NotReadable", f"staging {drafter.path} failed ({error}): check the volume"
        ) from error


async def still(overlay: Overlay) -> None:
    """Make sure, off the event loop, that a drafter's files are those that were read.

    Raises
    ------
    CheckpointRefusedError
        They changed, or the volume hangs.
    """
    try:
        await on_volume(LINK_SECONDS, unchanged, overlay)
    except TimeoutError as error:
        raise _hangs(overlay.drafter) from error


def _hangs(drafter: DrafterRef) -> CheckpointRefusedError:
    return CheckpointRefusedError(
        "VolumeHangs", f"{drafter.path} could not be read within {LINK_SECONDS:.0f} s: check the volume"
    )


class DrafterSlot:
    """Orders on one running engine that was started with a drafter."""

    def __init__(
        self,
        loopback: Loopback,
        state_dir: Path,
        models_dir: Path,
        steps: int,
        *,
        around: Surroundings | None,
        first: Overlay,
    ) -> None:
        self.loopback = loopback
        self._around = around
        self._first = first
        """The drafter that SGLang was started with: its arguments are in force."""
        self.most_steps = steps
        self._state = state_dir
        self._models = models_dir
        self._steps: int | None = None
        """What the last order for steps said, if it was done."""
        self._newest: tuple[Path, int] | None = None
        """The drafter staged last; the plugin keeps two."""

    async def stage(
        self,
        drafter: DrafterRef,
        wish: Preflight = STANDARD,
        tell: Callable[[Report], None] = lambda _report: None,
    ) -> Staged:
        """Link a drafter, hash it and let the plugin read and check it, the last two side by side.

        `tell` gets what the preflight found, as soon as it is known.

        Raises
        ------
        CheckpointRefusedError, OrderRefusedError
            It can't be served.
        """
        overlay = await self._link(drafter, wish, tell)
        if (overlay.arguments, overlay.environment) != (self._first.arguments, self._first.environment):
            raise CheckpointRefusedError(
                "NotSwappable",
                f"the drafter needs other arguments ({' '.join(overlay.arguments) or 'none'}) than SGLang runs with"
                f" ({' '.join(self._first.arguments) or 'none'}): restart the pod with it",
            )
        digest = asyncio.create_task(content_digest(overlay))
        try:
            outcome = await self._stage(overlay)
            found = await digest
        finally:
            digest.cancel()
            await asyncio.gather(digest, return_exceptions=True)
        await still(overlay)
        await asyncio.to_thread(same_contents, self._state, drafter, found)
        return Staged(overlay, found, outcome.number, described(outcome.message, overlay))

    async def _link(self, drafter: DrafterRef, wish: Preflight, tell: Callable[[Report], None]) -> Overlay:
        try:
            overlay = await link(self._state, self._models, drafter, self._around, wish)
        except PreflightRefusedError as refusal:
            tell(refusal.report)
            raise
        if overlay.report is not None:
            tell(overlay.report)
        return overlay

    async def keep_staged(self, home: Staged) -> Staged:
        """Make sure that the way back stays one commit: stage `home` if it isn't what was staged last."""
        if self._newest == (home.overlay.folder, home.number):
            return home
        return replace(home, number=(await self._stage(home.overlay)).number)

    async def _stage(self, overlay: Overlay) -> Outcome:
        # Where this wait is cut off, the plugin stages on, and may let go of what was the newest.
        newest, self._newest = self._newest, None
        try:
            outcome = await self._staged_in_turn(overlay)
        except OrderRefusedError:
            self._newest = newest
            raise
        self._newest = (overlay.folder, outcome.number)
        return outcome

    async def _staged_in_turn(self, overlay: Overlay) -> Outcome:
        """Stage once the plugin has done with a drafter that nobody waits for any more."""
        order = Stage(overlay=str(overlay.folder), revision=overlay.drafter.revision)
        loop = asyncio.get_running_loop()
        until = loop.time() + STAGE_SECONDS
        while True:
            number = await self.loopback.order(order)
            try:
                return await self.loopback.settled(number, seconds=STAGE_SECONDS)
            except OrderRefusedError as refusal:
                if refusal.reason != BUSY or loop.time() >= until:
                    raise
            await asyncio.sleep(BUSY_SECONDS)

    async def commit(self, staged: Staged) -> Outcome:
        """Make a staged drafter serve; one that is staged no longer is staged again.

        Raises
        ------
        OrderRefusedError
            Not all ranks could.
        """
        try:
            return await self._commit(staged.number)
        except OrderRefusedError as refusal:
            if refusal.reason != "NotStaged":
                raise
        return await self._commit((await self._stage(staged.overlay)).number)

    async def _commit(self, stage: int) -> Outcome:
        number = await self.loopback.order(Commit(stage=stage))
        return await self.loopback.settled(number, seconds=COMMIT_SECONDS)

    async def draft(self, steps: int) -> None:
        """Draft with so many steps from the next batch on."""
        # The report can't tell: an idle engine shows the steps of its last batch.
        if self._steps == steps:
            return
        self._steps = None
        number = await self.loopback.order(Steps(steps=steps))
        await self.loopback.settled(number, seconds=COMMIT_SECONDS)
        self._steps = steps
