"""Probe and warm-up: the agent's own chat requests, judged by the plugin's exact counters."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specdec.engine.agent.loopback_client import EngineUnreachableError, RequestFailedError
from specdec.engine.agent.times import now_text
from specdec.engine.agent.verdict import ENOUGH_CALLS, Tally, decided, degenerate, drafts, tally
from specdec.engine.protocol import ProbeResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdec.engine.agent.loopback_client import Loopback

CONCURRENT = 3
MAX_TOKENS = 16
"""A dead drafter then shows enough calls with the first answers, and users wait the least."""
WARM_ANSWERS = 6
"""Answers that warm an engine up which does not draft."""
PROBE_SECONDS = 20.0
"""Deadline: two seconds on an idle engine, more when users' requests queue before it."""
WATCH_SECONDS = 0.05


@dataclass
class Answers:
    """What came back so far."""

    texts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def degenerate(self) -> bool:
        """Whether most answers are empty or only repeat themselves."""
        return 2 * sum(degenerate(text) for text in self.texts) > len(self.texts) > 0


@dataclass
class Watch:
    """What a probe is after, and what came of it so far."""

    loopback: Loopback
    revision: str
    drafting: bool
    enough: int
    """Verify calls from which on it may pass."""
    before: Tally
    seen: Tally = field(default_factory=Tally)
    answers: Answers = field(default_factory=Answers)

    async def over(self) -> bool:
        """Look at the counters, and say whether more requests would hardly change the result.

        Raises
        ------
        EngineUnreachableError
            The plugin gives no report.
        """
        self.seen = tally((await self.loopback.report()).counters, self.revision) - self.before
        if not self.answers.texts:
            return False
        if self.drafting:
            return decided(self.seen, self.enough)
        return len(self.answers.texts) >= WARM_ANSWERS

    @property
    def passed(self) -> bool:
        """Whether the drafter drafts, or an engine that does not draft answers."""
        return drafts(self.seen, self.enough) if self.drafting else bool(self.answers.texts)


@dataclass(frozen=True)
class Finding:
    """What a probe showed, with what its result has no field for."""

    result: ProbeResult
    answered: int
    degenerate: bool

    @property
    def dead(self) -> bool:
        """Whether it is the drafter that failed: enough calls, none better than chance."""
        return self.result.calls >= ENOUGH_CALLS and not self.result.passed and not self.degenerate


async def probe(
    loopback: Loopback,
    *,
    identity: str,
    revision: str,
    asked: Iterator[str],
    drafting: bool = True,
    seconds: float = PROBE_SECONDS,
    at_once: int = CONCURRENT,
    enough: int = ENOUGH_CALLS,
) -> Finding:
    """Send requests until the counters decide, or without drafting until enough were answered.

    Parameters
    ----------
    asked
        Endless prompts.
    enough
        Verify calls from which on it may pass.

    Raises
    ------
    EngineUnreachableError
        The plugin gives no report.
    """
    began = time.monotonic()
    before = tally((await loopback.report()).counters, revision)
    watch = Watch(loopback, revision, drafting, enough, before)
    asking = (_ask(watch, asked, began + seconds) for _ in range(at_once))
    askers = pending = {asyncio.create_task(one) for one in asking}
    try:
        while pending and time.monotonic() - began < seconds:
            _, pending = await asyncio.wait(
                pending, timeout=WATCH_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if await watch.over():
                break
    finally:
        # Closing the connection makes SGLang abort what is left of them.
        for asker in askers:
            asker.cancel()
        await asyncio.gather(*askers, return_exceptions=True)
    return _finding(identity, watch, time.monotonic() - began)


async def _ask(watch: Watch, prompts: Iterator[str], until: float) -> None:
    answers = watch.answers
    while (left := until - time.monotonic()) > 0 and len(answers.errors) < CONCURRENT:
        try:
            reply = await watch.loopback.chat(next(prompts), max_tokens=MAX_TOKENS, seconds=left)
        except (RequestFailedError, EngineUnreachableError) as error:
            answers.errors.append(str(error))
            continue
        answers.texts.append(reply.text)
        # A request too many would be in the way of what comes after the probe.
        if await watch.over():
            return


def _finding(identity: str, watch: Watch, seconds: float) -> Finding:
    seen, answers = watch.seen, watch.answers
    result = ProbeResult(
        id=identity,
        revision=watch.revision,
        passed=watch.passed and not answers.degenerate,
        accept_length=f"{seen.accept_length:.3f}" if seen.calls else "",
        calls=seen.calls,
        seconds=f"{seconds:.3f}",
        message=_sentence(watch),
        at=now_text(),
    )
    return Finding(result, len(answers.texts), answers.degenerate)


def _sentence(watch: Watch) -> str:
    seen, answers = watch.seen, watch.answers
    if not answers.texts and answers.errors:
        return answers.errors[0]
    if answers.degenerate:
        return "most answers are empty or only repeat a few characters, expected text: the accept length means nothing"
    if watch.passed or not watch.drafting:
        return ""
    if seen.calls < ENOUGH_CALLS:
        return f"only {seen.calls} verify calls in the time given, expected {ENOUGH_CALLS}: probe again when less is queued"
    return f"{seen.first} of {seen.calls} first drafts were right in the probe, no more than by chance"
