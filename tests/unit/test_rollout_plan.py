"""One pass of the planner at a time: what stands, what is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scenario_world import (
    NOW,
    candidate,
    launch,
    launched,
    outcomes,
    planned,
    pod,
    record,
    server,
    serving,
    told,
    verdict,
    world,
)

from specdec.acceptance.verdict import Judgement
from specdec.api.v1alpha1 import SpecDecodeServerStatus
from specdec.engine.protocol import CandidateState, Drafting, Phase, ProbeResult
from specdec.rollout.clock import exact
from specdec.rollout.plan import plan
from specdec.rollout.world import World

V1 = record("v1", 1, outcome="Promoted", at=exact(NOW - 4000))
V2 = record("v2", 2)
OFF = {"drafting": Drafting.OFF, "steps": 0}
BAD, SUSPECT = verdict(Judgement.UNHEALTHY), verdict(Judgement.UNHEALTHY, needs_probe=True)
GOOD, UNSURE = verdict(Judgement.HEALTHY, "AboveFloor"), verdict(Judgement.UNKNOWN, "NoTraffic")


def asks_v2(*pods, records=(V1, V2), **more):
    spec = more.pop("spec", {})
    return world(server("v2", **spec), V1, *pods, records=records, **more)


ENDED = CandidateState.SWAPPED_BACK

TABLE = {
    "at rest nothing is told": (world(server("v1"), V1, pod(V1)), {"v1": GOOD}, []),
    "a new drafter is swapped in": (asks_v2(pod(V1)), {}, ["kimi-0 Swap v2"]),
    "one engine goes first": (asks_v2(pod(V1), pod(V1, 1), spec={"replicas": 2}), {}, ["kimi-0 Swap v2"]),
    "the rest waits for a verdict": (
        asks_v2(serving(V1, V2, ago=99), pod(V1, 1), spec={"replicas": 2}), {"v2": UNSURE}, ["kimi-0 Confirm"],
    ),
    "the rest waits for the soak": (
        asks_v2(serving(V1, V2), pod(V1, 1), spec={"replicas": 2}), {"v2": GOOD}, ["kimi-0 Confirm"],
    ),
    "the rest follows": (
        asks_v2(serving(V1, V2, ago=99), pod(V1, 1), spec={"replicas": 2}), {"v2": GOOD},
        ["kimi-0 Confirm", "kimi-1 Swap v2"],
    ),
    "while it is staged nothing is told": (
        asks_v2(pod(V1, candidate=candidate(V2, CandidateState.STAGING))), {}, [],
    ),
    "a candidate is confirmed": (asks_v2(serving(V1, V2)), {"v2": UNSURE}, ["kimi-0 Confirm"]),
    "a suspect is probed and not confirmed": (asks_v2(serving(V1, V2)), {"v2": SUSPECT}, ["kimi-0 Probe"]),
    "a bad one goes back": (asks_v2(serving(V1, V2)), {"v2": BAD}, ["kimi-0 Rollback BelowFloor"]),
    "a good one is promoted after the soak": (asks_v2(serving(V1, V2, ago=31)), {"v2": GOOD}, ["kimi-0 Promote"]),
    "but not before": (asks_v2(serving(V1, V2, ago=29)), {"v2": GOOD}, ["kimi-0 Confirm"]),
    "nor while paused": (
        asks_v2(serving(V1, V2, ago=99), spec={"rollout": {"paused": True}}), {"v2": GOOD}, ["kimi-0 Confirm"],
    ),
    "a paused bad one goes all the same": (
        asks_v2(serving(V1, V2), spec={"rollout": {"paused": True}}), {"v2": BAD}, ["kimi-0 Rollback BelowFloor"],
    ),
    "observe tells nobody anything": (asks_v2(serving(V1, V2), spec={"mode": "Observe"}), {"v2": BAD}, []),
    "a silent engine is told nothing": (asks_v2(replace(pod(V1), heard_at=NOW - 31)), {}, []),
    "a starting engine is told nothing": (asks_v2(pod(V1, phase=Phase.LOADING_WEIGHTS)), {}, []),
    "a pod on its way out is told nothing": (asks_v2(replace(pod(V1), deleting=True)), {}, []),
    "going back takes the candidate back": (
        world(server("v1"), V1, serving(V1, V2), records=(V1, V2)), {"v2": GOOD}, ["kimi-0 Rollback Superseded"],
    ),
    "going on replaces the candidate directly": (
        world(server("v3"), V1, serving(V1, V2), records=(V1, V2)), {"v2": GOOD}, ["kimi-0 Swap v3"],
    ),
    "going on while the second engine has it too": (
        world(server("v3", replicas=2), V1, serving(V1, V2), serving(V1, V2, 1), records=(V1, V2)), {},
        ["kimi-0 Swap v3", "kimi-1 Rollback Superseded"],
    ),
    "an unconfirmed one waits before its next trial": (
        asks_v2(pod(V1, candidate=candidate(V2, ENDED, reason="NotConfirmed", back_at=exact(NOW - 5)))), {}, [],
    ),
    "and then gets it": (
        asks_v2(pod(V1, candidate=candidate(V2, ENDED, reason="NotConfirmed", back_at=exact(NOW - 31)))), {},
        ["kimi-0 Swap v2"],
    ),
    "drafting off": (world(server("v1", drafting="Off"), V1, pod(V1)), {}, ["kimi-0 SetDrafting Off"]),
    "drafting off ends a trial": (
        asks_v2(serving(V1, V2), spec={"drafting": "Off"}), {}, ["kimi-0 SetDrafting Off", "kimi-0 Rollback DraftingOff"],
    ),
    "drafting on again": (world(server("v1"), V1, pod(V1, **OFF)), {}, ["kimi-0 SetDrafting On"]),
    "a pod that started with something older catches up": (
        world(server("v2"), V2, pod(V1), records=(V1, replace(V2, outcome="Promoted", at=exact(NOW)))), {},
        ["kimi-0 Swap v2"],
    ),
    "an active drafter that is bad makes way for the last good one": (
        world(server("v2"), V2, pod(V2), records=(V1, replace(V2, outcome="Promoted", at=exact(NOW)))), {"v2": BAD},
        ["kimi-0 Swap v1"],
    ),
    "a first drafter that is bad is switched off": (
        world(server("v1"), replace(V1, outcome=""), pod(V1)), {"v1": BAD}, ["kimi-0 SetDrafting Off"],
    ),
    "a pinned revision is not taken back": (
        asks_v2(pod(V1), spec={"rollout": {"pinnedRevision": V1.name}}), {"v1": BAD}, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_commands(case):
    of, evidence, commands = TABLE[case]
    assert told(planned(of, **evidence)) == commands


def test_a_rejection_is_written_with_what_it_held_for():
    made = planned(asks_v2(serving(V1, V2)), v2=BAD)
    assert outcomes(made) == {"v2": "Rejected"}
    entry = made.status.quarantine[0]
    assert (entry.drafter_digest, entry.target_digest, entry.engine) == (
        "sha256:v2",
        "sha256:target",
        "sglang-0.5.23-cpu",
    )
    assert launched(made).revision == V1.name


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("TensorsNotConsumed", "Rejected"),
        ("ShapeMismatch", "Rejected"),
        ("FileMissing", None),
        ("VolumeHangs", None),
        ("Busy", None),
        ("EngineUnreachable", None),
        ("ConfigDiffers", ""),
    ],
)
def test_a_refusal_is_the_drafters_fault_or_not(reason, outcome):
    refused = candidate(V2, CandidateState.REFUSED, reason=reason, message="words")
    assert outcomes(planned(asks_v2(pod(V1, candidate=refused)))).get("v2") == outcome


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("ProbeFailed: DeadDrafter", "Rejected"),
        ("DeadDrafter", "Rejected"),
        ("ProbeFailed: TooFewCalls", None),
        ("NotConfirmed", None),
        ("EngineEnded", None),
        ("EngineCrashed", "Rejected"),
    ],
)
def test_a_way_back_is_the_drafters_fault_or_not(reason, outcome):
    ended = candidate(V2, ENDED, reason=reason, back_at=exact(NOW - 1))
    assert outcomes(planned(asks_v2(pod(V1, candidate=ended)))).get("v2") == outcome


def test_a_drafter_that_cannot_be_swapped_restarts_engines_instead():
    refused = candidate(V2, CandidateState.REFUSED, reason="ConfigDiffers", message="rope_theta")
    made = planned(asks_v2(pod(V1, candidate=refused)))
    assert launched(made).revision == V2.name
    assert [item["name"] for item in made.deletions] == ["kimi-0"]


def test_a_rejected_revision_is_refused_without_a_swap():
    rejected = replace(V2, outcome="Rejected", reason="DeadDrafter", message="dead", at=exact(NOW - 500))
    made = planned(asks_v2(pod(V1), records=(V1, rejected)))
    assert not made.commands
    assert [event.message for event in made.events if event.reason == "Refused"] == []  # nothing new
    assert made.status.rollout == "RolledBack"


@pytest.mark.parametrize("change", [{"target_digest": "sha256:other"}, {"engine": "sglang-0.6"}])
def test_a_rejection_ends_with_another_target_or_engine(change):
    rejected = replace(V2, outcome="Rejected", reason="DeadDrafter", message="dead", at=exact(NOW - 500))
    made = planned(asks_v2(pod(V1, **change), records=(V1, rejected)))
    assert told(made) == ["kimi-0 Swap v2"]


def test_a_promotion_that_was_written_down_but_not_told_is_told():
    promoted = replace(V2, outcome="Promoted", at=exact(NOW - 1), message="2.40 tokens per call")
    standing = world(server("v2"), promoted, pod(promoted), records=(V1, promoted))
    assert [event.reason for event in planned(standing).events if event.reason == "Promoted"] == []
    made = planned(replace(standing, told=(V1, V2)))
    assert [event.message for event in made.events if event.reason == "Promoted"] == [
        "v2 is promoted: 2.40 tokens per call"
    ]
    assert made.status.last_evidence == "v2 promoted: 2.40 tokens per call"


def test_promotion_raises_the_assignment_above_all_that_was_said():
    made = planned(asks_v2(serving(V1, V2, ago=31)), v2=GOOD)
    assert launched(made).revision == V2.name
    assert launched(made).assignment == 8
    assert outcomes(made) == {"v2": "Promoted"}


def test_a_rollback_writes_no_launch_plan():
    of = asks_v2(serving(V1, V2))
    assert launched(planned(of, v2=BAD)) == launch(V1, preflight=of.server.spec.preflight)


def test_the_first_deployment_starts_at_once_with_what_the_spec_says():
    made = plan(world(server("v1"), None), {}, NOW)
    assert launched(made).assignment == 1
    assert launched(made).drafter.version == "v1"
    kinds = [item["kind"] for item in made.objects]
    assert kinds[0] == "ControllerRevision"
    assert {"ConfigMap", "StatefulSet", "Service", "PodDisruptionBudget"} <= set(kinds)


def test_a_pass_never_writes_the_spec():
    of = asks_v2(serving(V1, V2))
    assert all(item["kind"] != "SpecDecodeServer" for item in planned(of, v2=BAD).objects)


def test_a_probe_is_asked_for_once():
    asked = SpecDecodeServerStatus(probe_asked=f"{V2.name}/{int(NOW) - 5}")
    assert told(planned(asks_v2(serving(V1, V2), status=asked), v2=SUSPECT)) == []
    unanswered = SpecDecodeServerStatus(probe_asked=f"{V2.name}/{int(NOW) - 31}")
    assert told(planned(asks_v2(serving(V1, V2), status=unanswered), v2=SUSPECT)) == ["kimi-0 Probe"]


def test_a_suspect_whose_probe_leaves_it_open_is_kept_until_there_is_more_evidence():
    asked = SpecDecodeServerStatus(probe_asked=f"{V2.name}/{int(NOW) - 5}")
    answer = ProbeResult(id=asked.probe_asked, revision=V2.name, passed=True, accept_length="1.9", calls=40)
    candidate_ = serving(V1, V2)
    told_so = replace(candidate_, status=candidate_.status.model_copy(update={"probe": answer}))
    assert told(planned(asks_v2(told_so, status=asked), v2=SUSPECT)) == ["kimi-0 Confirm"]


def test_one_revision_is_probed_at_a_time():
    both = asks_v2(serving(V1, V2), pod(V1, 1), spec={"replicas": 2})
    made = planned(both, v1=SUSPECT, v2=SUSPECT)
    assert told(made) == ["kimi-0 Probe"]
    after = replace(both, server=both.server.model_copy(update={"status": made.status}))
    assert told(planned(after, v1=SUSPECT, v2=SUSPECT)) == []


def restarting(*pods, replicas=3) -> World:
    return world(server("v1", replicas=replicas, engine={"contextLength": 4096}), V1, *pods)


def partition(made) -> int:
    (workload,) = (item for item in made.objects if item["kind"] == "StatefulSet")
    return workload["spec"]["updateStrategy"]["rollingUpdate"]["partition"]


def new(number: int, *, ready: bool = True):
    wanted = record("v1", spec={"engine": {"contextLength": 4096}})
    return replace(pod(wanted, number), ready=ready, was_ready=ready)


def ending(number: int):
    return replace(pod(V1, number), ready=False, deleting=True, deleting_since=NOW)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((pod(V1), pod(V1, 1), pod(V1, 2)), 2),
        ((pod(V1), pod(V1, 1), new(2, ready=False)), 2),
        ((pod(V1), pod(V1, 1), new(2)), 1),
        ((pod(V1), new(1), new(2)), 0),
        ((new(0), new(1), new(2)), 3),
        ((replace(pod(V1), ready=False), pod(V1, 1), pod(V1, 2)), 3),
        ((replace(pod(V1), ready=False, was_ready=False), pod(V1, 1), pod(V1, 2)), 0),
        ((pod(V1), pod(V1, 1), ending(2)), 2),
        ((pod(V1), ending(1), new(2)), 1),
        ((pod(V1), pod(V1, 1)), 2),
    ],
    ids=[
        "highest first",
        "wait for it",
        "then the next",
        "the last",
        "rest",
        "hold while one is down",
        "stuck",
        "stay low until the first is replaced",
        "stay low until the next is replaced",
        "what is gone comes back on the newest",
    ],
)
def test_a_restart_lowers_the_partition_one_pod_at_a_time(pods, expected):
    assert partition(planned(restarting(*pods))) == expected


def test_a_pod_that_never_was_ready_on_old_inputs_is_deleted_at_once():
    stuck = replace(pod(V1), ready=False, was_ready=False, waiting_reason="ImagePullBackOff")
    assert planned(restarting(stuck, replicas=1)).deletions == (
        {"kind": "Pod", "name": "kimi-0", "uid": "uid-1"},
    )


@pytest.mark.parametrize(("since", "heard", "forced"), [(301, 400, True), (299, 400, False), (301, 5, False)])
def test_a_pod_that_hangs_on_a_lost_node_is_forced(since, heard, forced):
    hanging = replace(pod(V1), deleting=True, deleting_since=NOW - since, heard_at=NOW - heard)
    made = planned(world(server("v1"), V1, hanging))
    assert bool(made.deletions) == forced
    if forced:
        assert made.deletions[0]["graceSeconds"] == "0"


def test_polls_are_quick_in_a_trial_and_slow_at_rest():
    assert planned(asks_v2(serving(V1, V2))).poll_seconds <= 1
    assert planned(world(server("v1"), V1, pod(V1)), v1=GOOD).poll_seconds == 5
