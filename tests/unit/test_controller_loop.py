"""The serial loop: one pass at a time, errors with a growing delay, nothing written at rest."""

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import pytest
from tests.support.controllerparts import KEY, UID, Parts, calm, child, pod, server, status

from specdec.api.v1alpha1 import AcceptanceStatus, SpecDecodeServerStatus
from specdec.controller.kube import ConflictError, ForbiddenError
from specdec.controller.status import NUMBER_SECONDS
from specdec.engine.protocol import Answer, Confirm, DrafterRef, Promote, Rollback, Swap
from specdec.resources import controller_revision
from specdec.rollout.world import AgentCommand, Event, Evidence, Plan, RevisionRecord, World

pytestmark = pytest.mark.looptime


async def run_for(parts: Parts, seconds: float) -> None:
    task = asyncio.create_task(parts.loop().run())
    await asyncio.sleep(seconds)
    task.cancel()


async def test_at_rest_nothing_is_written():
    parts = Parts(calm)
    parts.add(server())
    await run_for(parts, 120)
    assert parts.kube.writes == [
        ("patch", "Service", "demo-extra"),
        ("patch", "SpecDecodeServer/status", "demo"),
    ]


async def test_a_restarted_operator_with_nothing_to_do_writes_nothing():
    parts = Parts(calm)
    parts.add(server())
    await run_for(parts, 10)
    parts.kube.writes.clear()
    await run_for(parts, 60)
    assert parts.kube.writes == []


async def test_passes_never_overlap():
    running, most = 0, 0

    class Slow:
        def evidence(self, world: World, now: float) -> Evidence:
            return {}

    parts = Parts(calm)
    parts.add(server())
    loop = parts.loop()
    original = loop._pass

    async def slow_pass() -> tuple[list[str], float]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        return await original()

    loop._pass = slow_pass  # type: ignore[method-assign]
    task = asyncio.create_task(loop.run())
    for _ in range(50):
        loop.woken.set()
        await asyncio.sleep(0.1)
    task.cancel()
    assert most == 1


async def test_news_wake_the_loop_before_its_time():
    passes: list[float] = []

    def planner(world: World, evidence: Evidence, now: float) -> Plan:
        passes.append(asyncio.get_running_loop().time())
        return Plan((), requeue_after=300)

    parts = Parts(planner)
    parts.add(server())
    loop = parts.loop()
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(10)
    loop.woken.set()
    await asyncio.sleep(1)
    task.cancel()
    assert [round(at) for at in passes] == [0, 10]


async def test_a_number_that_moved_lately_is_written_though_nothing_more_is_heard():
    shown = ["2.0"]

    def planner(world: World, evidence: Evidence, now: float) -> Plan:
        acceptance = AcceptanceStatus(verdict="Healthy", accept_length=shown[0])
        return Plan(
            (), status=SpecDecodeServerStatus(phase="Serving", acceptance=acceptance), requeue_after=300
        )

    parts = Parts(planner)
    parts.add(server())
    loop = parts.loop()
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(10)
    shown[0] = "3.0"
    loop.wake()
    await asyncio.sleep(NUMBER_SECONDS + 20)
    task.cancel()
    written = parts.kube.objects["SpecDecodeServer", *KEY]["status"]
    assert written["acceptance"]["acceptLength"] == "3.0"


async def test_a_failing_pass_is_repeated_with_a_growing_delay_of_at_most_30_s():
    passes: list[float] = []

    def planner(world: World, evidence: Evidence, now: float) -> Plan:
        passes.append(asyncio.get_running_loop().time())
        raise RuntimeError("on purpose")

    parts = Parts(planner)
    parts.add(server())
    loop = parts.loop()
    task = asyncio.create_task(loop.run())
    for _ in range(600):
        loop.woken.set()  # news must not make it hot
        await asyncio.sleep(0.5)
    task.cancel()
    gaps = [after - before for before, after in itertools.pairwise(passes)]
    assert gaps[0] < 1.5
    assert 20 <= max(gaps) <= 30
    assert len(passes) < 20


async def test_the_loop_ends_when_the_server_is_being_deleted():
    parts = Parts(calm)
    stored = parts.add(server())
    task = asyncio.create_task(parts.loop().run())
    await asyncio.sleep(1)
    stored["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    parts.add(stored)
    await asyncio.sleep(10)
    assert task.done()


async def test_without_the_lease_nothing_is_done():
    parts = Parts(calm, leading=False)
    parts.add(server())
    await run_for(parts, 60)
    assert parts.kube.writes == []


async def test_a_missing_permission_is_said_and_the_rest_goes_on():
    parts = Parts(calm)
    parts.add(server())
    sentence = "specdec-operator may not patch services in namespace serving: grant it in the operator's role"
    parts.kube.failures["Service"] = ForbiddenError(sentence, 403)
    await run_for(parts, 5)
    written = parts.kube.objects["SpecDecodeServer", *KEY]["status"]
    assert written["phase"] == "Serving"
    assert written["conditions"][0]["message"] == sentence
    assert parts.kube.writes.count(("patch", "SpecDecodeServer/status", "demo")) == 1


async def test_somebody_elses_object_is_not_taken_over():
    parts = Parts(calm)
    parts.add(server())
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "demo-extra", "namespace": "serving"},
    }
    parts.kube.add({**theirs, "spec": {"note": "theirs"}})
    await run_for(parts, 5)
    assert parts.kube.objects["Service", "serving", "demo-extra"]["spec"] == {"note": "theirs"}
    written = parts.kube.objects["SpecDecodeServer", *KEY]["status"]
    assert "belongs to something else" in written["conditions"][0]["message"]


async def test_an_event_is_posted_once_and_after_the_status():
    def planner(world: World, evidence: Evidence, now: float) -> Plan:
        event = Event("Warning", "DrafterRejected", "no draft was right")
        return Plan((), status=SpecDecodeServerStatus(phase="Serving"), events=(event,), requeue_after=1)

    parts = Parts(planner)
    parts.add(server())
    await run_for(parts, 60)
    assert [kind for _, kind, _ in parts.kube.writes] == ["SpecDecodeServer/status", "Event"]


async def test_what_a_pass_wrote_down_but_could_not_tell_of_is_shown_to_the_next_one_as_untold():
    shown: list[tuple[list[str], list[str]]] = []

    def planner(world: World, evidence: Evidence, now: float) -> Plan:
        shown.append(([record.name for record in world.revisions], list(world.told_of)))
        record = RevisionRecord(name="demo-1", number=1, data={}, outcome="Promoted")
        status = SpecDecodeServerStatus(phase="Serving")
        return Plan((controller_revision(world.server, record),), status=status, requeue_after=5)

    parts = Parts(planner)
    parts.add(server())
    parts.kube.failures["SpecDecodeServer"] = ConflictError("changed since it was read", 409)
    task = asyncio.create_task(parts.loop().run())
    await asyncio.sleep(1)
    del parts.kube.failures["SpecDecodeServer"]
    await asyncio.sleep(10)
    task.cancel()
    assert shown[0] == ([], [])
    assert shown[1] == (["demo-1"], [])
    assert shown[-1] == (["demo-1"], ["demo-1"])


async def test_a_server_that_is_not_what_the_crd_allows_says_so_itself():
    parts = Parts(calm)
    parts.add(server())
    await run_for(parts, 5)
    parts.add({**server(replicas=-1), "status": parts.kube.objects["SpecDecodeServer", *KEY]["status"]})
    parts.kube.writes.clear()
    await run_for(parts, 90)
    written = parts.kube.objects["SpecDecodeServer", *KEY]["status"]
    (stalled,) = (item for item in written["conditions"] if item["type"] == "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "InvalidSpec")
    assert "spec.replicas is not what the CRD allows" in stalled["message"]
    assert written["phase"] == "Serving"
    assert sorted(kind for _, kind, _ in parts.kube.writes) == ["Event", "SpecDecodeServer/status"]


SWAP = Swap(drafter=DrafterRef(revision="r2", version="v2", path="/models/m/v2"), confirm_within_seconds=60)


def commanding(*commands: Any, fail: bool = False):
    def planner(world: World, evidence: Evidence, now: float) -> Plan:
        objects = (child(world),) if fail else ()
        return Plan(
            objects, tuple(AgentCommand("demo-0", command) for command in commands), requeue_after=300
        )

    return planner


async def test_commands_go_to_the_pod_in_order_with_rising_assignments_and_the_epoch():
    parts = Parts(commanding(SWAP, Promote(revision="r2")))
    parts.add(server())
    parts.add(pod())
    await run_for(parts, 1)
    sent = [(address, uid, item.command.verb, item.epoch) for address, uid, item in parts.agents.taken]
    assert sent == [("10.0.0.1", "pod-uid", "Swap", 7), ("10.0.0.1", "pod-uid", "Promote", 7)]
    first, second = (item.assignment for _, _, item in parts.agents.taken)
    assert second > first > 0


async def test_an_agent_that_has_seen_a_higher_assignment_gets_a_higher_one():
    parts = Parts(commanding(SWAP))
    parts.add(server())
    parts.add({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": workload(), "spec": {}})
    parts.add(pod())
    parts.agents.said["10.0.0.1"] = status(assignment=41)
    polling = asyncio.create_task(parts.poller.run())
    await asyncio.sleep(1)
    await run_for(parts, 1)
    polling.cancel()
    assert parts.agents.taken[0][2].assignment == 42


def workload() -> dict[str, Any]:
    return {
        "name": "demo",
        "namespace": "serving",
        "uid": "workload-uid",
        "labels": {"specdec.dev/server": "demo"},
        "ownerReferences": [{"uid": UID}],
    }


async def test_where_an_object_fails_only_commands_that_keep_traffic_safe_go_out():
    parts = Parts(commanding(SWAP, Rollback(revision="r2", reason="BelowFloor"), fail=True))
    parts.add(server())
    parts.add(pod())
    parts.kube.failures["Service"] = ForbiddenError("no", 403)
    await run_for(parts, 0.1)
    assert [item.command.verb for _, _, item in parts.agents.taken] == ["Rollback"]


async def test_a_refused_command_is_said():
    parts = Parts(commanding(SWAP))
    parts.agents.answers = [
        Answer(accepted=False, reason="StaleEpoch", message="another operator leads")
    ] * 99
    parts.add(server())
    parts.add(pod())
    await run_for(parts, 3)
    written = parts.kube.objects["SpecDecodeServer", *KEY]["status"]
    assert "refused Swap: StaleEpoch: another operator leads" in written["conditions"][0]["message"]


async def test_a_candidate_is_confirmed_five_times_in_its_time_however_often_the_loop_passes():
    parts = Parts(commanding(Confirm(revision="r2", within_seconds=60)))
    parts.add(server())
    parts.add(pod())
    loop = parts.loop()
    task = asyncio.create_task(loop.run())
    for _ in range(600):
        loop.woken.set()
        await asyncio.sleep(0.1)
    task.cancel()
    assert 5 <= len(parts.agents.taken) <= 6
    assert len(parts.agents.asked) == 1, "before the first pass, and for no Confirm"


async def test_agents_are_asked_before_the_first_pass_or_what_serves_would_seem_to_start():
    heard: list[int] = []

    def planner(world: World, evidence: Evidence, now: float) -> Plan:
        heard.append(len(parts.poller.heard))
        return Plan((), requeue_after=5)

    parts = Parts(planner)
    parts.add(server())
    parts.add(pod())
    parts.agents.said["10.0.0.1"] = status()
    await run_for(parts, 3)
    assert heard == [1]


async def test_news_without_end_make_no_hot_loop():
    passes = 0

    def planner(world: World, evidence: Evidence, now: float) -> Plan:
        nonlocal passes
        passes += 1
        loop.woken.set()
        return Plan((), requeue_after=300)

    parts = Parts(planner)
    parts.add(server())
    loop = parts.loop()
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(10)
    task.cancel()
    assert passes <= 101


async def test_who_lost_the_lease_in_the_middle_of_a_pass_writes_and_tells_nothing_more():
    def two(world: World, evidence: Evidence, now: float) -> Plan:
        rollback = AgentCommand("demo-0", Rollback(revision="r2", reason="BelowFloor"))
        return replace(calm(world, evidence, now), commands=(rollback,))

    parts = Parts(two)
    parts.add(server())
    parts.store.put(parts.kube.add(pod()))
    loop = parts.loop()
    answers = iter([True])  # asked at the beginning of the pass, which stood still since
    loop.may_decide = lambda: next(answers, False)
    parts.leading = False
    await loop._pass()
    assert parts.kube.writes == []
    assert parts.agents.taken == []


async def test_an_own_write_that_the_watch_tells_before_its_answer_causes_no_second_pass():
    parts, passes = Parts(calm), list[float]()
    parts.add(server())
    loop = parts.loop()
    apply = parts.kube.apply

    def counted(world: World, evidence: Evidence, now: float) -> Plan:
        passes.append(now)
        return calm(world, evidence, now)

    async def told_first(manifest: Any, subresource: str = "") -> Any:
        made = await apply(manifest, subresource)
        if parts.store.put(made):
            loop.wake()
        return made

    parts.kube.apply = told_first  # type: ignore[method-assign]
    loop.planner = counted
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(5)
    assert len(passes) == 1
    loop.wake()
    await asyncio.sleep(1)
    assert len(passes) == 2
    task.cancel()
