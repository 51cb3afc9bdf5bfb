"""The CRD is generated, structural and bounded; the examples fit it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from openapi_schema_validator import OAS30Validator

from specdec.api import crd
from specdec.api.v1alpha1 import SpecDecodeServer

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    path
    for path in sorted((ROOT / "examples").glob("*.yaml"))
    if "SpecDecodeServer" in path.read_text() and path.name != "operator.yaml"
]


def nodes(schema: dict[str, Any], path: str = ""):
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], path + mark)


@pytest.mark.parametrize("name", sorted(crd.files()))
def test_the_committed_files_are_what_the_models_generate(name: str):
    assert (ROOT / "crds" / name).read_text() == crd.files()[name]


def test_the_schema_is_structural():
    for path, node in nodes(crd.openapi()):
        assert "type" in node, path
        assert not {"$ref", "title", "anyOf", "allOf", "$defs", "const", "nullable"} & set(node), path


def test_every_field_is_described():
    described = ("apiVersion", "kind", "metadata")
    for path, node in nodes(crd.openapi()):
        if path.startswith((".spec", ".status")) and not path.endswith(("[]", "{}")):
            assert node.get("description"), path
    assert set(described) <= set(crd.openapi()["properties"])


def test_every_string_list_and_map_is_bounded():
    for path, node in nodes(crd.openapi()):
        if node["type"] == "string" and path.startswith((".spec", ".status")):
            assert "maxLength" in node or "enum" in node or node.get("format") == "date-time", path
        if node["type"] == "array":
            assert "maxItems" in node, path
        if node["type"] == "object" and "additionalProperties" in node:
            assert "maxProperties" in node, path


def test_there_are_no_floats():
    assert not [path for path, node in nodes(crd.openapi()) if node["type"] == "number"]


def test_rules_have_messages_with_what_is_allowed():
    rules = [rule for _, node in nodes(crd.openapi()) for rule in node.get("x-kubernetes-validations", ())]
    assert len(rules) >= 6
    for rule in rules:
        assert rule["message"], rule
        assert "\n" not in rule["rule"], rule


def test_replicas_are_stored_so_that_an_autoscaler_finds_them():
    spec = crd.openapi()["properties"]["spec"]["properties"]
    assert spec["replicas"]["default"] == 1


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_fit_the_schema_without_unknown_fields(path: Path):
    schema = crd.openapi()
    for document in yaml.safe_load_all(path.read_text()):
        if document.get("kind") != "SpecDecodeServer":
            continue
        OAS30Validator(closed(schema)).validate(document)
        SpecDecodeServer.model_validate(document)


def closed(node: dict[str, Any]) -> dict[str, Any]:
    node = dict(node)
    if "properties" in node:
        node["properties"] = {name: closed(child) for name, child in node["properties"].items()}
        node["additionalProperties"] = False
    if "items" in node:
        node["items"] = closed(node["items"])
    return node


def test_the_smallest_example_is_small():
    lines = [line for line in (ROOT / "examples/minimal.yaml").read_text().splitlines() if line.strip()]
    assert len(lines) <= 14
