"""Parts that are timed: a target and drafters of Kimi-K2.5's widths, random, so that nothing is accepted."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.gpu import models
from tests.gpu.profile import compare
from tests.gpu.rows import Rows, ratio, say
from tests.gpu.servers import Server, done, load, running, swap
from tests.support.engine import STEPS, Engine
from tests.support.models import kimi

from specdec.engine.loopback import Steps

BATCHES = (1, 8, 32)
TOKENS = 256
ROUNDS = 5
COST_TOKENS, COST_ROUNDS = 128, 12
Modes = dict[str, Callable[[], Engine]]
"""By name, what switches an engine into a mode and returns it."""


def wide(out: Path, rows: Rows) -> None:
    """A plain server and one that drafts: off, warm and on in turns; orders and swaps under load."""
    target, drafters = make("wide-b")
    plain, drafting = Server("plain", 31101, target), Server("drafting", 31102, target, drafters[0])
    with running(out, plain, drafting) as engines:
        _same(*engines, rows)
        _overhead(*engines, rows)
        switches(engines[1], rows)
        swaps(engines[1], drafters[::-1], rows)
        done(engines[1], Steps(steps=0))
        compare(rows, {"plain": engines[0], "off": engines[1]})


def stock(out: Path, rows: Rows) -> None:
    """What the plugin costs: SGLang as it is beside the same with the plugin, plain and drafting, in turns."""
    target, drafters = make()
    servers = (
        Server("stock-plain", 31110, target, plugin=False),
        Server("plain", 31111, target),
        Server("stock-drafting", 31112, target, drafters[0], plugin=False),
        Server("drafting", 31113, target, drafters[0]),
    )
    with running(out, *servers) as (stock_plain, plain, stock_drafting, drafting):
        done(drafting, Steps(steps=STEPS))
        for batch in BATCHES:
            _cost(rows, "plain", batch, plain, stock_plain)
            _cost(rows, "drafting on, nothing accepted", batch, drafting, stock_drafting)


def make(*more: str) -> tuple[Path, list[Path]]:
    """Write the target and a drafter, and further drafters of these names; once."""
    place = Path("wide").absolute()
    names = ("wide-a", *more)
    missing = [name for name in ("target", *names) if not (place / name).exists()]
    if missing:
        maker = models.Maker()
        for name in missing:
            if name == "target":
                models.target(place / name, kimi(place / "tokenizer"), maker)
            else:
                models.drafter(place / name, maker)
        maker.release()
    return place / "target", [place / name for name in names]


def _cost(rows: Rows, what: str, batch: int, ours: Engine, theirs: Engine) -> None:
    """Paired rounds; who goes first changes with each."""
    speeds: dict[int, list[float]] = {0: [], 1: []}
    engines = {0: ours, 1: theirs}
    for number in range(COST_ROUNDS + 2):
        for place in (0, 1) if number % 2 else (1, 0):
            speed = throughput(engines[place], batch, number, COST_TOKENS)
            # The first rounds warm up.
            if number > 1:
                speeds[place].append(speed)
    found = ratio(speeds[0], speeds[1])
    say(rows, "with the plugin / without", found.pop("ratio"), "ratio", mode=what, batch=batch, **found)


def _same(plain: Engine, drafting: Engine, rows: Rows) -> None:
    """With drafting off a batch of one runs the plain server's kernels: its answers must be the same."""
    done(drafting, Steps(steps=0))
    others = 0
    for number in range(8):
        prompt = [3 + (number * 7919 + place * 131) % (models.VOCABULARY - 3) for place in range(10)]
        others += drafting.generate(prompt, 64).tokens != plain.generate(prompt, 64).tokens
    say(rows, "answers with drafting off other than the plain server's", others, "of 8")
    say(rows, "drafting off decodes plainly", int(drafting.report().plain), "1=yes")


def _overhead(plain: Engine, drafting: Engine, rows: Rows) -> None:
    """No speculative arguments, off, off with draft KV kept warm, and on with nothing accepted."""
    modes: Modes = {
        "plain": lambda: plain,
        "off": lambda: switched(drafting, Steps(steps=0)),
        "warm": lambda: switched(drafting, Steps(steps=0, warm=True)),
        "on": lambda: switched(drafting, Steps(steps=STEPS)),
    }
    in_turns(modes, lambda engine, batch, number: throughput(engine, batch, number, TOKENS), rows, "overhead")


def in_turns(modes: Modes, timed: Callable[[Engine, int, int], float], rows: Rows, what: str) -> None:
    """Tokens a second of modes in turns, the first of them the base; `timed` gets engine, batch and number of the round."""
    for batch in BATCHES:
        found: dict[str, list[float]] = {mode: [] for mode in modes}
        for number in range(ROUNDS + 1):
            for mode, engine in modes.items():
                speed = timed(engine(), batch, number)
                # The first round warms up.
                if number:
                    found[mode].append(speed)
        base = statistics.median(next(iter(found.values())))
        for mode, speeds in found.items():
            median = statistics.median(speeds)
            say(rows, what, median, "tok/s", mode=mode, batch=batch, ratio=round(median / base, 3),
                n=len(speeds), spread=[round(min(speeds), 1), round(max(speeds), 1)])  # fmt: skip


def switches(engine: Engine, rows: Rows) -> None:
    """Drafting off and on under load."""
    took = []
    with load(engine, 8) as clients:
        for number in range(40):
            began = time.perf_counter()
            done(engine, Steps(steps=0 if number % 2 else STEPS))
            took.append((time.perf_counter() - began) * 1000)
            time.sleep(0.05)
    took.sort()
    say(rows, "drafting on/off under load of 8", took[len(took) // 2], "ms", n=len(took),
        spread=[round(took[0], 1), round(took[-1], 1)], failed=len(clients.failed))  # fmt: skip


def swaps(engine: Engine, drafters: list[Path], rows: Rows, where: str = "") -> None:
    """Drafters of 1.9 GB swapped in one after the other under load: the pause in which no token comes, and the time to stage."""
    done(engine, Steps(steps=STEPS))
    with load(engine, 3) as clients:
        took = [swap(engine, folder) for folder in drafters]
    pauses, staging = [pause * 1000 for _, pause in took], [seconds for seconds, _ in took]
    say(rows, f"{where}swap of 1.9 GB under load of 3: pause", max(pauses), "ms", n=len(pauses),
        failed=len(clients.failed), answered=clients.answered)  # fmt: skip
    say(rows, f"{where}swap of 1.9 GB under load of 3: staging", max(staging), "s", n=len(staging))


def throughput(engine: Engine, batch: int, number: int, tokens: int) -> float:
    """Tokens a second of so many clients that start together."""
    prompts = [
        [3 + (client * 7919 + number * 104729 + place * 131) % (models.VOCABULARY - 3) for place in range(10)]
        for client in range(batch)
    ]
    clients = [threading.Thread(target=engine.generate, args=(prompt, tokens)) for prompt in prompts]
    began = time.perf_counter()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return batch * tokens / (time.perf_counter() - began)


def switched(engine: Engine, order: Steps) -> Engine:
    """Give an order that must be carried out, and return the engine that it was given to."""
    done(engine, order)
    return engine
