"""What the GPU lane measures; runs on the GPU's machine: `python -m tests.gpu.lane OUT`."""

from __future__ import annotations

import json
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu import models, servers
from tests.gpu.servers import Load
from tests.support.engine import STEPS, Engine
from tests.support.models import answer, simulate
from tests.support.models.codes import FIRST_TEXT, WIDTH

from specdec.engine.loopback import Commit, Steps

TINY = Path("build") / "models"
BATCHES = (1, 8, 32)
TOKENS = 256
ROUNDS = 5
Rows = list[dict[str, Any]]


def main() -> None:
    """Start all servers at once, measure one beside the other, and leave results.json whatever fails."""
    out = Path(sys.argv[1])
    results: dict[str, Any] = {"machine": _machine(), "rows": [], "failures": []}
    began = time.monotonic()
    running: dict[str, Engine] = {}
    try:
        running = _start(out, results, began)
        for part in (tiny, same, overhead, switches, swaps):
            _attempt(part, running, results)
    finally:
        results["seconds"] = round(time.monotonic() - began)
        (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        for engine in running.values():
            engine.stop()
    sys.exit(1 if results["failures"] else 0)


def _attempt(part: Callable[..., None], running: dict[str, Engine], results: dict[str, Any]) -> None:
    try:
        part(running, results["rows"])
    except Exception as error:  # noqa: BLE001 - the other parts' figures are worth having
        results["failures"].append(f"{part.__name__}: {error!r}")
        print(results["failures"][-1])


def _start(out: Path, results: dict[str, Any], began: float) -> dict[str, Engine]:
    place, maker = Path("wide").absolute(), models.Maker()
    tiny_target, tiny_drafter = (TINY / "kimi").absolute(), (TINY / "norm-first").absolute()
    running = {"tiny": servers.start("tiny", 31000, tiny_target, tiny_drafter, out)}
    target = models.target(place / "target", TINY / "kimi", maker)
    running["plain"] = servers.start("plain", 31001, target, None, out)
    drafters = [models.drafter(place / name, maker) for name in ("wide-a", "wide-b")]
    # One after the other: each takes its memory from what the one before left, and finds its kernels compiled.
    for name in ("tiny", "plain"):
        _say(results["rows"], what="start", server=name, unit="s", value=servers.wait(running[name], began))
    second = time.monotonic()
    running["drafting"] = servers.start("drafting", 31002, target, drafters[0], out)
    seconds = servers.wait(running["drafting"], second)
    _say(results["rows"], what="start", server="drafting", unit="s", value=seconds)
    return running


def tiny(running: dict[str, Engine], rows: Rows) -> None:
    """The tiny pair with CUDA graphs: every answer and every correct draft as computed, on, off and on again."""
    engine, wrong, drafts = running["tiny"], 0, 0
    for number in range(24):
        if number % 8 == 0:
            engine.order(Steps(steps=0 if number == 8 else STEPS))
        prompt = [FIRST_TEXT + (number * 37 + place * 11) % (WIDTH - FIRST_TEXT) for place in range(10)]
        found = engine.generate(prompt, 41)
        expected = 0 if 8 <= number < 16 else sum(simulate(prompt[-1], 41, 0.7))
        wrong += found.tokens != answer(prompt[-1], 41)
        drafts += found.drafts != expected
    _say(rows, what="tiny pair, norm_before_residual: answers other than computed", unit="of 24", value=wrong)
    _say(rows, what="tiny pair, norm_before_residual: drafts other than computed", unit="of 24", value=drafts)


def same(running: dict[str, Engine], rows: Rows) -> None:
    """With drafting off a batch of one runs the plain server's kernels: its answers must be the same."""
    engine, others = _switched(running["drafting"], Steps(steps=0)), 0
    for number in range(8):
        prompt = [3 + (number * 7919 + place * 131) % (models.VOCABULARY - 3) for place in range(10)]
        others += engine.generate(prompt, 64).tokens != running["plain"].generate(prompt, 64).tokens
    _say(rows, what="answers with drafting off other than the plain server's", unit="of 8", value=others)
    _say(rows, what="drafting off decodes plainly", unit="1=yes", value=int(engine.report().plain))


def overhead(running: dict[str, Engine], rows: Rows) -> None:
    """No speculative arguments, off, off with draft KV kept warm, and on with nothing accepted, interleaved."""
    plain, drafting = running["plain"], running["drafting"]
    modes: dict[str, Callable[[], Engine]] = {
        "plain": lambda: plain,
        "off": lambda: _switched(drafting, Steps(steps=0)),
        "warm": lambda: _switched(drafting, Steps(steps=0, warm=True)),
        "on": lambda: _switched(drafting, Steps(steps=STEPS)),
    }
    for batch in BATCHES:
        found: dict[str, list[float]] = {mode: [] for mode in modes}
        for number in range(ROUNDS + 1):
            for mode, engine in modes.items():
                speed = throughput(engine(), batch, number)
                # The first round warms up.
                if number:
                    found[mode].append(speed)
        base = statistics.median(found["plain"])
        for mode, speeds in found.items():
            ratio = statistics.median(speeds) / base
            _say(rows, what="overhead", mode=mode, batch=batch, unit="tok/s", value=statistics.median(speeds),
                 ratio=round(ratio, 3), n=len(speeds), spread=[round(min(speeds), 1), round(max(speeds), 1)])  # fmt: skip


def switches(running: dict[str, Engine], rows: Rows) -> None:
    """Drafting off and on under load."""
    engine, took = running["drafting"], []
    with Load(engine, 8, models.VOCABULARY) as load:
        for number in range(40):
            began = time.perf_counter()
            engine.order(Steps(steps=0 if number % 2 else STEPS))
            took.append((time.perf_counter() - began) * 1000)
            time.sleep(0.05)
    took.sort()
    _say(rows, what="drafting on/off under load of 8", unit="ms", value=took[len(took) // 2],
         n=len(took), spread=[round(took[0], 1), round(took[-1], 1)], failed=len(load.failed))  # fmt: skip


def swaps(running: dict[str, Engine], rows: Rows) -> None:
    """A drafter of 1.9 GB swapped under load: the pause in which no token comes, and the time to stage it."""
    engine, pauses, staging = running["drafting"], [], []
    engine.order(Steps(steps=STEPS))
    with Load(engine, 3, models.VOCABULARY) as load:
        for name in ("wide-b", "wide-a"):
            began = time.perf_counter()
            staged = engine.stage(Path("wide").absolute() / name, name)
            staging.append(time.perf_counter() - began)
            outcome = engine.order(Commit(stage=staged.number))
            if outcome.state != "done":
                raise RuntimeError(f"{staged} {outcome}")
            pauses.append(float(outcome.seconds) * 1000)
    _say(rows, what="swap of 1.9 GB under load of 3: pause", unit="ms", value=max(pauses), n=len(pauses),
         failed=len(load.failed), answered=load.answered)  # fmt: skip
    _say(rows, what="swap of 1.9 GB under load of 3: staging", unit="s", value=max(staging), n=len(staging))


def throughput(engine: Engine, batch: int, number: int) -> float:
    """Tokens a second of so many clients that start together."""
    prompts = [
        [3 + (client * 7919 + number * 104729 + place * 131) % (models.VOCABULARY - 3) for place in range(10)]
        for client in range(batch)
    ]
    clients = [threading.Thread(target=engine.generate, args=(prompt, TOKENS)) for prompt in prompts]
    began = time.perf_counter()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return batch * TOKENS / (time.perf_counter() - began)


def _switched(engine: Engine, order: Steps) -> Engine:
    outcome = engine.order(order)
    if outcome.state != "done":
        raise RuntimeError(f"{order}: {outcome}")
    return engine


def _say(rows: Rows, **row: Any) -> None:
    row["value"] = round(row["value"], 3)
    rows.append(row)
    print(json.dumps(row))


def _machine() -> dict[str, str]:
    import importlib.metadata

    import torch

    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "sglang": importlib.metadata.version("sglang"),
        "date": time.strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    main()
