"""Bad input gets a condition with a reason and a sentence within one pass, and is mended by the next apply."""

from __future__ import annotations

import pytest
from tests.support.scenario_agent import Model


def test_a_missing_claim_is_named_and_mended_by_making_it(scenario):
    scenario.given.drafters(v1=0.9).no_claim().server("v1", floor="2.2").traffic(1)
    scenario.when.time(1)
    scenario.then.condition("Stalled", "True", "ClaimNotFound").condition("Ready", "False", "ClaimNotFound")
    scenario.then.event("ClaimNotFound", "there is no PersistentVolumeClaim models in namespace llm", times=1)
    assert not scenario.cluster.pods
    scenario.then.quiet()
    scenario.when.claim("ReadOnlyMany").time(60)
    scenario.then.serves("v1").condition("Stalled", "False").condition("Ready", "True").quiet()


def test_two_replicas_need_a_claim_that_can_be_shared(scenario):
    scenario.given.drafters(v1=0.9).claim("ReadWriteOnce").server("v1", replicas=2)  # O-e04
    scenario.when.time(1)
    scenario.then.condition("Stalled", "True", "ClaimAccessMode")
    assert not scenario.cluster.pods
    scenario.when.spec(replicas=1).time(10)
    scenario.then.serves("v1").condition("Stalled", "False")


def test_an_image_outside_the_prefixes_creates_nothing(scenario):
    scenario.given.drafters(v1=0.9).server("v1", engine={"image": "registry.example/specdec-evil/engine:1"})
    scenario.when.time(1)
    scenario.then.condition("Stalled", "True", "ImageNotAllowed").event(
        "ImageNotAllowed", "registry.example/specdec/"
    )
    assert scenario.cluster.workload is None
    assert not scenario.cluster.revisions
    scenario.when.spec(engine={"image": "registry.example/specdec/engine:2"}).time(10)
    scenario.then.serves("v1").condition("Ready", "True").condition("Stalled", "False")


def test_an_image_that_is_forbidden_later_leaves_what_serves(scenario):
    scenario.given.drafters(v1=0.9).server("v1").traffic(1)
    scenario.when.time(60).spec(engine={"image": "elsewhere.example/engine:1"}).time(60)
    scenario.then.serves("v1").condition("Ready", "True").condition("Stalled", "True", "ImageNotAllowed")
    scenario.then.condition("DrafterCurrent", "False", "ImageNotAllowed").pods_made(1).quiet()


def test_an_image_that_does_not_pull_is_mended_by_another(scenario):
    trouble = {"waiting_reason": "ImagePullBackOff", "waiting_message": "not found"}
    scenario.given.drafters(v1=0.9).pods_in_trouble(**trouble).server("v1")
    scenario.when.time(5)
    scenario.then.condition("Stalled", "True", "ImagePullFailed").condition(
        "Ready", "False", "ImagePullFailed"
    )
    scenario.when.pods_well().spec(engine={"image": "registry.example/specdec/engine:2"}).time(15)
    scenario.then.serves("v1").condition("Ready", "True").condition("Stalled", "False").pods_made(1)


def test_no_room_for_a_pod_is_said_in_the_schedulers_words(scenario):
    words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    scenario.given.drafters(v1=0.9).pods_in_trouble(unschedulable=words).server("v1")  # O-e01
    scenario.when.time(25)
    scenario.then.condition("Stalled", "False")
    scenario.when.time(15)
    scenario.then.condition("Stalled", "True", "Unschedulable").event("Unschedulable", words, times=1)


def test_a_first_drafter_that_is_not_there_is_said_and_no_engine_is_started(scenario):
    scenario.given.drafters(v2=0.9).server("v1", floor="2.2").traffic(1)
    scenario.when.time(10)
    scenario.then.condition("Stalled", "True", "DrafterNotFound").condition(
        "Ready", "False", "DrafterNotFound"
    )
    scenario.then.condition("PreflightPassed", "Unknown", "DrafterNotFound").pods_made(0)
    scenario.when.drafter("v2").time(60)
    scenario.then.serves("v2").condition("Stalled", "False").condition(
        "DrafterCurrent", "True", "Active"
    ).quiet()


def test_a_candidate_that_is_not_there_is_said_and_tried_again(scenario):
    scenario.given.drafters(v1=0.9).server("v1", floor="2.2").traffic(1)
    scenario.when.time(60).drafter("v2").time(10)
    scenario.then.serves("v1").condition("Stalled", "True", "DrafterNotFound").condition("Ready", "True")
    assert not scenario.cluster.status.quarantine
    scenario.given.drafters(v2=0.9)
    scenario.when.time(100)
    scenario.then.serves("v2").condition("Stalled", "False").condition(
        "DrafterCurrent", "True", "Active"
    ).quiet()


def test_a_floor_that_nothing_can_reach_is_said(scenario):
    scenario.given.drafters(v1=0.9).server("v1", floor="4.5")
    scenario.when.time(5)
    scenario.then.condition("Stalled", "True", "FloorImpossible")
    assert not scenario.cluster.pods


def test_a_drafter_that_the_engine_does_not_start_with_is_rejected(scenario):
    scenario.given.drafters(v1=Model(refusal="ShapeMismatch"), v2=0.9).server("v1", floor="2.2").traffic(1)
    scenario.when.time(30)
    scenario.then.condition("DrafterCurrent", "False", "DrafterRejected").condition("Ready", "True").quiet()
    scenario.when.drafter("v2").time(90)
    scenario.then.serves("v2").last_good("v2").quiet()


@pytest.mark.parametrize("version", [None])
def test_a_server_without_a_drafter_just_serves(scenario, version):
    scenario.given.server(version).traffic(1)
    scenario.when.time(30)
    scenario.then.condition("Ready", "True").condition("DrafterCurrent", "True", "NoDrafter").quiet()
