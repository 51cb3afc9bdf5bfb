"""Probe and warm-up: the agent's own chat requests, judged by the plugin's exact counters."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specdec.engine.agent.loopback_client import EngineUnreachableError, RequestFailedError
from specdec.engine.agent.prompts import endless
from specdec.engine.agent.times import now_text
from specdec.engine.agent.verdict import ENOUGH_CALLS, Tally, decided, degenerate, drafts, tally
from specdec.engine.protocol import ProbeResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    prompts: Sequence[str],
    drafting: bool = True,
    seconds: float = PROBE_SECONDS,
    at_once: int = CONCURRENT,
    max_tokens: int = MAX_TOKENS,
) -> Finding:
    """Send requests until the counters decide, or without drafting until enough were answered.

    Raises
    ------
    EngineUnreachableError
        The plugin gives no report.
    """
    began = time.monotonic()
    before = tally((await loopback.report()).counters, revision)
    answers = Answers()
    asked = endless(prompts)
    asking = (_ask(loopback, asked, answers, began + seconds, max_tokens) for _ in range(at_once))
    askers = [asyncio.create_task(one) for one in asking]
    seen = Tally()
    try:
        while time.monotonic() - began < seconds and not all(asker.done() for asker in askers):
            await asyncio.sleep(WATCH_SECONDS)
            seen = tally((await loopback.report()).counters, revision) - before
            if answers.texts and (decided(seen) if drafting else len(answers.texts) >= WARM_ANSWERS):
                break
    finally:
        # Closing the connection makes SGLang abort what is left of them.
        for asker in askers:
            asker.cancel()
        await asyncio.gather(*askers, return_exceptions=True)
    return _finding(identity, revision, seen, answers, time.monotonic() - began, drafting=drafting)


async def _ask(
    loopback: Loopback, prompts: Iterator[str], answers: Answers, until: float, max_tokens: int
) -> None:
    while (left := until - time.monotonic()) > 0 and len(answers.errors) < CONCURRENT:
        try:
            reply = await loopback.chat(next(prompts), max_tokens=max_tokens, seconds=left)
            answers.texts.append(reply.text)
        except (RequestFailedError, EngineUnreachableError) as error:
            answers.errors.append(str(error))


def _finding(
    identity: str, revision: str, seen: Tally, answers: Answers, seconds: float, *, drafting: bool
) -> Finding:
    passed = drafts(seen) if drafting else bool(answers.texts)
    result = ProbeResult(
        id=identity,
        revision=revision,
        passed=passed and not answers.degenerate,
        accept_length=f"{seen.accept_length:.3f}" if seen.calls else "",
        calls=seen.calls,
        seconds=f"{seconds:.3f}",
        message=_sentence(seen, answers, drafting=drafting, passed=passed),
        at=now_text(),
    )
    return Finding(result, len(answers.texts), answers.degenerate)


def _sentence(seen: Tally, answers: Answers, *, drafting: bool, passed: bool) -> str:
    if not answers.texts and answers.errors:
        return answers.errors[0]
    if answers.degenerate:
        return "most answers are empty or only repeat a few characters, expected text: the accept length means nothing"
    if not drafting:
        return ""
    if passed:
        return ""
    if seen.calls < ENOUGH_CALLS:
        return f"only {seen.calls} verify calls in the time given, expected {ENOUGH_CALLS}: probe again when less is queued"
    return f"{seen.first} of {seen.calls} first drafts were right in the probe, no more than by chance"
