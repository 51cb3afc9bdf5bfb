"""Kimi-K2.5 as far as one GPU holds it: its sizes, its INT4 experts and the backends SGLang takes by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.gpu import widened
from tests.gpu.exact import ASKED, check, prompts
from tests.gpu.rows import Rows, say
from tests.gpu.servers import Server, done, running, swap
from tests.gpu.wide import TOKENS, Modes, in_turns, swaps, switched, switches
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
        swaps(drafting, orders(folders), rows, "Kimi: ")


def made(place: Path) -> tuple[Path, dict[str, Path]]:
    """Write the target and the drafters of SHAPES, while SGLang's INT4 kernel compiles."""
    compiling = subprocess.Popen([sys.executable, "-c", KERNEL], env={**os.environ, **ON_ALL_CORES})
    target = widened.target(place / "target")
    folders = {name: widened.drafter(place / name, shape) for name, shape in SHAPES.items()}
    if compiling.wait():
        raise RuntimeError("SGLang's INT4 kernel did not compile: its own words are above")
    return target, folders


def orders(folders: dict[str, Path]) -> list[Path]:
    """To the other drafter and back, twice."""
    return [folders["q70"], folders["good"]] * 2


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
    """No speculative arguments, off, and on with a drafter that is always right."""
    modes: Modes = {
        "plain": lambda: plain,
        "off": lambda: switched(drafting, Steps(steps=0)),
        "on, all accepted": lambda: switched(drafting, Steps(steps=STEPS)),
    }
    in_turns(
        modes,
        lambda engine, batch, number: speed(engine, prompts(batch, 1000 + 40 * number), TOKENS),
        rows,
        "Kimi: speed",
    )
