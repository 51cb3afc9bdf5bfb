"""The agent's start-up ladder: graph capture hangs on purpose, the next rung serves."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.gpu.observer import HANG_ABOVE
from tests.gpu.rows import Rows, say
from tests.gpu.servers import ARGUMENTS, ENVIRONMENT
from tests.support.agentpod import AgentPod
from tests.support.models import KIMI_LATENT, DrafterShape, drafter, kimi

from specdec.engine.protocol import Phase, Status

STALL_SECONDS = 60
"""Longer than any kernel takes to compile at the first start."""
DEADLINE_SECONDS = 480


def ladder(out: Path, rows: Rows) -> None:
    """The first start hangs in graph capture above batch 8; the agent notices, and starts with less."""
    folder = Path(tempfile.mkdtemp(prefix="pod-"))
    models = Path("models-ladder").absolute()
    kimi(models / "kimi", KIMI_LATENT)
    drafter(models / "q70", DrafterShape(quality=0.7))
    profile = folder / "engine.json"
    profile.write_text(
        json.dumps({"version": "0.5.17", "platform": "cuda", "args": ARGUMENTS, "env": ENVIRONMENT})
    )
    pod = AgentPod(folder, models, Path(sys.executable), profile, 31300, 31310, environment={HANG_ABOVE: "8"})
    pod.write_plan("q70", stall_seconds=STALL_SECONDS)
    began = time.monotonic()
    pod.start()
    try:
        status = _watch(pod, began, rows)
        say(rows, "ladder: serving after", time.monotonic() - began, "s", rung=status.rung, steps=status.steps,
            accept_length=str(status.warmup.accept_length) if status.warmup else "")  # fmt: skip
        code, _ = pod.chat("hello")
        say(rows, "ladder: a user's request is answered", code, "HTTP")
    finally:
        (out / "log-ladder.txt").write_text(pod.log)
        pod.kill_container()


def _watch(pod: AgentPod, began: float, rows: Rows) -> Status:
    """Note each phase of each start with its seconds, until it serves."""
    last, since = ("", "", ""), began
    while time.monotonic() - began < DEADLINE_SECONDS:
        try:
            status = pod.status()
        except OSError:
            time.sleep(0.2)
            continue
        now = (status.boot, status.rung, status.phase.value)
        if now != last:
            if last[0]:
                say(
                    rows,
                    "ladder: phase",
                    time.monotonic() - since,
                    "s",
                    phase=last[2],
                    rung=last[1] or "as asked",
                )
            last, since = now, time.monotonic()
            if status.phase is Phase.FAILED:
                print(status.reason, status.message)
                say(rows, "ladder: a start failed", time.monotonic() - began, "s at", reason=status.reason)
        if status.phase is Phase.SERVING:
            return status
        time.sleep(0.1)
    raise TimeoutError(f"not serving after {DEADLINE_SECONDS} s: {pod.log[-2000:]}")
