"""Engine pods without a node: what ends them is not kept back."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from tests.support.fakepods import FakePods
from tests.support.gate import Gate
from tests.support.kubeapi import KubeApi


class Gone:
    """An API server that is gone."""

    async def items(self, *_: object) -> list[object]:
        raise ConnectionError("the API server is gone")


async def test_who_waits_for_pods_that_have_ended_is_told_why_at_once():
    gate = Gate("http://127.0.0.1:1", None, lambda: None)
    pods = FakePods(cast("KubeApi", Gone()), gate, "llm", "kimi", "127.9.0", {})
    with pytest.RaisesGroup(pytest.RaisesExc(ConnectionError, match="is gone")):
        async with pods.running():
            await asyncio.Event().wait()


async def test_what_fails_beside_them_is_raised_and_they_end():
    gate = Gate("http://127.0.0.1:1", None, lambda: None)
    pods = FakePods(cast("KubeApi", Empty()), gate, "llm", "kimi", "127.9.0", {})
    with pytest.RaisesGroup(AssertionError):
        async with pods.running():
            raise AssertionError
    assert len(asyncio.all_tasks()) == 1


class Empty:
    """An API server without pods."""

    async def items(self, *_: object) -> list[object]:
        return []
