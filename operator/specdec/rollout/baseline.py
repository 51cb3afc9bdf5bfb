"""What engines showed when they started, as the status keeps it: it changes with a warm-up or a swap and never at rest."""

from __future__ import annotations

from specdec.api.warmup import WarmupSpeed, WarmupStatus
from specdec.engine.protocol import Status, WarmUp
from specdec.rollout.clock import seconds
from specdec.rollout.passing import Pass


def warmup(done: Pass) -> WarmupStatus | None:
    """Show the warm-up that ended last, of engines that are there and of those that went."""
    newest = done.before.warmup
    for _, status in done.scene.engines:
        found = status.warmup
        if found is not None and found.revision:
            newest = max(filter(None, (newest, _shown(status, found))), key=_age)
    return newest


def drafter_load(done: Pass) -> str:
    """Show how the active drafter was read; replicas read the same files, so what one of them says stays."""
    active = done.active
    if active is None:
        return ""
    said = [status.load for _, status in done.scene.engines if status.revision == active.name and status.load]
    shown = done.before
    if not said and shown.active is not None and shown.active.revision == active.name:
        return shown.drafter_load
    return shown.drafter_load if shown.drafter_load in said else next(iter(said), "")


def _age(shown: WarmupStatus) -> tuple[float, int, int]:
    """Rank by time; an agent with much to say leaves out what it said before (`engine.agent.board`)."""
    return seconds(shown.at) or 0.0, len(shown.speeds), len(shown.message)


def _shown(status: Status, found: WarmUp) -> WarmupStatus:
    return WarmupStatus(
        revision=found.revision,
        accept_length=f"{float(found.accept_length):.2f}" if found.accept_length else "",
        per_position=found.per_position,
        speeds=tuple(
            WarmupSpeed(batch=speed.batch, drafting=speed.on, without=speed.off) for speed in found.speeds
        ),
        answers=found.answers.value,
        images="" if found.images is None else "Answered" if found.images else "Failed",
        plain_off=status.plain,
        message=found.message,
        at=found.at,
    )
