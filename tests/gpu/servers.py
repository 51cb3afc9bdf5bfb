"""SGLang's servers of the GPU lane: side by side on one GPU, so that each is measured beside the others."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.engine import STEPS, Engine, EngineEndedError, tail
from tests.support.load import Load, prompts

from specdec.engine import loopback

ARGUMENTS = (
    "--attention-backend", "triton", "--sampling-backend", "pytorch", "--grammar-backend", "none",
    "--context-length", "512", "--max-total-tokens", "24000", "--cuda-graph-max-bs", "32",
    "--mem-fraction-static", "0.7", "--trust-remote-code",
)  # fmt: skip
"""What each server has, whoever starts it."""
OWN_ARGUMENTS = (
    "--enable-metrics", "--skip-server-warmup", "--max-running-requests", "32", "--decode-log-interval", "1000",
)  # fmt: skip
"""What the agent renders by itself."""
ENVIRONMENT = {
    "SGLANG_IS_FLASHINFER_AVAILABLE": "false", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "SGLANG_ENABLE_JIT_DEEPGEMM": "false",
}  # fmt: skip
NO_PLUGINS = {"SGLANG_PLUGINS": "none"}
"""SGLang's own switch: no plugin of any name is even imported."""
START_SECONDS = 330
LOAD_TOKENS = 100


@dataclass(frozen=True)
class Server:
    """One server to start."""

    name: str
    port: int
    target: Path
    drafter: Path | None = None
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    plugin: bool = True
    """Without, it is SGLang as it is; it then drafts with SGLang's fixed number of steps."""


@contextmanager
def running(out: Path, *wanted: Server) -> Iterator[list[Engine]]:
    """Start servers at once, wait until all serve, and end them."""
    began = time.monotonic()
    started = [start(server, out) for server in wanted]
    try:
        for server, engine in zip(wanted, started, strict=True):
            wait(engine, began, plugin=server.plugin)
        yield started
    finally:
        for engine in started:
            engine.stop()


def start(server: Server, out: Path) -> Engine:
    """Start a server; with drafter and plugin it can draft STEPS tokens or none."""
    # Unix sockets want short paths.
    run_dir = Path(tempfile.mkdtemp(prefix="lane-"))
    (run_dir / "commands").mkdir(parents=True)
    secret, prefix = secrets.token_hex(16), "probe-"
    arguments = [*ARGUMENTS, *OWN_ARGUMENTS, "--model-path", str(server.target)]
    arguments += ["--host", "127.0.0.1", "--port", str(server.port), *server.arguments]
    if server.drafter is not None:
        arguments += _drafting(server.drafter, run_dir if server.plugin else None)
    own = {
        loopback.RUN_DIR: str(run_dir), loopback.SECRET: secret, loopback.PROBE_PREFIX: prefix,
        loopback.REVISION: server.drafter.name if server.drafter else "", loopback.DRAFTING: "On",
    }  # fmt: skip
    environment = {
        **os.environ,
        **ENVIRONMENT,
        **(own if server.plugin else NO_PLUGINS),
        **server.environment,
    }
    log = out / f"log-{server.name}.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "sglang.launch_server", *arguments],
            stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
        )  # fmt: skip
    return Engine(process, server.port, run_dir, log, secret, prefix)


def _drafting(drafter: Path, adaptive_in: Path | None) -> list[str]:
    arguments = [
        "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(drafter),
        "--speculative-draft-model-quantization", "unquant", "--speculative-num-steps", str(STEPS),
        "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(STEPS + 1),
    ]  # fmt: skip
    if adaptive_in is None:
        return arguments
    adaptive = adaptive_in / "adaptive.json"
    adaptive.write_text(json.dumps({"1": {"candidate_steps": [0, STEPS]}}))
    return [*arguments, "--speculative-adaptive", "--speculative-adaptive-config", str(adaptive)]


def wait(engine: Engine, began: float, *, plugin: bool = True) -> float:
    """Wait until a server answers; returns the seconds since."""
    while time.monotonic() - began < START_SECONDS:
        if engine.process.poll() is not None:
            raise EngineEndedError(tail(engine.log, 20))
        if not plugin or (engine.run_dir / "scheduler-0.sock").exists():
            try:
                if engine.request("/health")[0] == 200:
                    return time.monotonic() - began
            except OSError:
                pass
        time.sleep(0.3)
    raise TimeoutError(tail(engine.log, 20))


def done(engine: Engine, order: Any) -> Any:
    """Give an order that must be carried out; returns its outcome."""
    outcome = engine.order(order)
    if outcome.state != "done":
        raise RuntimeError(f"{order}: {outcome}")
    return outcome


def swap(engine: Engine, folder: Path) -> tuple[float, float]:
    """Stage a drafter and commit it under its folder's name; returns the seconds of staging and of the pause."""
    began = time.perf_counter()
    staged = engine.stage(folder, folder.name)
    staging = time.perf_counter() - began
    if staged.state != "done":
        raise RuntimeError(f"{folder.name}: {staged}")
    return staging, float(done(engine, loopback.Commit(stage=staged.number)).seconds)


def at_once(engine: Engine, prompts: list[list[int]], tokens: int, temperature: float = 0) -> list[Any]:
    """Ask for all answers at the same time."""
    answers: list[Any] = [None] * len(prompts)

    def ask(place: int) -> None:
        answers[place] = engine.generate(prompts[place], tokens, temperature=temperature)

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if None in answers:
        raise RuntimeError(f"{answers.count(None)} of {len(answers)} requests failed")
    return answers


def load(engine: Engine, clients: int) -> Load:
    """So many clients that ask again and again for answers of LOAD_TOKENS."""
    return Load(lambda prompt: engine.generate(prompt, LOAD_TOKENS), clients, prompts())
