"""What the server's status keeps of warm-ups and loads: it changes with them, and never at rest."""

from __future__ import annotations

from tests.support.scenario_world import NOW, planned, pod, record, server, serving, world

from specdec.api.v1alpha1 import RevisionStatus, SpecDecodeServerStatus
from specdec.api.warmup import WarmupStatus
from specdec.engine.protocol import Agreement, Speed, WarmUp
from specdec.rollout.clock import exact

V1, V2 = record("v1", outcome="Promoted"), record("v2", 2)


def warmed(ago: float, length: str = "3.127", **fields: object) -> WarmUp:
    fields = {"speeds": (Speed(batch=1, on="90.0", off="40.0"),), "answers": Agreement.SAME} | fields
    return WarmUp(
        revision=V1.name, passed=True, accept_length=length, at=exact(NOW - ago), calls=80, **fields
    )


def after(*pods, before: WarmupStatus | None = None, load: str = "", of=None) -> SpecDecodeServerStatus:
    active = RevisionStatus(revision=V1.name, since=exact(NOW - 4000))
    status = SpecDecodeServerStatus(active=active, warmup=before, drafter_load=load)
    return planned(world(of or server("v1"), V1, *pods, records=(V1, V2), status=status)).status


def test_it_shows_what_the_engine_measured():
    shown = after(pod(V1, warmup=warmed(50, images=True), plain=True)).warmup
    assert shown is not None
    assert (shown.revision, shown.accept_length, shown.answers, shown.images, shown.plain_off) == (
        V1.name,
        "3.13",
        "Same",
        "Answered",
        True,
    )
    assert [(speed.batch, speed.drafting, speed.without) for speed in shown.speeds] == [(1, "90.0", "40.0")]


def test_of_several_replicas_the_warm_up_that_ended_last_is_shown():
    pods = (pod(V1, 0, warmup=warmed(50, "3.1")), pod(V1, 1, warmup=warmed(10, "2.9")), pod(V1, 2))
    for order in (pods, pods[::-1]):
        assert after(*order, of=server("v1", replicas=3)).warmup.accept_length == "2.90"


def test_it_stays_when_its_engine_is_gone_and_at_rest():
    first = after(pod(V1, warmup=warmed(50))).warmup
    assert after(before=first).warmup == first
    assert after(pod(V1), before=first).warmup == first
    assert after(pod(V1, warmup=warmed(50)), before=first).warmup == first


def test_a_status_that_leaves_figures_out_for_want_of_room_takes_none_away():
    first = after(pod(V1, warmup=warmed(50))).warmup
    lean = warmed(50, speeds=())
    assert after(pod(V1, warmup=lean), before=first).warmup == first
    from_lean = after(pod(V1, warmup=lean)).warmup
    assert after(pod(V1, warmup=warmed(50)), before=from_lean).warmup == first


def test_the_load_of_the_active_drafter_is_shown_and_a_candidates_is_not():
    assert after(pod(V1, load="14 of 14 tensors")).drafter_load == "14 of 14 tensors"
    of = server("v2")
    assert after(serving(V1, V2), load="14 of 14 tensors", of=of).drafter_load == "14 of 14 tensors"


def test_a_load_that_one_replica_still_tells_is_left_standing():
    pods = (pod(V1, 0, load="one"), pod(V1, 1, load="other"))
    assert after(*pods, load="other", of=server("v1", replicas=2)).drafter_load == "other"
    assert after(*pods, load="gone", of=server("v1", replicas=2)).drafter_load == "one"


def test_answers_that_drafting_changes_are_told_once():
    bad = warmed(50, answers=Agreement.DIFFERENT, message="drafting changed 1 of 6 greedy answers")
    status = SpecDecodeServerStatus(active=RevisionStatus(revision=V1.name, since=exact(NOW - 4000)))
    first = planned(world(server("v1"), V1, pod(V1, warmup=bad), status=status))
    assert [event.message for event in first.events if event.reason == "AnswersDiffer"] == [bad.message]
    again = planned(world(server("v1"), V1, pod(V1, warmup=bad), status=first.status))
    assert [event for event in again.events if event.reason == "AnswersDiffer"] == []
