"""The preflight in one pass of the planner: when a Job is needed, what may be launched, what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scenario_agent import Model, judged
from tests.support.scenario_world import NOW, launched, outcomes, planned, pod, record, server, told, world

from specdec.api.preflight import Preflight
from specdec.resources import revision_record
from specdec.rollout.clock import exact
from specdec.rollout.world import PodView, PreflightJob, RevisionRecord, World

ENFORCE = {"mode": "Enforce"}
V1 = record("v1", 1, outcome="Promoted", at=exact(NOW - 4000))
V2 = record("v2", 2)
STEPS = {"speculation": {"numSteps": 4}}
RESTARTING = record("v2", 2, spec=STEPS)
FAULTY, SOUND = Model(fault="HeadTied"), Model()


def result(of: RevisionRecord, model: Model | None, wish: dict | None = None, ago: float = 1.0):
    return judged(of.name, Preflight.model_validate(wish or {}), model, NOW - ago)


def known(of: RevisionRecord, model: Model | None) -> RevisionRecord:
    return replace(of, preflight=result(of, model).model_dump_json(by_alias=True))


def job(of: RevisionRecord, model: Model | None = None, *, done: bool = True, **fields) -> PreflightJob:
    answer = result(of, model) if done else None
    return PreflightJob("kimi-check-1", of.name, NOW - 5, answer, **fields)


def first(**more) -> World:
    return world(
        server("v2", preflight=ENFORCE | more.pop("preflight", {}), **more.pop("spec", {})), None, **more
    )


def restart(*records: RevisionRecord, **more) -> World:
    of = server("v2", preflight=ENFORCE | more.pop("preflight", {}), **STEPS)
    return world(of, V1, pod(V1), records=(V1, *records), **more)


def swap(*records: RevisionRecord, **more) -> World:
    of = server("v2", preflight=ENFORCE | more.pop("preflight", {}), **more.pop("spec", {}))
    return world(of, V1, pod(V1), records=(V1, *records), **more)


NO_DRAFTER = world(server(None, preflight=ENFORCE), None)
JOB, START, BOTH, NOTHING = {"Job"}, {"StatefulSet"}, {"Job", "StatefulSet"}, set[str]()

NEEDED = {
    "a first start": (first(), JOB),
    "a first start that was judged well": (first(records=(known(V2, SOUND),)), START),
    "a first start that was judged badly": (first(records=(known(V2, FAULTY),)), NOTHING),
    "the same with Warn": (first(preflight={"mode": "Warn"}, records=(known(V2, FAULTY),)), START),
    "Warn wants to know as well": (first(preflight={"mode": "Warn"}), JOB),
    "Off wants to know nothing": (first(preflight={"mode": "Off"}), START),
    "settings that nothing was judged by": (
        first(preflight={"skipChecks": ["HeadTied"]}, records=(known(V2, FAULTY),)), JOB,
    ),
    "a first start without drafting": (first(spec={"drafting": "Off"}), START),
    "a server without a drafter": (NO_DRAFTER, START),
    "a drafter that is swapped in": (swap(), START),
    "one that needs a restart": (restart(), BOTH),
    "one that needs a restart and was judged": (restart(known(RESTARTING, SOUND)), START),
    "a restart in Observe mode": (world(server("v2", preflight=ENFORCE, mode="Observe", **STEPS), V1, pod(V1)), BOTH),
    "a paused rollout": (
        world(server("v2", preflight=ENFORCE, rollout={"paused": True}, **STEPS), V1, pod(V1)), START,
    ),
    "a promoted revision": (world(server("v1", preflight=ENFORCE), V1, pod(V1)), START),
    "a pinned revision": (
        world(
            server("v1", preflight=ENFORCE, rollout={"pinnedRevision": RESTARTING.name}), V1, pod(V1),
            records=(V1, RESTARTING),
        ), START,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NEEDED)
def test_what_is_made(case):
    of, kinds = NEEDED[case]
    assert {item["kind"] for item in planned(of).objects} & BOTH == kinds


@pytest.mark.parametrize(
    ("model", "starts_with"), [(SOUND, "v2"), (FAULTY, "v1"), (None, "v1")], ids=["sound", "faulty", "gone"]
)
def test_a_restart_begins_only_once_its_drafter_has_passed(model, starts_with):
    made = planned(restart(preflights=(job(RESTARTING, model),)))
    plan = launched(made)
    assert plan
    assert plan.drafter
    assert plan.drafter.version == starts_with
    assert not made.deletions


def test_a_result_is_kept_in_the_record_and_asked_for_once():
    made = planned(first(preflights=(job(V2, SOUND),)))
    (kept,) = [revision_record(item) for item in made.objects if item["kind"] == "ControllerRevision"]
    assert kept.preflight
    again = planned(first(records=(kept,)))
    assert "Job" not in {item["kind"] for item in again.objects}
    assert [event.reason for event in made.events].count("PreflightPassed") == 1
    assert "PreflightPassed" not in [event.reason for event in again.events]


def test_a_result_of_an_earlier_trial_does_not_count():
    late = replace(V2, at=exact(NOW - 2))
    assert "Job" in {
        item["kind"] for item in planned(first(records=(late,), preflights=(job(V2, FAULTY),))).objects
    }


@pytest.mark.parametrize(
    ("found", "outcome"), [(FAULTY, "Rejected"), (SOUND, ""), (None, None)], ids=["faulty", "sound", "gone"]
)
def test_only_a_fault_of_the_drafter_rejects_it(found, outcome):
    assert outcomes(planned(first(records=(V2,), preflights=(job(V2, found),)))).get("v2") == outcome


@pytest.mark.parametrize(
    ("wish", "commands"),
    [(ENFORCE, []), ({"mode": "Warn"}, ["kimi-0 Swap v2"]), ({"mode": "Off"}, ["kimi-0 Swap v2"]),
     ({"skipChecks": ["HeadTied"]}, ["kimi-0 Swap v2"]), ({"repair": "Never"}, ["kimi-0 Swap v2"])],
)  # fmt: skip
def test_a_refusal_holds_as_long_as_the_settings_that_it_was_made_by(wish, commands):
    refused = replace(
        known(V2, FAULTY),
        outcome="Rejected",
        reason="HeadTied",
        message="preflight: HeadTied: x",
        at=exact(NOW - 50),
    )
    assert told(planned(swap(refused, preflight=wish))) == commands


def test_a_refusal_while_loading_holds_whatever_the_preflight_is():
    refused = replace(
        known(V2, FAULTY), outcome="Rejected", reason="HeadTied", message="no", at=exact(NOW - 50)
    )
    assert told(planned(swap(refused, preflight={"mode": "Warn"}))) == []


TROUBLE = {
    "Unschedulable": job(V2, done=False, pod=PodView("p", "u", NOW - 40, unschedulable="0/1 nodes")),
    "ImagePullFailed": job(
        V2, done=False, pod=PodView("p", "u", NOW - 20, waiting_reason="ImagePullBackOff")
    ),
    "ContainerNotStarted": job(
        V2, done=False, pod=PodView("p", "u", NOW - 20, waiting_reason="CreateContainerError")
    ),
    "PreflightNotRun": job(V2, done=False, failed="DeadlineExceeded: too long"),
    "DrafterNotFound": job(V2, None),
}


@pytest.mark.parametrize("reason", TROUBLE)
def test_a_job_without_an_answer_is_a_named_reason(reason):
    made = planned(first(records=(V2,), preflights=(TROUBLE[reason],)))
    said = {item.type: item for item in made.status.conditions}
    assert [(said[kind].status, said[kind].reason) for kind in ("PreflightPassed", "Stalled", "Ready")] == [
        ("Unknown", reason),
        ("True", reason),
        ("False", reason),
    ]


def test_the_job_judges_the_start_as_it_would_be():
    made = planned(first(spec={"engine": {"contextLength": 4096}}, preflight={"skipChecks": ["HeadTied"]}))
    (found,) = [item for item in made.objects if item["kind"] == "Job"]
    (container,) = found["spec"]["template"]["spec"]["containers"]
    (text,) = [item["value"] for item in container["env"] if item["name"] == "SPECDEC_PLAN"]
    for words in ('"--context-length","4096"', '"skipChecks":["HeadTied"]', "/models/models/drafters/v2"):
        assert words in text
