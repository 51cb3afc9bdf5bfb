"""One process decides: taking, keeping, losing and giving back the Lease, in virtual time."""

import asyncio

import pytest
from tests.support.fakekube import FakeKube

from specdec.controller.clock import Clock
from specdec.controller.kube import KubeError
from specdec.controller.lease import Lease, LeaseLostError

pytestmark = pytest.mark.looptime


def clock() -> Clock:
    time = asyncio.get_running_loop().time
    return Clock(now=lambda: 1_780_000_000 + time(), monotonic=time)


def lease(kube: FakeKube, identity: str) -> Lease:
    return Lease(kube, clock(), "specdec-system", identity)


async def test_the_first_one_takes_it_at_once_and_renews():
    kube = FakeKube()
    one = lease(kube, "one")
    await one.acquire()
    keeping = asyncio.create_task(one.keep())
    await asyncio.sleep(60)
    assert one.held()
    assert not keeping.done()
    keeping.cancel()
    assert {(verb, kind) for verb, kind, _ in kube.writes} == {("create", "Lease"), ("update", "Lease")}


async def test_a_dead_holder_is_followed_after_its_duration_with_a_higher_epoch():
    kube = FakeKube()
    one, two = lease(kube, "one"), lease(kube, "two")
    await one.acquire()
    started = asyncio.get_running_loop().time()
    await two.acquire()
    assert 15 <= asyncio.get_running_loop().time() - started <= 19
    assert two.epoch == one.epoch + 1
    assert not one.held()


async def test_a_living_holder_is_not_followed():
    kube = FakeKube()
    one, two = lease(kube, "one"), lease(kube, "two")
    await one.acquire()
    keeping = asyncio.create_task(one.keep())
    waiting = asyncio.create_task(two.acquire())
    await asyncio.sleep(120)
    assert one.held()
    assert not waiting.done()
    keeping.cancel()
    waiting.cancel()


async def test_the_holder_stops_at_the_deadline_before_anyone_may_follow():
    kube = FakeKube()
    one = lease(kube, "one")
    await one.acquire()
    keeping = asyncio.create_task(one.keep())
    kube.failures["Lease"] = KubeError("no route to the API server")
    await asyncio.sleep(9)
    assert one.held()
    await asyncio.sleep(5)
    assert not one.held()
    keeping.cancel()


async def test_an_api_server_that_was_away_is_acted_on_within_two_seconds_by_whom_it_still_names():
    kube, regained = FakeKube(), asyncio.Event()
    one = lease(kube, "one")
    one.regained = regained.set
    await one.acquire()
    epoch, keeping = one.epoch, asyncio.create_task(one.keep())
    kube.failures["Lease"] = KubeError("no route to the API server")
    await asyncio.sleep(600)
    assert not one.held()
    assert not keeping.done()
    kube.failures.clear()
    async with asyncio.timeout(2):
        await regained.wait()
    assert (one.held(), one.epoch) == (True, epoch)
    keeping.cancel()


async def test_whoever_was_followed_meanwhile_ends():
    kube = FakeKube()
    one, two = lease(kube, "one"), lease(kube, "two")
    await one.acquire()
    await two.acquire()
    with pytest.raises(LeaseLostError, match="two has taken the lease specdec-system/specdec-operator"):
        await one.keep()
    assert not one.held()


async def test_a_lease_that_is_given_back_is_taken_at_once():
    kube = FakeKube()
    one, two = lease(kube, "one"), lease(kube, "two")
    await one.acquire()
    await one.release()
    assert not one.held()
    started = asyncio.get_running_loop().time()
    await two.acquire()
    assert asyncio.get_running_loop().time() - started < 1
    assert two.epoch == one.epoch + 1


async def test_a_lease_made_anew_has_a_higher_epoch_than_any_before():
    kube = FakeKube()
    one = lease(kube, "one")
    await one.acquire()
    kube.objects.clear()
    await asyncio.sleep(120)
    two = lease(kube, "two")
    await two.acquire()
    assert two.epoch > one.epoch
