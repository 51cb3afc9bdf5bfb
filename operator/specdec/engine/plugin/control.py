"""Patch `control`: the agent's orders reach every rank's scheduler between the same two batches.

Symptom: SGLang's control calls that could carry more than a number take the writer lock, so they wait for
every request in flight. `set_internal_state` waits for none, but takes numbers only: ours names a file.
Upstream: Scheduler.set_internal_state, 0.5.17 to 0.5.23.
In force: an order's outcome appears in `Report.outcomes`.
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic import TypeAdapter

from specdec.engine.loopback import COMMAND_KEY, Commit, Order, Outcome, Stage, Steps
from specdec.engine.plugin import drafting
from specdec.engine.plugin.hooks import Hook, Patch
from specdec.engine.plugin.refusal import RefusedError
from specdec.engine.plugin.state import Engine, engine
from specdec.engine.plugin.swap import Stages
from specdec.engine.plugin.vote import all_agree

log = logging.getLogger("specdec")
_orders: TypeAdapter[Order] = TypeAdapter(Order)
STAGES = Stages()


def take_order(original: Any, scheduler: Any, recv_req: Any) -> Any:
    """Around Scheduler.set_internal_state."""
    number = recv_req.server_args.get(COMMAND_KEY)
    if number is None:
        return original(scheduler, recv_req)
    from sglang.srt.managers.io_struct import SetInternalStateReqOutput

    obey(engine(), int(number))
    return SetInternalStateReqOutput(updated=True)


def obey(state: Engine, number: int) -> None:
    """Carry out one order. All ranks or none: a rank that went alone would hang the others."""
    order: Stage | Commit | Steps | None = None
    try:
        order = _read(state, number)
    except (OSError, ValueError) as error:
        problem = f"order {number} can't be read: {error}"
    else:
        problem = "another rank could not read the order"
    if not all_agree(state.scheduler, agreed=order is not None):
        state.note(Outcome(number=number, state="refused", reason="OrderUnreadable", message=problem))
        return
    try:
        outcome = _carry_out(state, number, order)
    except RefusedError as error:
        outcome = Outcome(number=number, state="refused", reason=error.reason, message=error.message)
    except Exception as error:
        # An exception here would end the scheduler, and with it every user's request.
        log.exception("order %d failed", number)
        outcome = Outcome(number=number, state="refused", reason="InternalError", message=repr(error))
    if outcome is not None:
        state.note(outcome.model_copy(update={"number": number}))
        log.info("order %d: %s", number, outcome)


def _carry_out(state: Engine, number: int, order: Stage | Commit | Steps | None) -> Outcome | None:
    match order:
        case Stage():
            STAGES.begin(state, number, order)
            return None
        case Commit():
            if not all_agree(state.scheduler, agreed=STAGES.find(order.stage) is not None):
                raise RefusedError("NotStaged", f"not every rank has staged order {order.stage}")
            return STAGES.commit(state, order)
        case Steps():
            drafting.set_steps(state, order.steps, warm=order.warm)
            return Outcome(number=number, state="done")
        case None:
            raise RefusedError("OrderUnreadable", f"order {number} can't be read")


def _read(state: Engine, number: int) -> Stage | Commit | Steps:
    path = state.settings.run_dir / "commands" / f"{number}.json"
    return _orders.validate_json(path.read_bytes())


PATCH = Patch(
    "control",
    (Hook("sglang.srt.managers.scheduler.Scheduler.set_internal_state", take_order, ("self", "recv_req")),),
)
