"""The warm-up: first VERIFY, then the same requests with drafting and without, for a first baseline of this start.

The first half (`probe`) reaches VERIFY and finds that the drafter drafts; a target that sees is asked about one
image meanwhile. Then each batch size is asked with drafting and without, in the order on, off, off, on, so that a
machine that gets warm or slow favours neither. The prompts are those of the probe's first requests, so that most of
them are in the prefix cache. Speeds are of the plugin's counters; the answers of both modes must be the same
(`equality`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from specdec.engine.agent.board import shortened
from specdec.engine.agent.equality import agreement, parting
from specdec.engine.agent.loopback_client import EngineUnreachableError, OrderRefusedError, RequestFailedError
from specdec.engine.agent.probe import probe
from specdec.engine.agent.prompts import IMAGE_PROMPT, LONGEST_PROMPT, endless, image, long, marked
from specdec.engine.agent.times import now_text
from specdec.engine.agent.verdict import degenerate
from specdec.engine.loopback import Steps
from specdec.engine.protocol import Agreement, Source, Speed, WarmUp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from specdec.engine.agent.loopback_client import Loopback, Reply
    from specdec.engine.agent.probe import Finding
    from specdec.engine.protocol import Counters, ProbeResult

log = logging.getLogger("specdec.agent")
Answer = TypeVar("Answer")

BAD_REQUEST = 400
REFUSAL_CHARACTERS = 170
"""Of what SGLang says of a request that it refuses."""
BATCHES = (1, 4)
FEWEST = 2
"""Requests of the smallest batch with drafting: one alone would rest on one prompt's habit. Plain decoding has none."""
ENOUGH = 16
"""Verify calls after which the probe may pass: with those of the comparison they are more than any other probe's."""
TOKENS = 24
"""Of each answer: enough for a baseline, and little beside the start of any model."""
BASELINE_SECONDS = 60.0
"""At most; also within what is left of the user's deadline."""
ORDER_SECONDS = 30.0
SHOWN = 40
"""Characters of an answer that a message repeats."""


@dataclass(frozen=True)
class Spent:
    """What the agent's own requests did under one step count, from the plugin's counters."""

    tokens: int = 0
    seconds: float = 0.0
    calls: int = 0
    correct: tuple[int, ...] = ()

    def __sub__(self, other: Spent) -> Spent:
        before = (*other.correct, *(0,) * len(self.correct))
        correct = tuple(now - then for now, then in zip(self.correct, before, strict=False))
        return Spent(
            self.tokens - other.tokens, self.seconds - other.seconds, self.calls - other.calls, correct
        )

    @property
    def speed(self) -> str:
        """Tokens a second, decimal string; empty where nothing was decoded."""
        return f"{self.tokens / self.seconds:.1f}" if self.tokens > 0 and self.seconds > 0 else ""


def spent(counters: Iterable[Counters], revision: str, steps: int) -> Spent:
    """Pick the agent's own requests of one revision under one step count."""
    for row in counters:
        if (row.source, row.revision, row.steps) == (Source.PROBE, revision, steps):
            return Spent(row.tokens, float(row.seconds), row.calls, row.correct)
    return Spent()


def noting(warmup: WarmUp, said: str) -> WarmUp:
    """Add a sentence to the message."""
    return warmup.model_copy(update={"message": "; ".join(filter(None, (warmup.message, said)))})


async def at_most(count: int, asked: Iterable[Callable[[], Awaitable[Answer]]]) -> list[Answer]:
    """Ask all, so many at once; the first failure ends the rest and is raised."""
    places = asyncio.Semaphore(count)

    async def ask(one: Callable[[], Awaitable[Answer]]) -> Answer:
        async with places:
            return await one()

    asking = [asyncio.create_task(ask(one)) for one in asked]
    try:
        return await asyncio.gather(*asking)
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


@dataclass
class Found:
    """What the comparison has brought so far; a deadline may end it at any point."""

    speeds: dict[tuple[int, bool], str] = field(default_factory=dict)
    """By batch size and whether it drafted."""
    replies: dict[tuple[int, bool], Sequence[Reply]] = field(default_factory=dict)
    drafted: Spent = field(default_factory=Spent)
    """All of the agent's own requests with drafting."""
    answers: Agreement = Agreement.UNKNOWN
    message: str = ""

    def warmed(self, probed: ProbeResult) -> WarmUp:
        """Put it beside what the probe found."""
        batches = sorted({batch for batch, _ in self.speeds})
        speeds = (
            Speed(batch=size, on=self.speeds.get((size, True), ""), off=self.speeds.get((size, False), ""))
            for size in batches
        )
        update: dict[str, Any] = {
            "speeds": tuple(speeds),
            "answers": self.answers,
            "at": now_text(),
            "message": probed.message or self.message,
        }
        if calls := self.drafted.calls:
            update |= {
                "calls": calls,
                "accept_length": f"{1 + sum(self.drafted.correct) / calls:.3f}",
                "per_position": tuple(f"{right / calls:.2f}" for right in self.drafted.correct),
            }
        return WarmUp.model_validate(probed.model_dump() | update)


@dataclass(frozen=True)
class Baseline:
    """Asks one engine that has just started and drafts, before any user does."""

    loopback: Loopback
    revision: str
    steps: int
    most_running: int
    """Requests that the engine decodes at once: no batch is larger."""
    context: int
    """Tokens that a prompt and its answer may have together."""
    prompts: Sequence[str]
    sees: bool = False
    """Whether the target takes images."""

    async def measure(self, seconds: float) -> tuple[Finding, WarmUp]:
        """Send own requests until VERIFY was reached, or plain decoding if nothing drafts; then compare the two.

        Raises
        ------
        EngineUnreachableError, OrderRefusedError
            The plugin gives no report, or drafting could not be switched on again.
        """
        until, drafts, prompts = time.monotonic() + seconds, self.steps > 0, self.comparable()
        looking = asyncio.create_task(self._blindness(min(seconds, BASELINE_SECONDS))) if self.sees else None
        try:
            finding = await probe(
                self.loopback,
                identity="warmup",
                revision=self.revision,
                asked=itertools.chain(prompts, endless(self.prompts)),
                drafting=drafts,
                seconds=seconds,
                at_once=self.batches[-1],
                enough=ENOUGH,
            )
            blind = await looking if looking and finding.answered else None
        finally:
            if looking:
                looking.cancel()
        warmup = WarmUp.model_validate(finding.result.model_dump())
        if drafts and finding.result.passed:
            left = max(0.0, until - time.monotonic())
            warmup = await self.compare(finding.result, prompts, seconds=left)
        if blind is not None:
            warmup = noting(warmup, blind).model_copy(update={"images": not blind})
        return finding, warmup

    @property
    def batches(self) -> list[int]:
        """Batch sizes, smallest first."""
        return sorted({min(batch, self.most_running) for batch in BATCHES})

    async def _blindness(self, seconds: float) -> str:
        """Ask about an image, so that the vision tower is ready before a user needs it; say what became of it if no words came."""
        if said := await self._look(seconds):
            log.warning("warm-up: %s", said)
        return said

    async def _look(self, seconds: float) -> str:
        if seconds <= 0:
            return "images were not checked, as no time was left: raise engine.warmupSeconds"
        try:
            reply = await self.loopback.chat(
                marked(IMAGE_PROMPT), max_tokens=TOKENS, seconds=seconds, image=image()
            )
        except RequestFailedError as error:
            if error.status != BAD_REQUEST:
                return f"a request with an image failed: {error}"
            return (
                f"images were not checked: {shortened(str(error), REFUSAL_CHARACTERS)}; the target has a vision_config,"
                " so users' images are refused alike: check its chat template and processor"
            )
        except EngineUnreachableError as error:
            return f"a request with an image failed: {error}"
        if degenerate(reply.text):
            said = f"{reply.text[:SHOWN]!r}, expected words: check the vision tower and its processor"
            return f"a request with an image was answered with {said}"
        return ""

    async def compare(self, probed: ProbeResult, prompts: Sequence[str], *, seconds: float) -> WarmUp:
        """Compare drafting with none for at most so long, and leave drafting on.

        Raises
        ------
        EngineUnreachableError, OrderRefusedError
            Drafting could not be switched on again.
        """
        found = Found()
        try:
            async with asyncio.timeout(min(seconds, BASELINE_SECONDS)):
                await self._all_rounds(found, prompts)
                await self._answers(found)
        except TimeoutError:
            found.message = (
                f"the comparison with no drafting was cut short after {min(seconds, BASELINE_SECONDS):.0f} s"
            )
        except (RequestFailedError, EngineUnreachableError, OrderRefusedError) as error:
            found.message = f"drafting was not compared with none: {error}"
        if found.message:
            log.warning("warm-up: %s", found.message)
            # It may have ended in the other mode.
            await self._draft(self.steps)
        return found.warmed(probed)

    async def _all_rounds(self, found: Found, prompts: Sequence[str]) -> None:
        large, *others = reversed(self.batches)
        asked, further = prompts[: self._most], prompts[self._most :]
        # The way back to drafting empties the prefix cache: the long prompt is asked before it.
        rounds = [
            *((large, drafts, asked) for drafts in (True, False)),
            *((batch, False, further[:batch]) for batch in others),
            *((batch, True, further) for batch in others),
        ]
        before = await self._settled(drafts=True)
        for (batch, drafts, texts), (_, next_drafts, _) in zip(
            rounds, (*rounds[1:], (0, True, ())), strict=True
        ):
            found.replies[batch, drafts] = await self._ask(texts, batch)
            after = await self._settled(drafts=next_drafts)
            found.speeds[batch, drafts] = (after[drafts] - before[drafts]).speed
            found.drafted, before = after[True], after

    @property
    def _most(self) -> int:
        """Prompts of the largest batch."""
        return max(self.batches[-1], FEWEST)

    def comparable(self) -> list[str]:
        """Prompts of the largest batch, of several domains and the last one long, then of the others: for both modes the same."""
        # A token is a character at least: such a prompt and its answer fit into half the context.
        characters = min(LONGEST_PROMPT, self.context // 2 - TOKENS)
        own = itertools.cycle(self.prompts)
        asked = list(itertools.islice(own, self._most - 1))
        last = long(characters) if characters > max(map(len, self.prompts)) else next(own)
        further = itertools.islice(own, FEWEST if len(self.batches) > 1 else 0)
        return [marked(text) for text in (*asked, last, *further)]

    async def _settled(self, *, drafts: bool) -> dict[bool, Spent]:
        """Order the next mode and read both modes' counters: what the scheduler had under way is booked before it takes an order."""
        await self._draft(self.steps if drafts else 0)
        counters = (await self.loopback.report()).counters
        return {mode: spent(counters, self.revision, self.steps if mode else 0) for mode in (True, False)}

    async def _draft(self, steps: int) -> None:
        number = await self.loopback.order(Steps(steps=steps))
        await self.loopback.settled(number, seconds=ORDER_SECONDS)

    async def _ask(self, prompts: Sequence[str], batch: int) -> list[Reply]:
        # Requests of which fewer than FEWEST are asked at once share the tokens of one.
        tokens = TOKENS * batch // max(batch, FEWEST)
        chat = partial(self.loopback.chat, max_tokens=tokens, seconds=BASELINE_SECONDS)
        return await at_most(batch, [partial(chat, prompt) for prompt in prompts])

    async def _answers(self, found: Found) -> None:
        """Compare the answers of both modes; what differs is scored once by a prefill, and plain decoding as well."""
        batches = {batch for batch, _ in found.replies}
        pairs = [
            pair
            for batch in batches
            for pair in zip(found.replies[batch, True], found.replies[batch, False], strict=False)
        ]
        if not all(on.tokens and off.tokens for on, off in pairs):
            found.message = "answers were not compared: this SGLang returns no token ids of a chat"
            return
        parted = [(on, place) for on, off in pairs if (place := parting(on.tokens, off.tokens)) is not None]
        if not parted:
            found.answers = Agreement.SAME
            return
        scores = await at_most(
            max(batches),
            [
                *(partial(self._scored, on, on.tokens[: place + 1]) for on, place in parted),
                *(partial(self._scored, off, off.tokens) for _, off in pairs),
            ],
        )
        below = [gaps[-1] for gaps in scores[: len(parted)]]
        found.answers = agreement(below, list(itertools.chain(*scores[len(parted) :])))
        if found.answers is Agreement.DIFFERENT:
            found.message = (
                f"drafting changed {len(parted)} of {len(pairs)} greedy answers: a token {max(below):.2f} nats below"
                " the target's best was emitted, expected a near tie; report this, and set drafting: Off until then"
            )

    async def _scored(self, reply: Reply, tokens: tuple[int, ...]) -> tuple[float, ...]:
        return await self.loopback.below_best(reply.prompt, tokens, seconds=BASELINE_SECONDS)
