"""All servers' loops: begun by news, ended with their server, and light while they sleep."""

import asyncio
import gc
import weakref
from contextvars import ContextVar

import pytest
from prometheus_client import REGISTRY
from tests.support.controllerparts import KEY, Parts, calm, server

from specdec.controller.loop import Loops
from specdec.controller.wakeup import Wakeup

pytestmark = pytest.mark.looptime


async def test_a_server_made_anew_gets_a_loop_of_its_own():
    parts = Parts(calm)
    loops = Loops(parts.store, lambda key, uid: parts.loop())
    stored = parts.add(server())
    loops.wake(KEY)
    await asyncio.sleep(1)
    parts.store.drop(stored)
    loops.wake(KEY)
    await asyncio.sleep(1)
    assert loops._running == {}
    parts.add(server())
    loops.wake(KEY)
    assert KEY in loops._running
    await loops.stop()


async def test_a_servers_series_end_with_its_loop():
    def shown() -> float | None:
        return REGISTRY.get_sample_value(
            "specdec_server_ready", dict(zip(("namespace", "name"), KEY, strict=True))
        )

    parts = Parts(calm)
    loops = Loops(parts.store, lambda key, uid: parts.loop())
    stored = parts.add(server())
    loops.wake(KEY)
    await asyncio.sleep(1)
    assert shown() is not None
    parts.store.drop(stored)
    loops.wake(KEY)
    await asyncio.sleep(1)
    assert shown() is None


class Event:
    """What a caller's context holds, as kopf's holds the object that its handler was called with."""


async def test_a_loop_keeps_nothing_of_whoever_began_it():
    parts = Parts(calm)
    loops = Loops(parts.store, lambda key, uid: parts.loop())
    parts.add(server())
    handled = ContextVar[Event]("handled")

    async def handler() -> weakref.ref[Event]:
        event = Event()
        handled.set(event)
        loops.wake(KEY)
        return weakref.ref(event)

    kept = await asyncio.create_task(handler())
    await asyncio.sleep(1)
    gc.collect()
    assert kept() is None
    assert KEY in loops._running
    await loops.stop()


async def woken_after(wakeup: Wakeup, seconds: float) -> float:
    began = asyncio.get_running_loop().time()
    await wakeup.wait(seconds)
    return asyncio.get_running_loop().time() - began


async def test_a_wait_ends_with_its_time_or_when_it_is_set():
    wakeup = Wakeup()
    assert await woken_after(wakeup, 5) == pytest.approx(5)
    waiting = asyncio.create_task(woken_after(wakeup, 5))
    await asyncio.sleep(2)
    wakeup.set()
    wakeup.clear()  # who was woken stays awake
    assert await waiting == pytest.approx(2)
    assert await woken_after(wakeup, 5) == pytest.approx(5)


async def test_what_was_set_before_the_wait_is_not_lost():
    wakeup = Wakeup()
    wakeup.set()
    assert await woken_after(wakeup, 5) == 0


async def test_a_wait_that_is_cancelled_leaves_nothing_behind():
    wakeup = Wakeup()
    waiting = asyncio.create_task(wakeup.wait(5))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    wakeup.set()
    assert await woken_after(wakeup, 5) == 0
