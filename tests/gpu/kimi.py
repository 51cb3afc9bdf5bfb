"""Kimi-K2.5 as far as one GPU holds it: its sizes, its INT4 experts and the backends SGLang takes by itself."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

from tests.gpu import widened
from tests.gpu.exact import ASKED, check, prompts
from tests.gpu.rows import Rows, say
from tests.gpu.servers import Server, done, load, running, swap
from tests.gpu.wide import BATCHES, ROUNDS, TOKENS, switches
from tests.support.engine import STEPS, Engine
from tests.support.load import speed
from tests.support.models import DrafterShape, expected_accept_length

from specdec.engine.loopback import Steps

SHAPES = {"good": DrafterShape(), "q70": DrafterShape(quality=0.7, first_draft_id=100)}
OWN = ("--attention-backend", "fa3")
"""What SGLang takes for latent attention on Hopper when nobody asks for another."""
KERNEL = (
    "import torch; from sglang.kernels.ops.moe.moe_wna16_marlin import _jit_moe_wna16_marlin_module as compile; "
    "compile(torch.bfloat16, False, False)"
)
"""SGLang compiles its INT4 kernel when a graph first needs it: on one core that takes longer than a start may."""
ON_ALL_CORES = {"NVCC_APPEND_FLAGS": "--split-compile=0 -Xptxas --split-compile=0"}


def kimi(out: Path, rows: Rows) -> None:
    """A plain server and one that drafts: what is computed beforehand, then speeds, orders and swaps."""
    target, folders = made(Path("kimi").absolute())
    servers = (
        Server("kimi-plain", 31500, target, None, OWN, ON_ALL_CORES),
        Server("kimi-drafting", 31510, target, folders["good"], OWN, ON_ALL_CORES),
    )
    with running(out, *servers) as (plain, drafting):
        say(
            rows,
            "Kimi: plain, answers other than computed",
            check(plain, 1, drafting=False).tokens,
            f"of {ASKED}",
        )
        there_and_back(drafting, folders, rows, "Kimi")
        _speeds(plain, drafting, rows)
        switches(drafting, rows)
        swaps(drafting, folders, rows, "Kimi")


def made(place: Path) -> tuple[Path, dict[str, Path]]:
    """Write the target and the drafters of SHAPES, while SGLang's INT4 kernel compiles."""
    compiling = subprocess.Popen([sys.executable, "-c", KERNEL], env={**os.environ, **ON_ALL_CORES})
    target = widened.target(place / "target")
    folders = {name: widened.drafter(place / name, shape) for name, shape in SHAPES.items()}
    if compiling.wait():
        raise RuntimeError("SGLang's INT4 kernel did not compile: its own words are above")
    return target, folders


def there_and_back(engine: Engine, folders: dict[str, Path], rows: Rows, where: str) -> None:
    """Answers and drafts as computed, off and on, through swaps to another token map and back."""
    number = 0
    for name in ("good", "q70", "good"):
        if number:
            swap(engine, folders[name])
        for steps in (0, STEPS):
            done(engine, Steps(steps=steps))
            found = check(engine, SHAPES[name].quality, ASKED * number, drafting=steps > 0)
            number += 1
            say(rows, f"{where}: {name}, steps {steps}: answers, drafts other than computed",
                found.tokens + found.drafts, f"of {2 * ASKED}", answers=found.tokens, drafts=found.drafts,
                accept_length=round(found.accept_length, 4), plain=engine.report().plain,
                computed=round(expected_accept_length(SHAPES[name].quality, steps), 4))  # fmt: skip


def _speeds(plain: Engine, drafting: Engine, rows: Rows) -> None:
    """No speculative arguments, off, and on with a drafter that is always right, interleaved."""
    for batch in BATCHES:
        found: dict[str, list[float]] = {"plain": [], "off": [], "on, all accepted": []}
        for number in range(ROUNDS + 1):
            for mode, speeds in found.items():
                if mode != "plain":
                    done(drafting, Steps(steps=STEPS if mode.startswith("on") else 0))
                engine = plain if mode == "plain" else drafting
                took = speed(engine, prompts(batch, 1000 + 40 * number), TOKENS)
                # The first round warms up.
                if number:
                    speeds.append(took)
        base = statistics.median(found["plain"])
        for mode, speeds in found.items():
            median = statistics.median(speeds)
            say(rows, "Kimi: speed", median, "tok/s", mode=mode, batch=batch, ratio=round(median / base, 3),
                n=len(speeds), spread=[round(min(speeds), 1), round(max(speeds), 1)])  # fmt: skip


def swaps(engine: Engine, folders: dict[str, Path], rows: Rows, where: str) -> None:
    """The drafter of 1.9 GB swapped under load: the pause in which no token comes, and the time to stage it."""
    done(engine, Steps(steps=STEPS))
    with load(engine, 3) as clients:
        took = [swap(engine, folders[name]) for name in ("q70", "good", "q70", "good")]
    say(rows, f"{where}: swap of 1.9 GB under load of 3: pause", max(pause for _, pause in took) * 1000, "ms", n=len(took),
        failed=len(clients.failed), answered=clients.answered)  # fmt: skip
    say(
        rows,
        f"{where}: swap of 1.9 GB under load of 3: staging",
        max(staging for staging, _ in took),
        "s",
        n=len(took),
    )
