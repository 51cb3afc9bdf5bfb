"""Patch `swap`: copy a staged drafter into the serving one, between two batches, on all ranks or on none.

Symptom: SGLang's own disk update touches the target, reads its bad checkpoint again to "roll back", kills the
engine on a wrong shape, keeps old weights for unknown names, and leaves draft KV of the old drafter behind.
Upstream: WeightUpdater.update_weights_from_disk, 0.5.17 to 0.5.23 (never used here).
In force: a commit's outcome is `done` with its pause, and `Report.revision` is the new one.

Sound because: everything was checked in a shadow before; storage is copied into storage, so addresses that
captured graphs hold stay valid, also of what the model computes from its weights (`derived`); a parameter that
the target owns is never written; the cache key changes with every commit (`admission`), so no request reads
draft KV that another drafter wrote.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from specdec.engine.loopback import BUSY, Commit, Outcome, Stage
from specdec.engine.plugin import admission, derived, shadow
from specdec.engine.plugin.hooks import Patch
from specdec.engine.plugin.load import in_flight
from specdec.engine.plugin.refusal import RefusedError
from specdec.engine.plugin.serving import Serving, take
from specdec.engine.plugin.staging import Staged, stage
from specdec.engine.plugin.state import Engine

log = logging.getLogger("specdec")

KEPT = 2
"""Drafters that host memory is taken for: the candidate and the one to go back to."""


class Stages:
    """Staged drafters by the number of their order."""

    def __init__(self) -> None:
        self._staged: OrderedDict[int, Staged] = OrderedDict()
        self._lock = threading.Lock()
        self._serving: Serving | None = None
        self._obstacle: RefusedError | None = None
        self._free: list[Any] = []

    def start(self, state: Engine) -> None:
        """Look at the serving drafter and take the host memory, once, before the engine serves.

        Pinned memory for 2 GB takes seconds to get, and the driver would make the serving engine wait for it.
        """
        if not state.drafts:
            return
        serving = self._serving = take(state.scheduler)
        try:
            shadow.check(serving.model)
        except RefusedError as obstacle:
            self._obstacle = obstacle
            return
        size = shadow.size(serving.model, serving.target_pointers)
        self._free = [serving.host_memory(size) for _ in range(KEPT)]

    def begin(self, state: Engine, number: int, order: Stage) -> None:
        """Stage in a thread; the outcome tells when it is done."""
        serving, buffer = self._of(state), self._buffer()
        state.note(Outcome(number=number, state="working"))
        threading.Thread(
            target=self._stage,
            args=(state, serving, buffer, number, order),
            name=f"specdec-stage-{number}",
            daemon=True,
        ).start()

    def find(self, number: int) -> Staged | None:
        """Return what an order staged, if it still is."""
        with self._lock:
            return self._staged.get(number)

    def commit(self, state: Engine, order: Commit) -> Outcome:
        """Copy; called by the scheduler's thread between two batches, after all ranks voted for it."""
        staged, serving = self.find(order.stage), self._of(state)
        if staged is None:
            raise RefusedError("NotStaged", f"order {order.stage} has staged no drafter")
        began = time.perf_counter()
        serving.check_pointers()
        flying = in_flight(state)
        _copy(serving, staged)
        state.revision = staged.revision
        state.generation += 1
        state.load = staged.load
        admission.restamp_waiting(state)
        serving.check_pointers()
        pause = time.perf_counter() - began
        return Outcome(number=0, state="done", seconds=f"{pause:.6f}", in_flight=flying)

    def _of(self, state: Engine) -> Serving:
        if self._serving is None:
            raise RefusedError("NoDrafter", f"revision {state.revision!r} was started without a drafter")
        if self._obstacle is not None:
            raise self._obstacle
        return self._serving

    def _buffer(self) -> Any:
        """Host memory for one drafter; the one that was staged longest ago makes room."""
        with self._lock:
            if not self._free and len(self._staged) == KEPT:
                self._free.append(self._staged.popitem(last=False)[1].buffer)
            if not self._free:
                raise RefusedError(BUSY, "another drafter is being staged")
            return self._free.pop()

    def _stage(self, state: Engine, serving: Serving, buffer: Any, number: int, order: Stage) -> None:
        began = time.perf_counter()
        reason, message = "", ""
        try:
            _step_aside()
            staged = stage(serving, Path(order.overlay), order.revision, buffer)
            message = staged.load.sentence
        except RefusedError as error:
            reason, message = error.reason, error.message
        except Exception as error:
            # An exception that only ended this thread would leave the order "working" for ever.
            log.exception("order %d failed", number)
            reason, message = "InternalError", repr(error)
        with self._lock:
            if reason:
                self._free.append(buffer)
            else:
                self._staged[number] = staged
        took = f"{time.perf_counter() - began:.6f}"
        state.note(
            Outcome(
                number=number,
                state="refused" if reason else "done",
                reason=reason,
                message=message,
                seconds=took,
            )
        )


def _step_aside() -> None:
    """Let the scheduler's thread go first: one core for staging, and the lowest priority for this thread."""
    import torch

    torch.set_num_threads(1)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)


def _copy(serving: Serving, staged: Staged) -> None:
    """Overwrite the serving drafter's storage. Shapes and types were compared when it was staged."""
    import torch

    _synchronize(serving)
    own = dict(serving.model.named_parameters())
    with torch.no_grad():
        for name, tensor in staged.weights.items():
            parameter = own[name]
            # The shadow left out what the target owns; should it ever be wrong, the target must not pay.
            if parameter.data_ptr() in serving.target_pointers:
                continue
            parameter.data.copy_(tensor, non_blocking=True)
        derived.refresh(serving.model)
        for token_map in (serving.token_map, serving.model.hot_token_id):
            if token_map is not None:
                token_map.copy_(staged.token_map)
    _synchronize(serving)


def _synchronize(serving: Serving) -> None:
    """With overlap scheduling a batch may still read the old weights on another stream."""
    import torch

    if serving.pinned:
        torch.cuda.synchronize()


PATCH = Patch("swap", (admission.HOOK,))
