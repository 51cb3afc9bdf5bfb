"""What ends a wait: a job, a newer command, and a deadline that may move while it is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from specdec.engine.agent.jobs import Jobs, SupersededError

pytestmark = pytest.mark.looptime


async def due() -> None:
    """Stand for what is done when nobody confirms."""


async def job() -> None:
    """Stand for a command's work."""


def made() -> Jobs:
    return Jobs(due, asyncio.get_running_loop().time)


def now() -> float:
    return asyncio.get_running_loop().time()


def later(seconds: float, do: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, do)


@pytest.mark.parametrize("before", [None, 100.0, 5.0])
@pytest.mark.parametrize("after", [3.0, 30.0])
async def test_a_deadline_that_moves_is_the_one_that_acts(before, after):
    jobs = made()
    jobs.deadline = before
    later(2, lambda: setattr(jobs, "deadline", after))
    assert await jobs.next() is due
    assert now() == pytest.approx(after, abs=0.01)


async def test_a_deadline_that_is_taken_away_acts_no_more():
    jobs = made()
    jobs.deadline = 5.0
    later(2, lambda: setattr(jobs, "deadline", None))
    later(9, lambda: jobs.put(job))
    assert await jobs.next() is job
    assert now() == pytest.approx(9, abs=0.01)


async def test_jobs_come_in_order_but_a_deadline_that_has_passed_comes_first():
    jobs = made()
    jobs.put(due)
    jobs.put(job)
    assert [await jobs.next(), await jobs.next()] == [due, job]
    jobs.put(job)
    jobs.deadline = 0.0
    assert await jobs.next() is due


@pytest.mark.parametrize("before", [None, 100.0])
async def test_a_deadline_that_moves_ends_the_wait_inside_a_job(before):
    jobs = made()
    jobs.deadline = before
    later(2, lambda: setattr(jobs, "deadline", 3.0))
    with pytest.raises(SupersededError):
        await jobs.wait(asyncio.sleep(50))
    assert now() == pytest.approx(3, abs=0.01)


async def test_only_a_job_that_interrupts_ends_a_wait():
    jobs = made()
    jobs.put(job)
    assert await jobs.wait(asyncio.sleep(5, "done")) == "done"
    later(1, lambda: jobs.put(job, interrupt=True))
    with pytest.raises(SupersededError):
        await jobs.wait(asyncio.sleep(5))
    assert [await jobs.next(), await jobs.next()] == [job, job]
    assert await jobs.wait(asyncio.sleep(5, "again")) == "again"
