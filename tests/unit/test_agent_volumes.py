from __future__ import annotations

import asyncio
import threading
import time

import pytest

from specdec.engine.agent.volumes import on_volume


async def test_gives_the_result_or_raises_the_error():
    assert await on_volume(5, max, 1, 2) == 2
    with pytest.raises(ValueError, match="invalid literal"):
        await on_volume(5, int, "x")


async def test_hung_work_is_left_alone_however_often():
    release = threading.Event()
    began = time.monotonic()
    for _ in range(50):
        with pytest.raises(TimeoutError):
            await on_volume(0.001, release.wait)
    assert await asyncio.wait_for(on_volume(5, max, 1, 2), 5) == 2
    assert time.monotonic() - began < 5
    release.set()
