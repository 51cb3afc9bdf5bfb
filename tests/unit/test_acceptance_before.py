"""Candidate after active on one engine: what users' requests and the probes must both say."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.test_acceptance_judge import ASKED, probe, work

from specdec.acceptance.before import Predecessor
from specdec.acceptance.judge import ROLLOUT, STEADY, Case, Floor, verdict
from specdec.acceptance.measure import Measurement, PodState
from specdec.acceptance.tally import Tally
from specdec.acceptance.verdict import Judgement, Verdict


def probed(length: float, calls: int = 90) -> Tally:
    return Tally(calls=calls, correct=(round((length - 1) * calls),))


def said(
    mine: float, theirs: float, probes: tuple[float, float], *, asked: bool = True, **more: Any
) -> Verdict:
    before = Predecessor(
        "v1",
        more.pop("kept", 0.95),
        work(more.pop("history", 50), theirs),
        probed(probes[1]),
        probed(probes[0]),
    )
    seen = Measurement("r", 3, work(more.pop("requests", 20), mine), {"a": PodState.COUNTING})
    answers = (probe(probes[0], identity=ASKED),) if asked else ()
    return verdict(Case(seen, Floor(), answers, probe_id=ASKED, predecessor=before, **more))


CASES: dict[str, tuple[Verdict, Judgement, str, bool]] = {
    "worse, not probed": (said(2.0, 3.0, (2.0, 3.0), asked=False), Judgement.UNHEALTHY, "WorseThanActive", True),
    "worse in both": (said(2.0, 3.0, (2.0, 3.0)), Judgement.UNHEALTHY, "WorseThanActive", False),
    "worse on traffic only": (said(2.0, 3.0, (2.9, 3.0)), Judgement.HEALTHY, "Alive", False),
    "the probes lean": (said(2.0, 3.0, (2.5, 3.1)), Judgement.UNHEALTHY, "WorseThanActive", True),
    "worse in the probes only": (said(3.0, 3.0, (2.0, 3.0)), Judgement.HEALTHY, "Alive", False),
    "as good": (said(3.0, 3.0, (3.0, 3.0)), Judgement.HEALTHY, "Alive", False),
    "as bad as is allowed": (said(2.0, 3.0, (2.0, 3.0), kept=0.6), Judgement.HEALTHY, "Alive", False),
    "anything is allowed": (said(1.5, 3.0, (1.5, 3.0), kept=0.0), Judgement.HEALTHY, "Alive", False),
    "few requests": (said(2.0, 3.0, (2.0, 3.0), requests=3), Judgement.UNKNOWN, "InsufficientData", False),
    "little was seen before": (said(2.0, 3.0, (2.0, 3.0), history=3), Judgement.HEALTHY, "Alive", False),
    "the active one itself": (said(2.0, 3.0, (2.0, 3.0), levels=STEADY), Judgement.HEALTHY, "Alive", False),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_verdict(case):
    found, judgement, reason, needs_probe = CASES[case]
    assert (found.judgement, found.reason, found.needs_probe) == (judgement, reason, needs_probe), found


def test_the_sentence_names_both_looks():
    words = "accept length 2.00 < 0.95 x 3.00 of v1 before it over 20 requests (240 verify calls); 2.00 and 3.00 in the probes"
    assert said(2.0, 3.0, (2.0, 3.0)).message == words


def test_suspicion_and_probes_together_spend_what_the_pair_beside_would():
    assert ROLLOUT.suspicion * ROLLOUT.probed_before == pytest.approx(ROLLOUT.paired)


def test_without_probes_of_both_there_is_nothing_but_doubt():
    before = Predecessor("v1", 0.95, work(50, 3.0), Tally(), probed(1.0))
    assert before.doubt(3) == 1.0
