"""The plugin's counters against SGLang's own figures of every single request."""

from __future__ import annotations

import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.engine import STEPS, Engine

from specdec.engine.protocol import Source

pytestmark = pytest.mark.engine

REQUESTS = 64


def test_counters_equal_the_figures_of_every_request_across_a_swap(engine: Engine, prompts):
    before = engine.counters(steps=STEPS)
    with ThreadPoolExecutor(3) as clients:
        jobs = [
            clients.submit(engine.generate, next(prompts), 20 + number % 30) for number in range(REQUESTS)
        ]
        for job in jobs[: REQUESTS // 2]:
            job.result()
        engine.swap("q40")
        answers = [job.result() for job in jobs]
    after = engine.counters(steps=STEPS)
    assert after.calls - before.calls == sum(one.calls for one in answers)
    assert sum(after.correct) - sum(before.correct) == sum(one.drafts for one in answers)
    assert after.finished_calls - before.finished_calls == after.calls - before.calls
    assert after.finished_drafts - before.finished_drafts == sum(after.correct) - sum(before.correct)
    # Prefill answers the first token of each request.
    tokens = sum(len(one.tokens) for one in answers) - REQUESTS
    assert after.tokens - before.tokens == tokens


def test_the_cross_sums_are_those_of_the_requests(engine: Engine, prompts):
    engine.swap("q70")
    before = engine.counters(revision="q70", source=Source.TRAFFIC)
    answers = [engine.generate(next(prompts), 30) for _ in range(6)]
    after = engine.counters(revision="q70", source=Source.TRAFFIC)
    assert after.requests - before.requests == 6
    assert after.dd - before.dd == sum(one.drafts**2 for one in answers)
    assert after.dc - before.dc == sum(one.drafts * one.calls for one in answers)
    assert after.cc - before.cc == sum(one.calls**2 for one in answers)


def test_an_answer_of_two_tokens_does_not_lift_a_dead_drafter(engine: Engine, prompts):
    engine.swap("dead")
    before = engine.counters(revision="dead")
    for _ in range(5):
        engine.generate(next(prompts), 2)
    after = engine.counters(revision="dead")
    assert after.calls - before.calls == 5
    assert sum(after.correct) == sum(before.correct)


def test_only_the_agent_can_send_what_counts_as_a_probe(engine: Engine, prompts):
    before = engine.counters(source=Source.PROBE).requests
    engine.generate(next(prompts), rid="probe-1")
    assert engine.counters(source=Source.PROBE).requests == before
    engine.generate(next(prompts), rid=f"{engine.probe_prefix}1")
    assert engine.counters(source=Source.PROBE).requests == before + 1


def test_prometheus_shows_the_same_sums(engine: Engine, prompts):
    engine.generate(next(prompts))
    expected = engine.counters()
    sums = {
        "specdec_verify_calls_total": expected.calls,
        "specdec_correct_drafts_total": sum(expected.correct),
        "specdec_kept_tokens_total": expected.tokens,
    }
    # The plugin publishes once a second.
    deadline = time.monotonic() + 10
    while (found := _published(engine)) != sums and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found == sums


def _published(engine: Engine) -> dict[str, float]:
    """Sums of the plugin's metrics over all their labels."""
    _, text = engine.request("/metrics", secret=None)
    found: Counter[str] = Counter()
    for name, value in re.findall(r"^(specdec_\w+_total)\{.*?\} (\S+)$", text.decode(), re.MULTILINE):
        found[name] += float(value)
    return dict(found)
