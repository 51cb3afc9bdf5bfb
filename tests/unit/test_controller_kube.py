"""The Kubernetes client: paths, server-side apply, and refusals as sentences, against a small HTTP server."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client
from tests.support.controllerparts import KEY, pod, server
from tests.support.fakekube import FakeKube

from specdec.controller import access, keys, lease, watches
from specdec.controller.connection import Connection
from specdec.controller.kinds import CLAIM, LEASE, POD, SERVICE
from specdec.controller.kube import (
    CONNECT_SECONDS,
    REQUEST_SECONDS,
    ConflictError,
    ForbiddenError,
    Kube,
    KubeError,
)
from specdec.controller.observe import pod_view
from specdec.controller.store import Store
from specdec.controller.watchdog import Watchdog


class Api:
    """Answers every request the same way and remembers what was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.asked = 200, {}, []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(
            (request.method, request.path_qs, request.headers.get("Content-Type"), await request.text())
        )
        return web.json_response(self.body, status=self.status)


@pytest.fixture
async def api() -> AsyncIterator[tuple[Api, Kube]]:
    answers = Api()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answers.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    kube = Kube(Connection(client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{port}"))))
    yield answers, kube
    await kube.close()
    await runner.cleanup()


async def test_an_apply_is_server_side_by_our_name_and_takes_fields_over(api: tuple[Api, Kube]):
    answers, kube = api
    await kube.apply(server(), "status")
    ((method, path, kind, body),) = answers.asked
    assert (method, kind) == ("PATCH", "application/apply-patch+yaml")
    assert path == (
        "/apis/specdec.dev/v1alpha1/namespaces/serving/specdecodeservers/demo/status"
        "?fieldManager=specdec-operator&force=true"
    )
    assert json.loads(body)["metadata"]["name"] == "demo"


async def test_a_delete_names_the_very_object(api: tuple[Api, Kube]):
    answers, kube = api
    await kube.delete(POD, "serving", "demo-0", "pod-uid", 0)
    body = json.loads(answers.asked[0][3])
    assert (body["preconditions"], body["gracePeriodSeconds"]) == ({"uid": "pod-uid"}, 0)


async def test_a_list_asks_for_labelled_objects_and_says_their_kind(api: tuple[Api, Kube]):
    answers, kube = api
    answers.body = {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a"}}]}
    (found,) = await kube.list(POD, "", "specdec.dev/server", "metadata.name=a")
    assert answers.asked[0][1] == (
        "/api/v1/pods?limit=500&labelSelector=specdec.dev/server&fieldSelector=metadata.name%3Da"
    )
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")


async def test_a_watch_is_left_as_soon_as_it_has_begun():
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await asyncio.sleep(60)
        return answer

    app = web.Application()
    app.router.add_get("/api/v1/pods", endless)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    kube = Kube(
        Connection(client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")))
    )
    async with asyncio.timeout(5):
        await kube.try_watch(POD, "", "specdec.dev/server")
    await kube.close()
    await runner.cleanup()


async def test_a_missing_permission_names_verb_and_resource(api: tuple[Api, Kube]):
    answers, kube = api
    answers.status = 403
    answers.body = {"message": 'services "demo" is forbidden: User "x" cannot patch resource'}
    with pytest.raises(ForbiddenError) as refusal:
        await kube.apply({**pod(), "kind": "Service"})
    assert str(refusal.value) == (
        "specdec-operator may not patch services in namespace serving: grant it in the operator's role"
    )


async def test_a_group_is_part_of_the_resource(api: tuple[Api, Kube]):
    answers, kube = api
    answers.status = 403
    answers.body = {"message": 'leases.coordination.k8s.io is forbidden: User "x" cannot get'}
    with pytest.raises(ForbiddenError, match=r"may not get leases\.coordination\.k8s\.io in namespace a"):
        await kube.get(LEASE, "a", "b")


async def test_a_conflict_is_a_kind_of_error_of_its_own(api: tuple[Api, Kube]):
    answers, kube = api
    answers.status, answers.body = 409, {"message": "the object has been modified"}
    with pytest.raises(ConflictError):
        await kube.apply(server(), "status")


async def test_admission_that_forbids_is_no_missing_permission(api: tuple[Api, Kube]):
    answers, kube = api
    answers.status, answers.body = 403, {"message": "violates PodSecurity"}
    with pytest.raises(KubeError, match="refused with 403: violates PodSecurity") as refusal:
        await kube.apply(server())
    assert not isinstance(refusal.value, ForbiddenError)


async def test_what_is_not_there_is_none(api: tuple[Api, Kube]):
    answers, kube = api
    answers.status, answers.body = 404, {"message": "not found"}
    assert await kube.get(CLAIM, "serving", "models") is None


async def test_no_answer_is_a_sentence(api: tuple[Api, Kube]):
    kube = Kube(Connection(client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))))
    with pytest.raises(KubeError, match=r"list pods in the cluster failed: "):
        await kube.list(POD)
    await kube.close()


async def test_an_attempt_to_connect_that_nobody_answers_is_given_up():
    def silent() -> asyncio.Protocol:
        return asyncio.Protocol()

    deaf = await asyncio.get_running_loop().create_server(silent, "127.0.0.1", 0)
    port = deaf.sockets[0].getsockname()[1]
    # What listens takes the connection, and says nothing when TLS is asked for.
    api = client.ApiClient(client.Configuration(host=f"https://127.0.0.1:{port}"))
    kube = Kube(Connection(api, connect_seconds=0.01))
    async with asyncio.timeout(REQUEST_SECONDS / 2):
        with pytest.raises(KubeError, match="list pods in the cluster failed: ConnectionTimeoutError"):
            await kube.list(POD)
    await kube.close()
    deaf.close()


def test_what_was_tried_in_vain_is_tried_again_within_two_seconds_of_an_api_servers_return():
    assert CONNECT_SECONDS + max(watches.RETRY_SECONDS, lease.REGAIN_SECONDS) <= 2.0
    # The second packet of an attempt goes out after a second, and its answer must still be heard.
    assert CONNECT_SECONDS > 1.0


async def test_the_signing_key_is_made_once():
    kube = FakeKube()
    first = await keys.load(kube, "specdec-system")  # type: ignore[arg-type]
    again = await keys.load(kube, "specdec-system")  # type: ignore[arg-type]
    assert first.public == again.public
    assert kube.writes == [("create", "Secret", "specdec-signing-key")]


async def test_the_next_key_is_told_beside_the_one_that_signs():
    kube = FakeKube()
    first = await keys.load(kube, "specdec-system")  # type: ignore[arg-type]
    secret = kube.objects["Secret", "specdec-system", "specdec-signing-key"]
    secret["data"][keys.NEXT] = base64.b64encode(b"n" * 32).decode()
    both = await keys.load(kube, "specdec-system")  # type: ignore[arg-type]
    assert both.public[0] == first.public[0]
    assert len(set(both.public)) == 2
    assert both.signing.private_bytes_raw() == first.signing.private_bytes_raw()


async def test_a_key_that_is_none_is_named():
    kube = FakeKube()
    await keys.load(kube, "specdec-system")  # type: ignore[arg-type]
    kube.objects["Secret", "specdec-system", "specdec-signing-key"]["data"][keys.NEXT] = "c2hvcnQ="
    with pytest.raises(
        ValueError, match="field ed25519-next of Secret specdec-system/specdec-signing-key is no"
    ):
        await keys.load(kube, "specdec-system")  # type: ignore[arg-type]


async def test_a_kind_that_may_not_be_listed_is_named_and_left_out(caplog: pytest.LogCaptureFixture):
    class Narrow(FakeKube):
        async def list(self, kind: Any, namespace: str = "", label: str = "", fields: str = "") -> Any:
            if kind is SERVICE:
                raise ForbiddenError("specdec-operator may not list services in the cluster", 403)
            return []

    assert await access.settle(Narrow(), ()) == {SERVICE}  # type: ignore[arg-type]
    assert "may not list services" in caplog.text


def watchdog(kube: FakeKube, store: Store, woken: list[Any]) -> Watchdog:
    return Watchdog(kube, store, woken.append, (), frozenset(), 300, [])  # type: ignore[arg-type]


@pytest.mark.looptime
async def test_a_deletion_that_no_watch_told_is_noticed():
    kube, store, woken = FakeKube(), Store(), []
    store.put(kube.add(pod()))
    kube.objects.clear()
    dog = watchdog(kube, store, woken)
    await dog.compare(POD)
    assert (store.children(POD, KEY), woken, dog.complaints) == ([], [KEY], [])


@pytest.mark.looptime
async def test_a_watch_that_missed_something_makes_the_process_unfit():
    kube, store, woken = FakeKube(), Store(), []
    kube.add(pod())
    dog = watchdog(kube, store, woken)
    await dog.compare(POD)
    assert dog.complaints == ["the watch on pods missed demo-0"]
    assert (len(store.children(POD, KEY)), woken) == (1, [KEY])


def test_an_older_version_does_not_replace_a_newer_one():
    store = Store()
    newer, older = pod(), pod()
    newer["metadata"]["resourceVersion"], older["metadata"]["resourceVersion"] = "10", "9"
    assert store.put(newer)
    assert not store.put(older)
    assert not store.put(newer)


def test_a_pod_that_can_not_start_says_why():
    broken = pod()
    broken["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    broken["status"] = {
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes: no GPU"}],
        "containerStatuses": [
            {
                "restartCount": 2,
                "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
            }
        ],
    }
    view = pod_view(broken, None)
    assert (view.unschedulable, view.waiting_reason, view.restarts) == (
        "0/1 nodes: no GPU",
        "ImagePullBackOff",
        2,
    )
    assert not view.ready


@pytest.mark.parametrize(("asked", "through"), [({}, 1), ({"trust_env": False}, 0)])
async def test_the_environments_proxy_is_used_unless_the_configuration_says_no(
    asked: dict[str, bool], through: int, monkeypatch: pytest.MonkeyPatch
):
    proxied = []

    async def forward(request: web.Request) -> web.Response:
        proxied.append(str(request.url))
        return web.json_response(pod())

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    server = TestServer(app)
    await server.start_server()
    monkeypatch.setenv("http_proxy", str(server.make_url("/")))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    configuration = client.Configuration(host="http://api.example:6443")
    configuration.client_session_kwargs = asked
    kube = Kube(Connection(client.ApiClient(configuration), 2.0))
    with contextlib.suppress(KubeError):  # nobody is called api.example
        await kube.get(POD, "serving", "demo")
    assert len(proxied) == through
    await kube.close()
    await server.close()
