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
from pathlib import Path
from typing import Self

from tests.support.engine import STEPS, Engine, EngineEndedError, tail

from specdec.engine import loopback

ARGUMENTS = (
    "--attention-backend", "triton", "--sampling-backend", "pytorch", "--grammar-backend", "none", "--enable-metrics",
    "--skip-server-warmup", "--context-length", "512", "--max-total-tokens", "24000", "--cuda-graph-max-bs", "32",
    "--max-running-requests", "32", "--mem-fraction-static", "0.5", "--decode-log-interval", "1000", "--trust-remote-code",
)  # fmt: skip
ENVIRONMENT = {
    "SGLANG_IS_FLASHINFER_AVAILABLE": "false", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "SGLANG_ENABLE_JIT_DEEPGEMM": "false",
}  # fmt: skip
START_SECONDS = 300


def start(name: str, port: int, target: Path, drafter: Path | None, out: Path) -> Engine:
    """Start a server; with a drafter it can draft STEPS tokens or none."""
    # Unix sockets want short paths.
    run_dir = Path(tempfile.mkdtemp(prefix=f"lane-{name}-"))
    (run_dir / "commands").mkdir(parents=True)
    secret, prefix = secrets.token_hex(16), "probe-"
    arguments = [*ARGUMENTS, "--model-path", str(target), "--host", "127.0.0.1", "--port", str(port)]
    if drafter is not None:
        adaptive = run_dir / "adaptive.json"
        adaptive.write_text(json.dumps({"1": {"candidate_steps": [0, STEPS]}}))
        arguments += [
            "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(drafter),
            "--speculative-draft-model-quantization", "unquant", "--speculative-num-steps", str(STEPS),
            "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(STEPS + 1),
            "--speculative-adaptive", "--speculative-adaptive-config", str(adaptive),
        ]  # fmt: skip
    environment = {
        **os.environ, **ENVIRONMENT, loopback.RUN_DIR: str(run_dir), loopback.SECRET: secret,
        loopback.PROBE_PREFIX: prefix, loopback.REVISION: drafter.name if drafter else "", loopback.DRAFTING: "On",
    }  # fmt: skip
    log = out / f"log-{name}.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "sglang.launch_server", *arguments],
            stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
        )  # fmt: skip
    return Engine(process, port, run_dir, log, secret, prefix)


def wait(engine: Engine, began: float) -> float:
    """Wait until a server answers; returns the seconds since."""
    while time.monotonic() - began < START_SECONDS:
        if engine.process.poll() is not None:
            raise EngineEndedError(tail(engine.log, 20))
        if (engine.run_dir / "scheduler-0.sock").exists():
            try:
                if engine.request("/health")[0] == 200:
                    return time.monotonic() - began
            except OSError:
                pass
        time.sleep(0.3)
    raise TimeoutError(tail(engine.log, 20))


class Load:
    """So many clients that ask again and again."""

    def __init__(self, engine: Engine, clients: int, vocabulary: int) -> None:
        self._over = threading.Event()
        self.answered = 0
        self.failed: list[str] = []
        self._threads = [
            threading.Thread(target=self._ask, args=(engine, client, vocabulary)) for client in range(clients)
        ]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        """End, and wait for the last answers."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, engine: Engine, client: int, vocabulary: int) -> None:
        asked = 0
        while not self._over.is_set():
            asked += 1
            prompt = [
                3 + (client * 7919 + asked * 104729 + place * 31) % (vocabulary - 3) for place in range(10)
            ]
            try:
                engine.generate(prompt, 100)
            except Exception as error:  # noqa: BLE001 - any failure counts
                self.failed.append(repr(error))
            else:
                self.answered += 1
