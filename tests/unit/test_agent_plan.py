from __future__ import annotations

import pytest

from specdec.engine.agent.plan import (
    STATE_FILE,
    Obeyed,
    PlanUnreadableError,
    obeyed,
    read_plan,
    read_state,
    write_state,
)
from specdec.engine.protocol import PLAN_KEY, DrafterRef, Drafting, LaunchPlan

A = DrafterRef(revision="a", version="1", path="/models/m/a")
B = DrafterRef(revision="b", version="2", path="/models/m/b")


def plan(assignment: int, drafter: DrafterRef | None = A, drafting: Drafting = Drafting.ON) -> LaunchPlan:
    return LaunchPlan(
        assignment=assignment,
        server="ns/s",
        revision=drafter.revision if drafter else "plain",
        target_path="/models/m/t",
        served_name="t",
        drafter=drafter,
        drafting=drafting,
    )


def state(
    assignment: int, drafter: DrafterRef | None, drafting: Drafting = Drafting.ON, epoch: int = 4
) -> Obeyed:
    revision = drafter.revision if drafter else "plain"
    return Obeyed(assignment=assignment, epoch=epoch, revision=revision, drafter=drafter, drafting=drafting)


@pytest.mark.parametrize(
    ("mounted", "kept", "expected"),
    [
        pytest.param(plan(3), None, state(3, A, epoch=0), id="a new pod obeys its plan"),
        pytest.param(plan(3, A), state(5, B), state(5, B), id="a promotion beats a mount that lags"),
        pytest.param(plan(5, A), state(5, B), state(5, B), id="commands win a tie"),
        pytest.param(
            plan(6, A), state(5, B), state(6, A), id="a newer plan beats the state, the epoch stays"
        ),
        pytest.param(
            plan(6, A, Drafting.OFF),
            state(5, A),
            state(6, A, Drafting.OFF),
            id="a newer plan may switch drafting",
        ),
        pytest.param(plan(6, None), state(5, A), state(6, None), id="a newer plan may drop the drafter"),
        pytest.param(
            plan(1, A),
            state(2, A, Drafting.OFF),
            state(2, A, Drafting.OFF),
            id="a restart keeps drafting off",
        ),
    ],
)
def test_the_higher_assignment_is_obeyed(mounted, kept, expected):
    assert obeyed(mounted, kept) == expected


def test_the_state_survives_the_process(tmp_path):
    write_state(tmp_path, state(7, B, Drafting.OFF))
    assert read_state(tmp_path) == state(7, B, Drafting.OFF)
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"assignment": "many"}'])
def test_a_torn_state_counts_as_none(tmp_path, content):
    (tmp_path / STATE_FILE).write_text(content)
    assert read_state(tmp_path) is None


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_a_plan_that_is_none_is_one_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / PLAN_KEY).write_text(content)
    with pytest.raises(PlanUnreadableError, match=r"plan\.json .*operator"):
        read_plan(tmp_path)


def test_reads_what_the_operator_writes(tmp_path):
    (tmp_path / PLAN_KEY).write_text(plan(3).model_dump_json(by_alias=True))
    assert read_plan(tmp_path) == plan(3)
