"""What could not be carried out, said in the status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specdec.api.base import Condition
from specdec.api.conditions import ConditionType, Reason, settle
from specdec.api.v1alpha1 import SpecDecodeServerStatus
from specdec.rollout.clock import text


def with_failures(
    status: SpecDecodeServerStatus, failed: Sequence[str], *, generation: int, now: float
) -> SpecDecodeServerStatus:
    """Add what failed to a planned status; the plan assumed that everything works."""
    if not failed:
        return status
    failing = Condition(
        type=ConditionType.RECONCILING,
        status="True",
        observed_generation=generation,
        last_transition_time=text(now),
        reason=Reason.APPLY_FAILED,
        message="; ".join(failed)[:1024],
    )
    condition = settle(failing, status.conditions)
    there = {item.type: item for item in status.conditions} | {condition.type: condition}
    return status.model_copy(update={"conditions": tuple(there.values()), "reason": Reason.APPLY_FAILED})


def unanswered(status: SpecDecodeServerStatus, before: SpecDecodeServerStatus) -> SpecDecodeServerStatus:
    """Take a planned answer to a person's request back: what it rests on was not written, the next pass answers."""
    kept = {"last_handled_request": before.last_handled_request, "last_answer": before.last_answer}
    return status.model_copy(update=kept)


def unreadable(server: dict[str, Any], sentence: str, now: float) -> dict[str, Any]:
    """Status that a server has, but stalled: the rest of it is all that is known of what serves."""
    metadata, before = server["metadata"], server.get("status", {})
    conditions = {item["type"]: item for item in before.get("conditions", ())}
    known = conditions.get(ConditionType.STALLED, {})
    stalled = Condition(
        type=ConditionType.STALLED,
        status="True",
        observed_generation=metadata.get("generation", 0),
        last_transition_time=known["lastTransitionTime"] if known.get("status") == "True" else text(now),
        reason=Reason.INVALID_SPEC,
        message=sentence,
    )
    conditions[ConditionType.STALLED] = stalled.model_dump(mode="json", by_alias=True)
    return {**before, "conditions": list(conditions.values()), "reason": Reason.INVALID_SPEC.value}
