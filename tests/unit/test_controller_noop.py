"""At rest nothing is written: which applies are superfluous."""

from typing import Any

import pytest

from specdec.controller.noop import unchanged

OURS = {"manager": "specdec-operator", "operation": "Apply"}


def live(spec: dict[str, Any], fields: dict[str, Any] | None = None, **entry: Any) -> dict[str, Any]:
    managed = [{**OURS, **entry, "fieldsV1": {"f:spec": fields or {}}}]
    return {"metadata": {"name": "a", "managedFields": managed}, "spec": spec}


def wanted(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("stands", "wish"),
    [
        ({"replicas": 1}, {"replicas": 1}),
        ({"replicas": 1, "revisionHistoryLimit": 10}, {"replicas": 1}),
        ({"ports": [{"port": 1, "protocol": "TCP"}]}, {"ports": [{"port": 1}]}),
        ({"cpu": "500m"}, {"cpu": "0.5"}),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}),
        ({}, {"volumes": {}}),
    ],
)
def test_defaults_and_rewritten_quantities_are_no_difference(stands: dict[str, Any], wish: dict[str, Any]):
    assert unchanged(live(stands), wanted(wish))


@pytest.mark.parametrize(
    ("stands", "wish"),
    [
        ({"replicas": 2}, {"replicas": 1}),
        ({}, {"replicas": 1}),
        ({"ports": [{"port": 1}, {"port": 2}]}, {"ports": [{"port": 1}]}),
        ({"cpu": "500m"}, {"cpu": "501m"}),
        ({"name": "v1"}, {"name": "v2"}),
        ({"partition": 1}, {"partition": 0}),
    ],
)
def test_a_differing_value_is_written(stands: dict[str, Any], wish: dict[str, Any]):
    assert not unchanged(live(stands), wanted(wish))


def test_what_is_not_there_is_made():
    assert not unchanged(None, wanted({}))


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({"f:replicas": {}}, True),
        ({"f:replicas": {}, "f:paused": {}}, False),
        ({"f:env": {'k:{"name":"A"}': {".": {}, "f:value": {}}}}, True),
        ({"f:env": {'k:{"name":"B"}': {".": {}, "f:value": {}}}}, False),
        ({"f:args": {'v:"x"': {}}}, True),
        ({"f:args": {'v:"y"': {}}}, False),
    ],
)
def test_a_field_that_we_own_and_no_longer_want_is_taken_away(fields: dict[str, Any], same: bool):
    spec = {"replicas": 1, "env": [{"name": "A", "value": "1"}], "args": ["x"]}
    assert unchanged(live(spec, fields), wanted(spec)) is same


@pytest.mark.parametrize(
    "entry", [{"manager": "kubectl"}, {"operation": "Update"}, {"subresource": "status"}]
)
def test_others_fields_are_theirs(entry: dict[str, Any]):
    assert unchanged(
        live({"replicas": 1, "paused": True}, {"f:paused": {}}, **entry), wanted({"replicas": 1})
    )
