"""One poller for all engines: how often agents are asked, and what wakes a loop."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.controllerparts import KEY, Parts, calm, pod, status

from specdec.controller.poller import REST_SECONDS, next_due
from specdec.engine.protocol import PreflightResult

pytestmark = pytest.mark.looptime


async def polled(parts: Parts, seconds: float) -> None:
    task = asyncio.create_task(parts.poller.run())
    await asyncio.sleep(seconds)
    task.cancel()


async def test_at_rest_an_agent_is_asked_every_5_s():
    parts = Parts(calm)
    parts.add(pod())
    parts.agents.said["10.0.0.1"] = status()
    await polled(parts, 60)
    assert 11 <= len(parts.agents.asked) <= 14


async def test_only_news_wake_the_loop():
    parts = Parts(calm)
    parts.add(pod())
    parts.agents.said["10.0.0.1"] = status()
    await polled(parts, 60)
    assert parts.woken == [KEY]


async def test_with_a_candidate_a_change_is_seen_at_once():
    parts = Parts(calm)
    parts.add(pod())
    parts.agents.said["10.0.0.1"] = status()
    task = asyncio.create_task(parts.poller.run())
    await asyncio.sleep(2)
    parts.poller.set_interval(KEY, 1.0)
    await asyncio.sleep(2.5)
    parts.woken.clear()
    parts.agents.said["10.0.0.1"] = status(serial=2)
    await asyncio.sleep(0.1)
    task.cancel()
    assert parts.woken == [KEY]


async def test_an_agent_that_never_answered_is_asked_every_second():
    parts = Parts(calm)
    parts.add(pod())
    await polled(parts, 10)
    assert 9 <= len(parts.agents.asked) <= 12


async def test_an_agent_that_says_it_is_another_pod_is_not_believed():
    parts = Parts(calm)
    parts.add(pod())
    parts.agents.said["10.0.0.1"] = status(pod_uid="someone-else")
    await polled(parts, 10)
    assert parts.poller.heard == {}


async def test_a_pod_that_is_gone_is_forgotten():
    parts = Parts(calm)
    stored = parts.add(pod())
    parts.agents.said["10.0.0.1"] = status()
    task = asyncio.create_task(parts.poller.run())
    await asyncio.sleep(1)
    assert set(parts.poller.heard) == {"pod-uid"}
    parts.store.drop(stored)
    await asyncio.sleep(1)
    task.cancel()
    assert parts.poller.heard == {}


async def test_what_the_preflight_found_is_asked_for_once():
    parts = Parts(calm)
    parts.add(pod())
    named = PreflightResult(revision="demo-1", settings="s", at="2026-01-01T00:00:00Z")
    parts.agents.said["10.0.0.1"] = status(preflight=named)
    await polled(parts, 12)
    assert parts.poller.heard["pod-uid"].status.preflight == named
    whole = named.model_copy(update={"report": {"findings": []}})
    parts.agents.found["demo-1"] = whole
    parts.agents.preflights.clear()
    await polled(parts, 60)
    assert parts.poller.heard["pod-uid"].status.preflight == whole
    assert parts.agents.preflights == ["demo-1"]


async def test_the_pod_of_a_preflights_job_has_no_agent():
    parts = Parts(calm)
    judge = pod("demo-check-1-x", "10.0.0.7", "another")
    judge["metadata"]["labels"]["app.kubernetes.io/component"] = "preflight"
    parts.add(judge)
    await polled(parts, 10)
    assert parts.agents.asked == []


async def test_what_a_servers_engines_count_at_rest_wakes_its_loop_once_a_round():
    parts = Parts(calm)
    addresses = {f"10.0.0.{number}": f"uid-{number}" for number in range(1, 5)}
    task = asyncio.create_task(parts.poller.run())
    for address, uid in addresses.items():  # they come one after the other, as pods do
        parts.add(pod(f"demo-{uid}", address, uid))
        parts.agents.said[address] = status(pod_uid=uid)
        await asyncio.sleep(1.1)
    await asyncio.sleep(10)
    parts.woken.clear()
    rounds = 6
    for turn in range(1, rounds + 1):
        for address, uid in addresses.items():
            parts.agents.said[address] = status(pod_uid=uid, in_flight=turn)
        await asyncio.sleep(5.1)
    task.cancel()
    assert len(parts.woken) in {rounds, rounds + 1}


async def test_a_state_that_changes_at_rest_is_told_without_waiting_for_the_other_engines():
    parts = Parts(calm)
    for number in (1, 2):
        parts.add(pod(f"demo-{number}", f"10.0.0.{number}", f"uid-{number}"))
        parts.agents.said[f"10.0.0.{number}"] = status(pod_uid=f"uid-{number}")
    task = asyncio.create_task(parts.poller.run())
    await asyncio.sleep(2)
    parts.woken.clear()
    parts.agents.slow["10.0.0.2"] = 1.9
    parts.agents.said["10.0.0.1"] = status(serial=2, pod_uid="uid-1")
    await asyncio.sleep(4.5)
    assert parts.woken == [KEY]
    task.cancel()


@given(st.text(), st.floats(0, 1e7), st.floats(0, REST_SECONDS))
def test_a_servers_engines_come_together_whenever_they_were_asked_first(name: str, now: float, later: float):
    first, second = (next_due(("llm", name), REST_SECONDS, at) for at in (now, now + later))
    apart = abs(first - second) % REST_SECONDS
    assert min(apart, REST_SECONDS - apart) < 1e-3
    assert now + REST_SECONDS / 2 - 1e-3 <= first <= now + REST_SECONDS * 1.5 + 1e-3


def test_servers_that_were_held_up_together_are_spread_again():
    due = [next_due(("llm", f"server-{number}"), REST_SECONDS, 100.0) for number in range(500)]
    in_a_tenth = [sum(low <= at < low + 0.5 for at in due) for low in (102.5 + 0.5 * k for k in range(10))]
    assert 25 <= min(in_a_tenth) <= max(in_a_tenth) <= 75
