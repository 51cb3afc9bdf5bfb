"""The watches on children: from an API server's stream into the store, over breaks, silence and forgotten versions."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio import client
from tests.support.controllerparts import KEY, pod

from specdec.controller import watches
from specdec.controller.connection import Connection
from specdec.controller.kinds import CHILDREN, POD
from specdec.controller.kube import GoneError, Kube, KubeError
from specdec.controller.store import Key, Store
from specdec.controller.watches import Watch

Manifest = dict[str, Any]
Step = Manifest | KubeError | None
"""An event, an error, or (None) silence from there on."""


def version(number: int, name: str = "demo-0") -> Manifest:
    made = pod(name, uid=f"uid-{name}")
    made["metadata"]["resourceVersion"] = str(number)
    return made


def event(kind: str, number: int, name: str = "demo-0") -> Manifest:
    return {"type": kind, "object": version(number, name)}


class Script:
    """An API server that answers one list and one watch after the other, and then stays silent."""

    def __init__(self, lists: list[tuple[str, list[Manifest]]], streams: list[list[Step]]) -> None:
        self.lists, self.streams = lists, streams
        self.asked: list[str] = []
        self.silent = asyncio.Event()

    async def pages(self, *_: Any) -> AsyncIterator[tuple[str, list[Manifest]]]:
        number, items = self.lists.pop(0)
        self.asked.append("list")
        for item in items or [None]:
            yield number, [item] if item else []

    async def watch(self, kind: Any, namespace: str, label: str, *, version: str, seconds: int) -> Any:
        self.asked.append(version)
        for step in self.streams.pop(0) if self.streams else [None]:
            if step is None:
                self.silent.set()
                await asyncio.Event().wait()
            elif isinstance(step, KubeError):
                raise step
            else:
                yield step


async def told(script: Script, store: Store) -> list[Key]:
    """Let a watch run until the API server has nothing more to say; the servers that it woke."""
    woken: list[Key] = []
    watch = Watch(script, store, woken.append, POD)  # type: ignore[arg-type]
    task = asyncio.create_task(watch.run())
    await script.silent.wait()
    task.cancel()
    return woken


def names(store: Store) -> list[str]:
    return [item["metadata"]["name"] for item in store.children(POD, KEY)]


@pytest.mark.looptime
async def test_what_is_listed_and_what_happens_after_it_is_in_the_store_and_wakes_its_server():
    steps: list[Step] = [
        event("ADDED", 6, "demo-1"),
        event("MODIFIED", 7),
        event("DELETED", 8, "demo-1"),
        None,
    ]
    script, store = Script([("5", [version(3)])], [steps]), Store()
    assert await told(script, store) == [KEY] * 4
    assert (names(store), store.known(POD)["serving", "demo-0"].version) == (["demo-0"], "7")
    assert script.asked == ["list", "5"]


@pytest.mark.looptime
async def test_a_version_that_the_store_has_already_wakes_nobody():
    store = Store()
    store.put(version(6))
    assert await told(Script([("5", [version(3)])], [[event("MODIFIED", 6), None]]), store) == []


@pytest.mark.looptime
async def test_a_watch_goes_on_at_the_newest_version_that_it_heard_of_bookmarks_included():
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "90"}}}
    streams: list[list[Step]] = [[event("ADDED", 6)], [bookmark, KubeError("broken")], [None]]
    script = Script([("5", [])], streams)
    await told(script, Store())
    assert script.asked == ["list", "5", "6", "90"]


@pytest.mark.looptime
async def test_a_deaf_watch_is_left_and_begun_again_where_it_ended():
    script = Script([("5", [])], [[event("ADDED", 6), None], [event("MODIFIED", 7), None]])
    news: asyncio.Queue[Key] = asyncio.Queue()
    task = asyncio.create_task(Watch(script, Store(), news.put_nowait, POD).run())  # type: ignore[arg-type]
    began = asyncio.get_running_loop().time()
    await news.get()
    await news.get()
    task.cancel()
    assert script.asked == ["list", "5", "6"]
    assert asyncio.get_running_loop().time() - began <= 75


@pytest.mark.looptime
async def test_what_was_deleted_while_nobody_watched_is_noticed_and_what_is_younger_than_the_list_stays():
    store = Store()
    for number, name in ((2, "demo-0"), (3, "demo-1"), (9, "demo-2")):
        store.put(version(number, name))
    script = Script([("1", []), ("8", [version(2)])], [[GoneError("too old", 410)], [None]])
    assert await told(script, store) == [KEY]
    assert names(store) == ["demo-0", "demo-2"]
    assert script.asked == ["list", "1", "list", "8"]


@pytest.mark.looptime
async def test_loops_may_begin_once_every_kind_of_child_is_known():
    script = Script([("5", [])] * len(CHILDREN), [])
    known = asyncio.Event()
    script.lists.pop()
    found = watches.of_children(script, Store(), lambda _: None, (), frozenset({POD}))  # type: ignore[arg-type]
    task = asyncio.create_task(watches.run_all(found, known))
    async with asyncio.timeout(5):
        await known.wait()
    assert script.asked.count("list") == len(CHILDREN) - 1
    task.cancel()


Answer = Callable[[web.Request], Any]


@pytest.fixture
async def kube() -> AsyncIterator[tuple[Kube, list[str], list[bytes]]]:
    asked: list[str] = []
    lines: list[bytes] = []

    async def pods(request: web.Request) -> web.StreamResponse:
        asked.append(request.path_qs)
        if "watch" not in request.query:
            rest = "continue" not in request.query
            body = {
                "metadata": {"resourceVersion": "5", "continue": "more" if rest else ""},
                "items": [pod()],
            }
            return web.json_response(body)
        answer = web.StreamResponse()
        await answer.prepare(request)
        for line in lines:
            await answer.write(line)
        return answer

    app = web.Application()
    app.router.add_get("/api/v1/pods", pods)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found = Kube(
        Connection(client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")))
    )
    yield found, asked, lines
    await found.close()
    await runner.cleanup()


async def test_a_long_list_comes_in_pages(kube: tuple[Kube, list[str], list[bytes]]):
    found, asked, _ = kube
    pages = [(number, len(page)) async for number, page in found.pages(POD, "", POD.label)]
    assert pages == [("5", 1), ("5", 1)]
    assert asked[1].endswith("limit=500&labelSelector=specdec.dev/server&continue=more")


async def test_events_are_lines_of_any_length_in_any_pieces(kube: tuple[Kube, list[str], list[bytes]]):
    found, asked, lines = kube
    large = {"type": "ADDED", "object": {"metadata": {"name": "x" * 3_000_000}}}
    text = json.dumps(large).encode() + b"\n" + json.dumps(event("DELETED", 7)).encode() + b"\n"
    lines += [text[:10], text[10:2_000_000], text[2_000_000:]]
    assert [item async for item in found.watch(POD, "", POD.label, version="5", seconds=55)] == [
        large,
        event("DELETED", 7),
    ]
    assert "resourceVersion=5&timeoutSeconds=55&allowWatchBookmarks=true" in asked[0]


@pytest.mark.parametrize(
    ("line", "expected", "sentence"),
    [
        ({"type": "ERROR", "object": {"code": 410, "message": "too old"}}, GoneError, "watch pods in the cluster: too old"),
        ({"type": "ERROR", "object": {"code": 500, "message": "oh"}}, KubeError, "refused with 500: oh"),
        ("no event", KubeError, "answered with what is no event"),
    ],
)  # fmt: skip
async def test_what_is_no_event_is_an_error(
    kube: tuple[Kube, list[str], list[bytes]], line: object, expected: type[KubeError], sentence: str
):
    found, _, lines = kube
    lines.append(json.dumps(line).encode() + b"\n")
    with pytest.raises(expected, match=sentence):
        [item async for item in found.watch(POD, "", "", version="5", seconds=55)]


def test_a_deaf_watch_is_left_within_75_seconds():
    assert watches.WATCH_SECONDS + watches.DEAF_SECONDS + watches.RETRY_SECONDS <= 75
