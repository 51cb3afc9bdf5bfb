"""Tensor parallel 2: two GPUs take the same order at the same batch, or neither does."""

from __future__ import annotations

from pathlib import Path

from tests.gpu import kimi
from tests.gpu.exact import ASKED, TOKENS, check, latents, prompts, there_and_back
from tests.gpu.rows import Rows, say
from tests.gpu.servers import Server, at_once, done, running, swap
from tests.gpu.wide import make, swaps, switches
from tests.support import models
from tests.support.engine import STEPS, Engine

from specdec.engine.loopback import Steps
from specdec.engine.protocol import Source

# SGLang's own all-reduce wants more of the GPUs' link than every machine gives.
TWO = ("--tp", "2", "--disable-custom-all-reduce")


def parallel(out: Path, rows: Rows) -> None:
    """Swaps, on/off with plain decoding, counters and the strict load on two GPUs."""
    folder = Path("models-two").absolute()
    models.kimi(folder / "kimi", models.KIMI_LATENT)
    shapes = {"good": models.DrafterShape(), "q70": models.DrafterShape(quality=0.7, first_draft_id=100),
              "renamed": models.DrafterShape(prefix="model.decoder.0")}  # fmt: skip
    folders = {name: models.drafter(folder / name, shape) for name, shape in shapes.items()}
    target, drafters = make("wide-b")
    servers = (
        Server("two-tiny", 31200, folder / "kimi", folders["good"], TWO),
        Server("two-wide", 31210, target, drafters[0], TWO),
    )
    with running(out, *servers) as (tiny, wide):
        _exact(tiny, folders, rows)
        _counters(tiny, rows)
        switches(wide, rows)
        swaps(wide, drafters[::-1], rows)
        _both_ranks(wide, "wide", rows)


def parallel_latent(out: Path, rows: Rows) -> None:
    """An MLA drafter on two GPUs; each holds half of `fc` and gathers the other's half of its output."""
    target, a, b = latents(Path("models-two-latent").absolute())
    with running(out, Server("two-latent", 31220, target, a, TWO)) as (engine,):
        there_and_back(engine, a, b, rows, "TP 2, ")
        _counters(engine, rows)
        _both_ranks(engine, "MLA drafter", rows)


def parallel_kimi(out: Path, rows: Rows) -> None:
    """Kimi-K2.5's architecture with its INT4 experts on two GPUs."""
    target, folders = kimi.made(Path("kimi-two").absolute())
    server = Server("two-kimi", 31520, target, folders["good"], (*kimi.OWN, *TWO), kimi.ON_ALL_CORES)
    with running(out, server) as (engine,):
        kimi.there_and_back(engine, folders, rows, "TP 2, Kimi")
        _counters(engine, rows)
        switches(engine, rows)
        swaps(engine, kimi.orders(folders), rows, "TP 2, Kimi: ")
        _both_ranks(engine, "Kimi", rows)


def _exact(engine: Engine, folders: dict[str, Path], rows: Rows) -> None:
    """Answers and drafts as computed through swaps, off and on; a drafter of unknown names is refused."""
    tokens = drafts = number = 0
    for name, quality in (("good", 1.0), ("q70", 0.7), ("good", 1.0)):
        if number:
            swap(engine, folders[name])
        for steps in (STEPS, 0, STEPS):
            done(engine, Steps(steps=steps))
            found = check(engine, quality, ASKED * number, drafting=steps > 0)
            tokens, drafts, number = tokens + found.tokens, drafts + found.drafts, number + 1
    say(rows, "TP 2, swaps and on/off: answers other than computed", tokens, f"of {number * ASKED}")
    say(rows, "TP 2, swaps and on/off: drafts other than computed", drafts, f"of {number * ASKED}")
    refused = engine.stage(folders["renamed"], "renamed")
    say(
        rows,
        "TP 2: a drafter of unknown names is refused",
        int(refused.state == "refused"),
        "1=yes",
        reason=refused.reason,
    )
    _both_ranks(engine, "tiny", rows)


def _counters(engine: Engine, rows: Rows) -> None:
    """What the plugin counted against what SGLang says of each request."""
    before = engine.counters(source=Source.TRAFFIC, steps=STEPS)
    asked = prompts(64, 5000)
    found = [one for begin in range(0, 64, 16) for one in at_once(engine, asked[begin : begin + 16], TOKENS)]
    after = engine.counters(source=Source.TRAFFIC, steps=STEPS)
    calls = after.calls - before.calls - sum(one.calls for one in found)
    drafts = sum(after.correct) - sum(before.correct) - sum(one.drafts for one in found)
    say(
        rows,
        "TP 2: verify calls counted less those of meta_info",
        calls,
        f"of {sum(one.calls for one in found)}",
    )
    say(
        rows,
        "TP 2: correct drafts counted less those of meta_info",
        drafts,
        f"of {sum(one.drafts for one in found)}",
    )


def _both_ranks(engine: Engine, name: str, rows: Rows) -> None:
    reports = [engine.report(rank) for rank in (0, 1)]
    alike = len({(one.revision, one.steps, one.states, one.plain, one.patches) for one in reports}) == 1
    outcomes = len({tuple((o.number, o.state) for o in one.outcomes) for one in reports}) == 1
    say(rows, f"TP 2, {name}: both ranks report the same", int(alike and outcomes), "1=yes",
        plain=reports[0].plain, fed=[one.load.fed if one.load else 0 for one in reports])  # fmt: skip
