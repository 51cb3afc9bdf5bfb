"""The judge: layers, doubts, and what a probe does to a suspicion (field cases O-d01 to O-d04)."""

from __future__ import annotations

from typing import Any

import pytest

from specdec.acceptance.judge import ROLLOUT, STEADY, Case, Floor, verdict
from specdec.acceptance.measure import Measurement, PodState
from specdec.acceptance.tally import Tally
from specdec.acceptance.verdict import Judgement, Verdict
from specdec.api.v1alpha1 import Acceptance
from specdec.engine.protocol import ProbeResult

ASKED = "r/1000"


def work(requests: int, length: float, calls: int = 12) -> Tally:
    """Requests that all did the same."""
    drafts = round((length - 1) * calls)
    return Tally(
        requests=requests,
        finished_calls=calls * requests,
        finished_drafts=drafts * requests,
        dd=drafts**2 * requests,
        dc=drafts * calls * requests,
        cc=calls**2 * requests,
        calls=calls * requests,
        correct=(drafts * requests,),
    )


def probe(length: float, *, calls: int = 40, identity: str = "", passed: bool = True) -> ProbeResult:
    return ProbeResult(id=identity, revision="r", passed=passed, accept_length=f"{length:.3f}", calls=calls)


def said(
    tally: Tally, floor: float | None = 2.2, probes: tuple[ProbeResult, ...] = (), **more: Any
) -> Verdict:
    pods = more.pop("pods", {"a": PodState.COUNTING})
    seen = Measurement("r", 3, tally, pods, more.pop("lie", ""))
    return verdict(Case(seen, Floor(floor), probes, probe_id=ASKED, **more))


CASES: dict[str, tuple[Verdict, Judgement, str, bool]] = {
    "nothing seen": (said(work(0, 1)), Judgement.UNKNOWN, "NoTraffic", False),
    "three bad requests": (said(work(3, 1.0)), Judgement.UNKNOWN, "InsufficientData", False),
    "three good requests": (said(work(3, 4.0)), Judgement.UNKNOWN, "InsufficientData", False),
    "well above the floor": (said(work(20, 3.0)), Judgement.HEALTHY, "AboveFloor", False),
    "no floor": (said(work(20, 2.0), None), Judgement.HEALTHY, "Alive", False),
    "a little below, few requests": (said(work(4, 2.1)), Judgement.UNKNOWN, "NearFloor", False),
    "clearly below, not probed": (said(work(5, 1.6)), Judgement.UNHEALTHY, "BelowFloor", True),
    "probe agrees": (said(work(5, 1.6), probes=(probe(1.6, identity=ASKED),)), Judgement.UNHEALTHY, "BelowFloor", False),
    "probe is fine": (
        said(work(500, 1.6), probes=(probe(2.5, identity=ASKED),)), Judgement.UNKNOWN, "ProbeContradictsTraffic", False,
    ),
    "probe leans, few requests": (
        said(work(5, 1.75), probes=(probe(2.1, identity=ASKED),)), Judgement.UNHEALTHY, "BelowFloor", True,
    ),
    "probe leans, beyond doubt": (
        said(work(50, 1.6), probes=(probe(2.1, identity=ASKED),)), Judgement.UNHEALTHY, "BelowFloor", False,
    ),
    "another probe is no answer": (
        said(work(5, 1.6), probes=(probe(1.6, identity="r/1"),)), Judgement.UNHEALTHY, "BelowFloor", True,
    ),
    "probe failed": (said(work(0, 1), probes=(probe(1.0, passed=False),)), Judgement.UNHEALTHY, "DeadDrafter", False),
    "probe had too few calls": (
        said(work(0, 1), probes=(probe(1.0, passed=False, calls=7),)), Judgement.UNKNOWN, "NoTraffic", False,
    ),
    "probe's answers repeat": (
        said(work(0, 1), probes=(probe(3.9, passed=False),)), Judgement.UNKNOWN, "NoTraffic", False,
    ),
    "dead on traffic, no floor": (said(work(20, 1.0), None), Judgement.UNHEALTHY, "DeadDrafter", True),
    "all silent": (said(work(50, 1.0), pods={"a": PodState.SILENT}), Judgement.UNKNOWN, "EnginesSilent", False),
    "all lie": (said(work(0, 1), pods={"a": PodState.IMPOSSIBLE}, lie="a reports x"), Judgement.UNKNOWN, "CountersImpossible", False),
    "one lies, the rest is good": (
        said(work(20, 3.0), pods={"a": PodState.IMPOSSIBLE, "b": PodState.COUNTING}),
        Judgement.UNKNOWN, "CountersImpossible", False,
    ),
    "one lies, the rest is bad": (
        said(work(20, 1.5), pods={"a": PodState.IMPOSSIBLE, "b": PodState.COUNTING}), Judgement.UNHEALTHY, "BelowFloor", True,
    ),
    "steady, the same evidence suffices less": (said(work(5, 1.8), levels=STEADY), Judgement.UNKNOWN, "NearFloor", False),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_verdict(case):
    found, judgement, reason, needs_probe = CASES[case]
    assert (found.judgement, found.reason, found.needs_probe) == (judgement, reason, needs_probe), found


def test_a_sentence_has_value_relation_limit_and_window():
    assert said(work(52, 1.33)).message == "accept length 1.33 < 2.20 over 52 requests (624 verify calls)"


@pytest.mark.parametrize(
    ("acceptance", "floor"),
    [
        ({}, None),
        ({"minAcceptLength": "2.2"}, 2.2),
        ({"minAcceptRate": "0.5"}, 2.5),
        ({"minAcceptLength": "2.2", "minAcceptRate": "0.5"}, 2.5),
        ({"minAcceptLength": "2.8", "minAcceptRate": "0.5"}, 2.8),
    ],
)
def test_the_stricter_floor_counts(acceptance, floor):
    assert Floor.of(Acceptance.model_validate(acceptance), 3).length == floor


def test_a_floor_above_steps_plus_one_is_impossible():
    assert "the most that a drafter can reach is 4" in Floor(4.2).impossible(3)
    assert not Floor(4.0).impossible(3)


def test_budgets_add_up():
    assert pytest.approx(1e-3) == ROLLOUT.alpha
    assert pytest.approx(1e-6) == STEADY.alpha
