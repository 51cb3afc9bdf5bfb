"""Conditions keep their time, and every reason says what it means."""

from __future__ import annotations

import ast
import inspect

import pytest

from specdec.api import conditions
from specdec.api.base import Condition
from specdec.api.conditions import ConditionType, Reason, find, settle


def condition(status: str, at: str, reason: str = "Serving") -> Condition:
    return Condition(type="Ready", status=status, last_transition_time=at, reason=reason)


def test_a_condition_keeps_its_time_while_its_status_stays():
    new = settle(condition("True", "later", "Other"), [condition("True", "earlier")])
    assert (new.last_transition_time, new.reason) == ("earlier", "Other")


def test_a_condition_gets_a_new_time_with_a_new_status():
    assert settle(condition("False", "later"), [condition("True", "earlier")]).last_transition_time == "later"
    assert settle(condition("False", "later"), []).last_transition_time == "later"


def test_a_condition_is_found_by_its_type():
    assert find([condition("True", "t")], ConditionType.READY)
    assert find([], ConditionType.STALLED) is None


@pytest.mark.parametrize("enum", [ConditionType, Reason])
def test_every_member_has_its_sentence(enum):
    (tree,) = (
        node
        for node in ast.walk(ast.parse(inspect.getsource(conditions)))
        if isinstance(node, ast.ClassDef) and node.name == enum.__name__
    )
    for member, sentence in zip(tree.body[1::2], tree.body[2::2], strict=True):
        assert isinstance(member, ast.Assign)
        assert isinstance(sentence, ast.Expr)
        assert ast.literal_eval(sentence.value).endswith(".")
    assert len(tree.body[1::2]) == len(enum)


def test_reasons_are_words_for_programs():
    assert all(reason.value.isalnum() and reason.value[0].isupper() for reason in Reason)
