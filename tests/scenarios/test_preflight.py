"""The preflight in a rollout: by a Job where no engine can judge, by the agent where one takes the drafter in place."""

from __future__ import annotations

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model

from specdec.engine.protocol import Swap

NAMELESS = Model(fault="ParametersNotFed")
"""A drafter whose headers show that SGLang would leave parameters unfed."""


def test_a_first_drafter_is_judged_by_a_job_before_any_engine_is_made(scenario: Scenario):
    scenario.given.drafters(v1=0.9).server("v1", floor="2.2").traffic(1)
    scenario.when.time(1)
    scenario.then.rollout("Preflight").condition("PreflightPassed", "Unknown", "PreflightPending").pods_made(
        0
    )
    scenario.then.condition("Ready", "False", "PreflightPending")
    scenario.then.condition("DrafterCurrent", "False", "PreflightPending")
    scenario.when.time(60)
    scenario.then.serves("v1").condition("PreflightPassed", "True", "PreflightPassed").pods_made(1)
    scenario.then.event("PreflightPassed", "preflight of v1", times=1).quiet(600)
    assert scenario.cluster.jobs_made == 1


def test_a_blocked_first_drafter_makes_no_engine_and_one_apply_mends_it(scenario: Scenario):
    scenario.given.drafters(v1=NAMELESS, v2=0.9).server("v1", floor="2.2").traffic(1)
    scenario.when.time(10)
    scenario.then.condition("PreflightPassed", "False", "ParametersNotFed").pods_made(0)
    scenario.then.condition("DrafterCurrent", "False", "DrafterRejected")
    scenario.then.condition("Stalled", "True", "DrafterRejected").rollout("Refused")
    scenario.then.condition("Ready", "False", "PreflightBlocked")
    scenario.then.event("ParametersNotFed", "found ParametersNotFed", times=1).event("Refused", times=1)
    assert scenario.cluster.launch_plan is None
    scenario.then.quiet(600)
    assert scenario.cluster.jobs_made == 1
    scenario.when.drafter("v2").time(60)
    scenario.then.serves("v2").condition("PreflightPassed", "True").condition("Stalled", "False").quiet()
    assert scenario.cluster.jobs_made == 2


@pytest.fixture
def settled(scenario: Scenario) -> Scenario:
    """v1 serves and was judged."""
    scenario.given.drafters(v1=0.9, v2=0.9, bad=NAMELESS).server("v1", floor="2.2").traffic(1)
    scenario.when.time(60)
    scenario.then.last_good("v1")
    return scenario


def test_a_drafter_that_is_swapped_in_is_judged_by_its_engine_and_by_no_job(settled: Scenario):
    settled.when.drafter("v2").time(60)
    settled.then.serves("v2").condition("PreflightPassed", "True").event(
        "PreflightPassed", "preflight of v2", times=1
    )
    assert settled.cluster.jobs_made == 1
    settled.when.drafter("bad").time(60)
    settled.then.serves("v2").condition("PreflightPassed", "False", "ParametersNotFed").pods_made(1).quiet()
    assert settled.cluster.jobs_made == 1


def test_a_blocked_drafter_that_needs_a_restart_disturbs_no_engine(settled: Scenario):
    settled.when.spec(drafter={"model": "pvc://models/drafters/bad"}, speculation={"numSteps": 4}).time(60)
    settled.then.serves("v1").condition("PreflightPassed", "False").condition("Ready", "True").pods_made(1)
    settled.then.active("v1").condition("DrafterCurrent", "False", "DrafterRejected").quiet()
    settled.when.drafter("v2").time(90)
    settled.then.serves("v2").condition("DrafterCurrent", "True").pods_made(2).quiet()


def test_a_restart_waits_for_its_preflight_while_engines_serve_on(settled: Scenario):
    settled.when.spec(drafter={"model": "pvc://models/drafters/v2"}, speculation={"numSteps": 4}).time(1)
    settled.then.serves("v1").rollout("Preflight").condition("DrafterCurrent", "False", "PreflightPending")
    settled.when.time(90)
    settled.then.serves("v2").pods_made(2).quiet()


def test_warn_says_what_was_found_and_goes_on(settled: Scenario):
    settled.when.spec(preflight={"mode": "Warn"}, drafter={"model": "pvc://models/drafters/bad"}).time(30)
    settled.then.condition("PreflightPassed", "False", "ParametersNotFed").serves("v1")
    settled.then.event("Refused", "24 tensors of the checkpoint fit no parameter").pods_made(1).quiet()


def test_off_leaves_it_to_the_load_and_restarts_nothing(settled: Scenario):
    settled.when.drafter("bad").time(30)
    settled.then.event("Refused", "preflight: ParametersNotFed", times=1)
    settled.when.spec(preflight={"mode": "Off"})
    settled.cluster.reconcile()
    settled.then.condition("DrafterCurrent", "False", "RollingOut").condition("Stalled", "False")
    settled.when.time(30)
    settled.then.condition("PreflightPassed", "Unknown", "PreflightOff")
    settled.then.event("Refused", "24 tensors of the checkpoint fit no parameter", times=1)
    settled.then.no_event("CandidateNotStarted").serves("v1").pods_made(1).quiet()


def test_a_refusal_in_place_that_a_restart_mends_is_told_as_no_trouble(settled: Scenario):
    settled.given.drafters(odd=Model(quality=0.9, refusal="ConfigDiffers"))
    settled.when.drafter("odd").time(2)
    settled.given.drafters(odd=0.9)
    settled.when.time(90)
    settled.then.no_event("CandidateNotStarted").no_event("Refused").serves("odd").pods_made(2).quiet()


def test_a_refusal_that_is_not_the_drafters_fault_is_told_once(settled: Scenario):
    settled.given.drafters(v2=Model(quality=0.9, refusal="VolumeHangs"))
    settled.when.drafter("v2").time(20)
    settled.then.condition("Stalled", "True", "CandidateNotStarted").no_event("Refused")
    settled.then.event("CandidateNotStarted", "VolumeHangs", times=1).serves("v1").pods_made(1)
    settled.given.drafters(v2=0.9)
    settled.when.time(90)
    settled.then.event("CandidateNotStarted", times=1).serves("v2").condition("Stalled", "False").quiet()


def test_a_skipped_code_lets_the_drafter_in_and_is_shown(settled: Scenario):
    settled.given.drafters(odd=Model(quality=0.9, fault="HeadTied"))
    settled.when.drafter("odd").time(30)
    settled.then.condition("PreflightPassed", "False", "HeadTied")
    settled.cluster.models["/models/models/drafters/odd"] = Model(quality=0.9, fault="")
    settled.when.spec(preflight={"skipChecks": ["HeadTied"]}).time(60)
    settled.then.serves("odd").condition("PreflightPassed", "True").pods_made(1).quiet()


def test_a_changed_preflight_reaches_the_launch_plan_without_a_new_assignment(settled: Scenario):
    before = settled.cluster.launch_plan
    settled.when.spec(preflight={"mode": "Warn", "repair": "Never"}).time(10)
    after = settled.cluster.launch_plan
    assert before
    assert after
    assert (after.preflight.mode, after.preflight.repair) == ("Warn", "Never")
    assert after.assignment == before.assignment
    settled.then.pods_made(1)
    assert len(settled.then.told(Swap)) == 0


def test_what_serves_and_was_judged_under_other_settings_is_said_to_be_so(settled: Scenario):
    settled.when.spec(preflight={"repair": "Never"}).time(60)
    settled.then.condition("PreflightPassed", "Unknown", "PreflightPending").condition(
        "Ready", "True"
    ).pods_made(1)
    (said,) = [one.message for one in settled.cluster.status.conditions if one.type == "PreflightPassed"]
    assert said.endswith("has not been judged yet under the present settings of spec.preflight")


def test_a_job_that_no_node_takes_is_said(scenario: Scenario):
    words = "0/1 nodes are available: 1 Insufficient memory."
    scenario.given.drafters(v1=0.9).pods_in_trouble(unschedulable=words).server("v1")
    scenario.when.time(40)
    scenario.then.condition("PreflightPassed", "Unknown", "Unschedulable")
    scenario.then.condition("Stalled", "True", "Unschedulable").event(
        "Unschedulable", words, times=1
    ).pods_made(0)


def test_a_folder_that_appears_later_is_judged_then(scenario: Scenario):
    scenario.given.server("v1", floor="2.2").traffic(1)
    scenario.when.time(10)
    scenario.then.condition("PreflightPassed", "Unknown", "DrafterNotFound").pods_made(0)
    assert not scenario.cluster.status.quarantine
    writes = scenario.cluster.status_writes
    scenario.when.time(300)
    assert scenario.cluster.status_writes == writes
    assert scenario.cluster.jobs_made > 2
    scenario.given.drafters(v1=0.9)
    scenario.when.time(120)
    scenario.then.serves("v1").condition("PreflightPassed", "True").condition("Stalled", "False").quiet()


def test_a_mended_folder_is_judged_anew_when_a_person_says_retry(scenario: Scenario):
    scenario.given.drafters(v1=NAMELESS).server("v1", floor="2.2").traffic(1)
    scenario.when.time(30)
    scenario.given.drafters(v1=0.9)
    (revision,) = scenario.cluster.revisions
    scenario.when.request(f"retry@{revision}@1").time(60)
    scenario.then.serves("v1").condition("PreflightPassed", "True").pods_made(1).quiet()
    assert scenario.cluster.jobs_made == 2


def test_no_engine_no_drafting_no_job(scenario: Scenario):
    scenario.given.drafters(v1=NAMELESS).server("v1", drafting="Off").traffic(1)
    scenario.when.time(30)
    scenario.then.condition("Ready", "True").pods_made(1).quiet()
    assert scenario.cluster.jobs_made == 0
    scenario.when.spec(drafting="Auto").time(30)
    scenario.then.condition("PreflightPassed", "False", "ParametersNotFed").pods_made(1).quiet()
