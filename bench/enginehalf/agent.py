"""What the agent adds: memory beside the engine, and seconds to a start."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.agentpod import AgentPod
from tests.support.engine import START_SECONDS, Launch, models, seeing, start, tail
from tests.support.enginepod import engine_pod

from bench.results import Row, measured
from specdec.engine.protocol import CandidateState, Phase, Swap

STARTS = 3
POLLS = 40
POLL_SECONDS = 0.25
"""How often the operator asks while a candidate is judged."""
READY = "The server is fired up and ready to roll!"
"""SGLang's log line after its own warm-up, if it has one."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Started:
    """Where the seconds of one start with the agent went."""

    in_all: float
    before: float
    """Until the agent had started SGLang's process."""
    after: float
    """From SGLang's first answer on: warm-up and digest."""


def rows() -> list[Row]:
    """Start with the agent and without, in turns; keep the last pod to weigh."""
    # SGLang's own warm-up of a target with a vision tower is a picture, so all get one that sees.
    target = seeing()
    silent, warmed, with_agent, memory = [], [], [], []
    for number in range(STARTS):
        silent.append(_alone(target, warms=False))
        warmed.append(_alone(target, warms=True))
        with tempfile.TemporaryDirectory(prefix="pod-") as folder:
            pod = engine_pod(Path(folder), models()["kimi"].parent)
            try:
                with_agent.append(_with_agent(pod, target))
                if number == STARTS - 1:
                    memory = _weighed(pod)
            finally:
                pod.kill_container()
    own = [one.before + one.after for one in with_agent]
    before, after = (
        statistics.median(values)
        for values in zip(*((one.before, one.after) for one in with_agent), strict=True)
    )
    return [
        measured("agent: memory beside the engine, under load after a swap", memory, "MB", 80),
        measured("start with the agent until it serves", [one.in_all for one in with_agent], "s"),
        measured("start of stock SGLang until its own warm-up is over", warmed, "s"),
        measured("start of stock SGLang that warms nothing up", silent, "s"),
        measured("agent: seconds added to a start", _added(with_agent, warmed), "s", 2, "stock SGLang, in turns"),
        measured("agent: seconds added to a start that warms nothing up", _added(with_agent, silent), "s", 2, "stock SGLang, in turns"),
        Row("agent: of a start, before SGLang's process and after its first answer", round(statistics.median(own), 2), "s",
            n=STARTS, spread=f"{before:.2f} before, {after:.2f} after"),
    ]  # fmt: skip


def _added(with_agent: list[Started], alone: list[float]) -> list[float]:
    return [one.in_all - other for one, other in zip(with_agent, alone, strict=True)]


def _alone(target: Path, *, warms: bool) -> float:
    """Seconds that stock SGLang takes until it says that it is ready."""
    began = time.monotonic()
    engine = start(Launch("good", plugin=False, target=target, warms=warms))
    try:
        while READY not in engine.log.read_text(errors="replace"):
            if engine.process.poll() is not None or time.monotonic() - began > START_SECONDS:
                raise RuntimeError(f"SGLang did not start:\n{tail(engine.log)}")
            time.sleep(0.05)
        return time.monotonic() - began
    finally:
        engine.stop()


def _with_agent(pod: AgentPod, target: Path) -> Started:
    """Seconds that a pod takes until it serves."""
    pod.write_plan("good", target_path=str(target))
    began = time.monotonic()
    pod.start()
    answered = _reached(pod, Phase.WARMING_UP)
    ended = _reached(pod, Phase.SERVING)
    if pod.process is None:
        raise RuntimeError("a pod that serves has an agent")
    before = _began(pod.engine_pid()) - _began(pod.process.pid)
    return Started(ended - began, before, ended - answered)


def _reached(pod: AgentPod, phase: Phase) -> float:
    """When a pod came to a phase; it is asked as the operator asks, which costs a start less than many looks."""
    deadline, query = time.monotonic() + START_SECONDS, ""
    while time.monotonic() < deadline:
        try:
            status = pod.status(query)
        except OSError:
            time.sleep(0.05)
            continue
        if status.phase is phase:
            return time.monotonic()
        query = f"?since={status.serial}&wait=10"
    raise RuntimeError(f"the pod did not come to {phase.value} within {START_SECONDS} s:\n{pod.log[-3000:]}")


def _weighed(pod: AgentPod) -> list[float]:
    """MB of the agent's process while a candidate serves and the operator polls."""
    pod.command(Swap(drafter=pod.drafter("q70"), confirm_within_seconds=60))
    pod.wait(
        lambda status: bool(status.candidate and status.candidate.state is CandidateState.SERVING),
        60,
        "the candidate serves",
    )
    found = []
    for number in range(POLLS):
        pod.status()
        pod.chat(f"question {number}", tokens=16)
        found.append(_resident(pod))
        time.sleep(POLL_SECONDS)
    return found


def _resident(pod: AgentPod) -> float:
    assert pod.process is not None  # noqa: S101
    text = Path(f"/proc/{pod.process.pid}/status").read_text()
    (kilobytes,) = (line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:"))
    return int(kilobytes) / 1024


def _began(pid: int) -> float:
    """When a process began, seconds since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[19]) / TICKS
