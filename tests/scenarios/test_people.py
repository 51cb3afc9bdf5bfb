"""What people may ask for: pause, pin, off, observe, verbs, and to change their mind."""

from __future__ import annotations

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model


@pytest.fixture
def settled(scenario: Scenario) -> Scenario:
    """v1, then v2 were promoted."""
    scenario.given.drafters(v1=0.9, v2=0.8, v3=0.8, v4=0.0, v5=0.4)
    scenario.given.server("v1", floor="2.2", acceptance={"maxRegression": "0.2"}).traffic(1)
    scenario.when.time(60).drafter("v2").time(60)
    return scenario


def name(scenario: Scenario, version: str) -> str:
    """Name of the revision with a drafter version."""
    return next(
        r.name for r in scenario.cluster.revisions.values() if r.data["drafter"]["version"] == version
    )


def test_a_paused_rollout_does_not_begin(settled):
    settled.when.spec(rollout={"paused": True}).drafter("v3").time(60)
    settled.then.serves("v2").swaps("v3", 0).rollout("Paused").condition("DrafterCurrent", "False", "Paused")
    settled.then.quiet()
    settled.when.spec(rollout={"paused": False}).time(60)
    settled.then.serves("v3").last_good("v3").quiet()


def test_a_paused_candidate_stays_but_a_bad_one_goes(settled):
    settled.when.drafter("v3").time(4).spec(rollout={"paused": True}).time(300)
    settled.then.serves("v3").last_good("v2").rollout("Paused")
    settled.when.spec(rollout={"paused": False}).time(60).drafter("v5").time(4).spec(
        rollout={"paused": True}
    ).time(60)
    settled.then.serves("v3").last_good("v3")


def test_a_pinned_revision_serves_whatever_the_spec_says(settled):
    settled.when.spec(rollout={"pinnedRevision": name(settled, "v1")}).time(30)
    settled.then.serves("v1").condition("DrafterCurrent", "False", "Pinned").quiet()
    settled.when.spec(rollout={"pinnedRevision": None}).time(30)
    settled.then.serves("v2").condition("DrafterCurrent", "True", "Active").quiet()


def test_a_pin_to_nothing_is_said(settled):
    settled.when.spec(rollout={"pinnedRevision": "kimi-0000000000"}).time(30)
    settled.then.serves("v2").condition("Stalled", "True", "RevisionNotFound").quiet()


def test_drafting_off_and_on_again(settled):
    settled.when.spec(drafting="Off").time(30)
    settled.then.drafting("Off").condition("DrafterCurrent", "False", "DraftingOff").rollout(
        "DraftingOff"
    ).quiet()
    settled.when.spec(drafting="Auto").time(30)
    settled.then.drafting("On").serves("v2").condition("DrafterCurrent", "True").pods_made(1).quiet()


def test_drafting_off_ends_a_trial(settled):
    settled.when.drafter("v3").time(4).spec(drafting="Off").time(30)
    settled.then.drafting("Off").serves("v2")
    settled.when.spec(drafting="Auto").time(100)
    settled.then.drafting("On").serves("v3").last_good("v3").quiet()


def test_a_rollout_is_superseded_in_the_middle(settled):
    settled.given.drafters(v6=0.85)
    settled.when.drafter("v3").time(6).drafter("v6").time(1)
    settled.then.event("Superseded", "v3 is superseded by v6").rollbacks(0)
    settled.when.time(60)
    settled.then.serves("v6").last_good("v6").quiet()
    assert settled.cluster.revisions[name(settled, "v3")].outcome == "Superseded"


def test_going_back_in_the_middle_takes_the_candidate_back(settled):
    settled.when.drafter("v3").time(6).drafter("v2").time(20)
    settled.then.serves("v2").condition("DrafterCurrent", "True", "Active").rollbacks(1).quiet()


def test_there_and_back_again_is_as_if_nothing_had_been(settled):
    before = settled.cluster.status
    settled.when.drafter("v1").time(60).drafter("v2").time(60)
    after = settled.cluster.status
    settled.then.serves("v2").quiet()
    assert (after.active.revision, after.rollout, after.phase) == (
        before.active.revision,
        before.rollout,
        before.phase,
    )
    assert [(c.type, c.status, c.reason) for c in after.conditions] == [
        (c.type, c.status, c.reason) for c in before.conditions
    ]


def test_observe_mode_says_what_it_would_have_done_and_sends_nothing(scenario):
    scenario.given.drafters(v1=0.4, v2=0.8).server("v1", floor="2.2", mode="Observe").traffic(1)
    scenario.when.time(120)
    scenario.then.serves("v1").event("WouldHave", "would have taken v1 back", times=1)
    scenario.then.condition("AcceptanceHealthy", "False", "BelowFloor").drafting("On")
    scenario.when.drafter("v2").time(60)
    scenario.then.serves("v1").event("WouldHave", "would have rolled out v2", times=1)
    assert not scenario.cluster.told


def test_retry_gives_a_rejected_drafter_another_trial(settled):
    settled.when.drafter("v4").time(30)
    settled.then.swaps("v4", 1).rollout("RolledBack")
    settled.when.quality("v4", Model(0.9)).request(f"retry@{name(settled, 'v4')}@1").time(60)
    settled.then.serves("v4").last_good("v4").swaps("v4", 2).event("RequestHandled", "another trial", times=1)
    assert settled.cluster.status.last_handled_request.endswith("@1")
    settled.then.quiet()


def test_retry_of_a_drafter_that_is_still_bad_ends_as_before(settled):
    settled.when.drafter("v4").time(30).request(f"retry@{name(settled, 'v4')}@1").time(60)
    settled.then.serves("v2").swaps("v4", 2).condition("Stalled", "True", "DrafterRejected").quiet()


def test_promote_ends_the_soak(settled):
    settled.when.traffic(0).drafter("v3").time(10)
    settled.then.active("v2")
    settled.when.request(f"promote@{name(settled, 'v3')}@1").time(3)
    settled.then.active("v3").last_good("v3").condition("DrafterCurrent", "True", "Active").quiet()


def test_abort_takes_a_candidate_back_for_good(settled):
    settled.when.drafter("v3").time(6).request(f"abort@{name(settled, 'v3')}@1").time(20)
    settled.then.serves("v2").rollout("Aborted").condition("Stalled", "True").quiet()
    assert not settled.cluster.status.quarantine


@pytest.mark.parametrize("text", ["dance@kimi-1@1", "retry@kimi-1@1", "promote", "abort@@"])
def test_a_request_that_makes_no_sense_is_answered_and_changes_nothing(settled, text):
    settled.when.request(text).time(5)
    settled.then.event("RequestHandled", times=1).serves("v2").quiet()
    assert settled.cluster.status.last_handled_request == text


def test_undo_returns_to_an_earlier_revision_until_the_spec_moves_on(settled):
    settled.when.request(f"undo@{name(settled, 'v1')}@1").time(20)
    settled.then.serves("v1").active("v1").last_good("v1").rollout("Undone").pods_made(1)
    settled.then.condition("DrafterCurrent", "False", "DrafterRejected").condition("Ready", "True")
    settled.then.event("RequestHandled", "serves again in place of", times=1).no_event("RolledBack").quiet()
    assert settled.cluster.status.last_answer.startswith("undo: ")
    assert not settled.cluster.status.quarantine
    settled.when.drafter("v3").time(60)
    settled.then.serves("v3").last_good("v3").quiet()


def test_undo_of_a_trial_takes_the_candidate_back(settled):
    settled.when.drafter("v3").time(6).request(f"undo@{name(settled, 'v1')}@1").time(60)
    settled.then.serves("v1").last_good("v1").rollout("Undone").quiet()


def test_what_was_undone_gets_another_trial_on_request(settled):
    settled.when.request(f"undo@{name(settled, 'v1')}@1").time(20)
    settled.when.request(f"retry@{name(settled, 'v2')}@2").time(60)
    settled.then.serves("v2").last_good("v2").condition("DrafterCurrent", "True", "Active").quiet()


def test_undo_holds_over_a_restart_of_the_operator_and_of_the_engine(settled):
    settled.when.request(f"undo@{name(settled, 'v1')}@1").time(20)
    settled.when.operator_gone().engine_restarts().time(5).operator_back().time(60)
    settled.then.serves("v1").last_good("v1").rollout("Undone").quiet()


def test_undo_to_other_engine_flags_restarts_one_pod_at_a_time(scenario):
    scenario.given.drafters(v1=0.9).server("v1", replicas=2).traffic(1)
    scenario.when.time(60)
    old = scenario.cluster.status.active.revision
    scenario.when.spec(engine={"contextLength": 4096}).time(120)
    scenario.then.pods_made(4)
    scenario.when.request(f"undo@{old}@1").time(120)
    scenario.then.pods_made(6).serves("v1").quiet()
    assert scenario.cluster.status.active.revision == old
    assert scenario.cluster.most_down <= 1


@pytest.mark.parametrize(
    ("to", "before", "why"),
    [
        ("v2", {}, "is what the spec asks for"),
        ("v4", {}, "was rejected (DeadDrafter)"),
        ("v1", {"rollout": {"pinnedRevision": "v2"}}, "unpin first"),
    ],
)
def test_undo_is_refused_with_the_reason(settled, to, before, why):
    settled.when.drafter("v4").time(30).drafter("v2").time(30)
    if before:
        settled.when.spec(rollout={"pinnedRevision": name(settled, "v2")}).time(10)
    settled.when.request(f"undo@{name(settled, to)}@1").time(10)
    settled.then.serves("v2").event("RequestHandled", why, times=1).quiet()
    assert settled.cluster.status.last_answer.startswith("undo refused: ")
