"""Which revisions are kept: what may be returned to or refused, and the newest of the rest."""

from __future__ import annotations

from specdec.rollout.aim import last_good
from specdec.rollout.quarantine import MOST_ENTRIES, rejected
from specdec.rollout.scene import Scene
from specdec.rollout.world import RevisionRecord


def forgotten(scene: Scene, launched: RevisionRecord) -> tuple[dict[str, str], ...]:
    """Revisions to delete: the oldest beyond the limit, and rejections beyond what the status can show."""
    spare = [record for record in scene.records if record.name not in _needed(scene, launched) and record.uid]
    spare.sort(key=lambda record: record.number, reverse=True)
    refusals = [record for record in spare if rejected(record)][MOST_ENTRIES:]
    rest = [record for record in spare if not rejected(record)][scene.spec.revision_history_limit :]
    return tuple(
        {"kind": "ControllerRevision", "name": record.name, "uid": record.uid}
        for record in (*refusals, *rest)
    )


def _needed(scene: Scene, launched: RevisionRecord) -> set[str]:
    """Revisions that serve somewhere, may be returned to, or are asked for."""
    good = last_good(scene.records)
    statuses = [pod.status for pod in scene.world.pods if pod.status]
    candidates = {status.candidate.revision for status in statuses if status.candidate}
    return {
        launched.name,
        scene.desired.name,
        scene.rollout.pinned_revision or "",
        good.name if good else "",
        *candidates,
        *(status.revision for status in statuses),
        *(status.promoted for status in statuses),
    }
