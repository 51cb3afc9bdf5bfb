"""Swaps and switches while three clients ask all the time, as those clients see them."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator

from tests.support.engine import STEPS, Engine
from tests.support.load import Load, Watch

from bench.results import Row
from specdec.engine.loopback import Steps

CLIENTS = 3
TOKENS = 40
SWAPS = 30
REQUESTS = 300
AFTER_SECONDS = 0.3
"""Still looked at after an order: its effect is in the next batches."""
SWITCHES = 100
SLACK_MS = 10
Window = tuple[float, float]


def swaps(engine: Engine, asked: Iterator[list[int]]) -> list[Row]:
    """Swap to and fro, and look as long at windows without a swap between."""
    watch, swapped, quiet = Watch(engine, TOKENS), list[Window](), list[Window]()
    with Load(watch.ask, CLIENTS, asked) as load:
        while len(swapped) < SWAPS or load.answered < REQUESTS:
            began = time.perf_counter()
            engine.swap("good" if len(swapped) % 2 else "q70")
            time.sleep(AFTER_SECONDS)
            ended = time.perf_counter()
            swapped.append((began, ended))
            time.sleep(ended - began)
            quiet.append((ended, time.perf_counter()))
    # What is measured on this engine next compares it with stock SGLang and this drafter.
    engine.swap("good")
    iteration = statistics.median(watch.iterations())
    beyond, without = (
        sorted(1000 * (watch.longest_gap(*window) - iteration) for window in windows)
        for windows in (swapped, quiet)
    )
    where = f"swap under load of {CLIENTS}"
    spread = f"median {statistics.median(beyond):.0f}; an iteration is {1000 * iteration:.0f} ms"
    control = f"median {statistics.median(without):.0f}"
    return [
        Row(f"{where}: longest gap beyond an iteration", round(beyond[-1], 1), "ms", 100, "", len(swapped), spread),
        Row(f"{where}: the same without a swap, windows as long", round(without[-1], 1), "ms", n=len(quiet), spread=control),
        Row(f"{where}: failed requests", len(load.failed), "", 0, n=load.answered + len(load.failed)),
        Row(f"{where}: changed answers", len(watch.changed), "", 0, n=load.answered),
    ]  # fmt: skip


def switches(engine: Engine, asked: Iterator[list[int]]) -> list[Row]:
    """Order drafting off and on at odd moments of an iteration."""
    watch, windows, moment = Watch(engine, TOKENS), list[Window](), random.Random(1)  # noqa: S311 - no secret
    with Load(watch.ask, CLIENTS, asked) as load:
        for number in range(SWITCHES):
            time.sleep(moment.uniform(0.03, 0.12))
            began = time.perf_counter()
            engine.order(Steps(steps=STEPS if number % 2 else 0))
            windows.append((began, time.perf_counter()))
    took = sorted(1000 * (ended - began) for began, ended in windows)
    beyond = sorted(1000 * (ended - began - watch.iteration_during(began, ended)) for began, ended in windows)
    iteration = 1000 * statistics.median(watch.iterations())
    where = f"drafting on/off under load of {CLIENTS}"
    wrong = len(watch.changed) + len(load.failed)
    return [
        Row(f"{where}: p50", round(statistics.median(took), 1), "ms", round(iteration + SLACK_MS, 1),
            f"an iteration + {SLACK_MS} ms", SWITCHES, f"{took[0]:.1f} to {took[-1]:.1f}; an iteration is {iteration:.1f} ms"),
        # An order that falls into a long iteration waits for its end, and it falls into long ones more often.
        Row(f"{where}: p99 of the time beyond the iteration that it fell into", round(beyond[-2], 1), "ms", SLACK_MS, "",
            SWITCHES, f"at most {beyond[-1]:.1f}"),
        Row(f"{where}: failed or changed answers", wrong, "", 0, n=load.answered),
    ]  # fmt: skip
