"""The report: one JSON line for everyone who connects to the scheduler's Unix socket, from a thread."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import socket
import threading

from specdec.engine.loopback import Report
from specdec.engine.plugin import drafting, plain_decode, routes
from specdec.engine.plugin.load import in_flight
from specdec.engine.plugin.state import Engine

log = logging.getLogger("specdec")


def build(state: Engine, rank: int) -> Report:
    """Say what this scheduler is."""
    closed = routes.closed_by(state.settings.run_dir, os.getppid())
    return Report(
        rank=rank,
        sglang=importlib.metadata.version("sglang"),
        patches=(*state.patches, *((routes.PATCH.name,) if closed else ())),
        revision=state.revision,
        steps=drafting.steps_in_force(state),
        states=drafting.states(state),
        plain=plain_decode.ready(state),
        in_flight=in_flight(state),
        load=state.load,
        outcomes=state.outcomes(),
        counters=state.counters.snapshot(),
    )


def serve(state: Engine, rank: int) -> None:
    """Answer connections from now on, in a thread."""
    path = state.settings.run_dir / f"scheduler-{rank}.sock"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Bound under another name first: the path must not exist before it answers.
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    listener.bind(str(fresh))
    fresh.chmod(0o600)
    listener.listen(8)
    fresh.rename(path)
    threading.Thread(target=_answer, args=(listener, state, rank), name="specdec-report", daemon=True).start()


def _answer(listener: socket.socket, state: Engine, rank: int) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.settimeout(2)
                connection.sendall(build(state, rank).model_dump_json(by_alias=True).encode() + b"\n")
            except Exception:
                # The next one who asks must still be answered.
                log.exception("a report could not be given")
