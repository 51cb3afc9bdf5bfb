"""The serving drafter's tensors: what a swap may write, and that it stays where it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.engine.plugin import checkpoint
from specdec.engine.plugin.refusal import RefusedError


@dataclass(frozen=True)
class Serving:
    """The draft model as it serves, taken once when the scheduler is up."""

    model: Any
    worker: Any
    """SGLang's draft worker: holds the token map that captured graphs read."""
    config: dict[str, Any]
    """The config.json that the engine started with."""
    target_pointers: frozenset[int]
    pointers: dict[str, int]
    vocabulary: int
    pinned: bool

    @property
    def token_map(self) -> Any:
        """Target ids of the draft vocabulary, on the engine's device; None without one."""
        return self.worker.hot_token_id

    def host_memory(self, size: int) -> Any:
        """Bytes to stage a drafter in, pinned where the drafter is on a GPU: copies are then fast."""
        import torch

        return torch.empty(size, dtype=torch.uint8, pin_memory=self.pinned)

    def check_pointers(self) -> None:
        """Every tensor of the draft model lies where captured graphs know it.

        Raises
        ------
        RefusedError
            Something else has rebound a tensor since the start.
        """
        now = _pointers(self.model, self.worker)
        moved = sorted(
            name for name in self.pointers.keys() | now.keys() if self.pointers.get(name) != now.get(name)
        )
        if moved:
            raise RefusedError(
                "TensorsMoved", f"the serving drafter's tensors were rebound: {', '.join(moved)}"
            )


def take(scheduler: Any) -> Serving:
    """Look at the drafter of a scheduler that is up."""
    import torch

    worker = scheduler.draft_worker.draft_worker
    runner = worker.draft_runner
    target = scheduler.tp_worker.model_runner
    return Serving(
        model=runner.model,
        worker=worker,
        config=checkpoint.read_config(Path(scheduler.server_args.speculative_draft_model_path)),
        target_pointers=frozenset(
            tensor.data_ptr()
            for tensor in (*target.model.parameters(), *target.model.buffers())
            if tensor.data_ptr()
        ),
        pointers=_pointers(runner.model, worker),
        vocabulary=int(target.model_config.vocab_size),
        pinned=torch.cuda.is_available() and str(runner.device).startswith("cuda"),
    )


def _pointers(model: Any, worker: Any) -> dict[str, int]:
    pointers = dict(_reachable(model))
    if worker.hot_token_id is not None:
        pointers["worker.hot_token_id"] = worker.hot_token_id.data_ptr()
    return pointers


def _reachable(model: Any) -> Iterator[tuple[str, int]]:
    """Parameters, buffers and plain tensor attributes of all modules, with their addresses."""
    import torch

    for prefix, module in model.named_modules():
        stores = (module._parameters, module._buffers, module.__dict__)  # noqa: SLF001 - named_* drop duplicates
        for store in stores:
            for name, value in store.items():
                if isinstance(value, torch.Tensor):
                    yield f"{prefix}.{name}", value.data_ptr()
