"""Clients of an engine with the tiny target, for tests and benchmarks: again and again, or all at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from typing import Self

from tests.support.engine import Engine
from tests.support.models import answer
from tests.support.models.codes import FIRST_TEXT, WIDTH

PROMPT = 10
"""Tokens of a prompt."""
WARM_SECONDS = 60


def prompts() -> Iterator[list[int]]:
    """Endless prompts of which no two begin alike, so that none meets the cache; threads may share them."""
    text = WIDTH - FIRST_TEXT

    def prompt(number: int) -> list[int]:
        head = [FIRST_TEXT + number % text, FIRST_TEXT + number // text % text]
        return [
            *head,
            *(FIRST_TEXT + (number * 7 + place * 11) % text for place in range(PROMPT - len(head))),
        ]

    return map(prompt, count())


def speed(engine: Engine, asked: list[list[int]], tokens: int) -> float:
    """Tokens a second of so many clients that start together, one for each prompt."""
    with ThreadPoolExecutor(len(asked)) as clients:
        began = time.perf_counter()
        for _ in clients.map(lambda prompt: engine.generate(prompt, tokens), asked):
            pass
        return len(asked) * tokens / (time.perf_counter() - began)


class Load:
    """So many clients that ask again and again; each has had an answer when it begins."""

    def __init__(self, ask: Callable[[list[int]], object], clients: int, asked: Iterator[list[int]]) -> None:
        self.answered = 0
        self.failed: list[str] = []
        self._over = threading.Event()
        self._warm = threading.Barrier(clients + 1)
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=(ask, asked)) for _ in range(clients)]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        self._warm.wait(WARM_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        """End, and wait for the last answers."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _client(self, ask: Callable[[list[int]], object], asked: Iterator[list[int]]) -> None:
        self._ask(ask, next(asked))
        self._warm.wait(WARM_SECONDS)
        while not self._over.is_set():
            self._ask(ask, next(asked))

    def _ask(self, ask: Callable[[list[int]], object], prompt: list[int]) -> None:
        try:
            ask(prompt)
        except Exception as error:  # noqa: BLE001 - any failure counts
            self.failed.append(repr(error))
        else:
            with self._lock:
                self.answered += 1


class Watch:
    """What clients of a tiny target see: when each part of an answer came, and whether the answer was right."""

    def __init__(self, engine: Engine, tokens: int) -> None:
        self.engine = engine
        self.tokens = tokens
        self.answers: list[list[float]] = []
        """Of each answer, when its parts came, seconds."""
        self.changed: list[list[int]] = []
        """Prompts with another answer than the target gives alone."""

    def ask(self, prompt: list[int]) -> None:
        """Ask, and watch the answer come."""
        times: list[float] = []
        self.answers.append(times)
        written: list[int] = []
        for part in self.engine.stream(prompt, self.tokens):
            times.append(time.perf_counter())
            written = part
        if written != answer(prompt[-1], self.tokens):
            self.changed.append(prompt)

    def iterations(self) -> list[float]:
        """Seconds between two parts of one answer: the scheduler's iterations as a client sees them, sorted."""
        return sorted(later - sooner for times in self.answers for sooner, later in pairwise(times))

    def iteration_during(self, begin: float, end: float) -> float:
        """Longest of the iterations, as clients see them, that a window touches, seconds."""
        met = (
            later - sooner
            for times in list(self.answers)
            for sooner, later in pairwise(list(times))
            if sooner < end and later > begin
        )
        return max(met, default=0.0)

    def longest_gap(self, begin: float, end: float) -> float:
        """Longest time within a window in which no client got anything, seconds."""
        came = sorted(at for times in self.answers for at in list(times) if begin < at < end)
        return max(later - sooner for sooner, later in pairwise([begin, *came, end]))
