"""The CustomResourceDefinition, made of the pydantic models: the types are the only source.

A structural schema is a dialect of JSON schema: no `$ref`, no `title`, no `null` in unions, and every
string, list and map that a CEL rule may see needs a bound, or the API server refuses the rules as too
expensive. `python -m specdec.api.crd FOLDER` writes the folder; without one it prints the CRD.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from specdec.api.base import GROUP, KIND, PLURAL, VERSION
from specdec.api.v1alpha1 import SpecDecodeServer

Schema = dict[str, Any]

FILE = f"{PLURAL}.yaml"
"""The CRD's file below `crds/`."""

PATTERN_LENGTH = 64
"""Bound of spec strings whose pattern bounds them already: CEL's estimator doesn't read patterns."""
TEXT_LENGTH = 4096
"""Bound of the status's strings; the status writer clips longer ones."""
LIST_LENGTH = 64
"""Bound of the status's lists."""

COLUMNS: tuple[tuple[str, str, str, int, str], ...] = (
    (
        "Ready",
        "string",
        '.status.conditions[?(@.type=="Ready")].status',
        0,
        "Whether all wanted engines serve, or of several all but one.",
    ),
    ("Drafter", "string", ".status.active.version", 0, "Version of the drafter that serves."),
    ("Accept-Len", "string", ".status.acceptance.acceptLength", 0, "1 + correct drafts per verify call."),
    ("Rollout", "string", ".status.rollout", 0, "What the rollout is doing."),
    ("Age", "date", ".metadata.creationTimestamp", 0, "Time since the object was made."),
    ("Target", "string", ".spec.target.model", 1, "The large model."),
    ("Reason", "string", ".status.reason", 1, "Reason of the most important condition."),
    ("Engine", "string", ".status.engine", 1, "Engine build."),
)
"""Printer columns: name, type, path, priority, description."""


def _inlined(node: Any, definitions: Schema) -> Any:
    """Replace every `$ref` by what it names; what stands beside the `$ref` wins."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        named = definitions[node["$ref"].removeprefix("#/$defs/")]
        node = {**named, **{key: value for key, value in node.items() if key != "$ref"}}
    return {key: _inlined(value, definitions) for key, value in node.items()}


def _without_null(node: Schema) -> Schema:
    """Flatten `X | None` into X: in Kubernetes an optional field is simply absent."""
    node = dict(node)
    branches = [branch for branch in node.pop("anyOf", ()) if branch.get("type") != "null"]
    if not branches:
        return node
    (branch,) = branches
    return {**branch, **node}


def _bounded(node: Schema, *, status: bool) -> Schema:
    """Give every string, list and map an upper bound."""
    match node.get("type"):
        case "string" if "enum" not in node and node.get("format") != "date-time":
            node.setdefault("maxLength", TEXT_LENGTH if status else PATTERN_LENGTH)
        case "array" if status:
            node.setdefault("maxItems", LIST_LENGTH)
        case _:
            pass
    return node


def _default_kept(node: Schema, *, status: bool) -> bool:
    """Keep defaults of plain values only: filled-in empty objects would hide what the user wrote."""
    return not status and not isinstance(node["default"], (dict, list, type(None)))


def _structural(node: Schema, *, status: bool) -> Schema:
    """Turn one inlined node into a structural one."""
    node = _without_null(node)
    node.pop("title", None)
    if "default" in node and not _default_kept(node, status=status):
        del node["default"]
    if "properties" in node:
        node["properties"] = {
            name: _structural(child, status=status) for name, child in node["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            node[key] = _structural(node[key], status=status)
    return _bounded(node, status=status)


def _ordered(node: Schema) -> Schema:
    """Put what people read first first."""
    front = ("description", "type", "format", "default", "enum")
    keys = [key for key in front if key in node] + [key for key in node if key not in front]
    ordered = {key: node[key] for key in keys}
    if "properties" in node:
        ordered["properties"] = {name: _ordered(child) for name, child in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            ordered[key] = _ordered(node[key])
    return ordered


def openapi() -> Schema:
    """Structural schema of `SpecDecodeServer`."""
    raw = SpecDecodeServer.model_json_schema(by_alias=True)
    root: Schema = _inlined({key: value for key, value in raw.items() if key != "$defs"}, raw["$defs"])
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": _structural(root["properties"]["spec"], status=False),
        "status": _structural(root["properties"]["status"], status=True),
    }
    schema: Schema = {
        "description": root["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {name: _ordered(child) for name, child in properties.items()},
    }
    if "x-kubernetes-validations" in root:
        schema["x-kubernetes-validations"] = root["x-kubernetes-validations"]
    return schema


def _column(name: str, kind: str, path: str, priority: int, description: str) -> Schema:
    column: Schema = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return {**column, "priority": priority} if priority else column


def crd() -> Schema:
    """Whole CustomResourceDefinition."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [_column(*column) for column in COLUMNS],
        "schema": {"openAPIV3Schema": openapi()},
    }
    names = {
        "kind": KIND,
        "listKind": f"{KIND}List",
        "plural": PLURAL,
        "singular": KIND.lower(),
        "shortNames": ["sds"],
        "categories": ["specdec"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def files() -> dict[str, str]:
    """Contents of `crds/` by file name."""
    head = "# Generated from specdec.api.v1alpha1 by `python -m specdec.api.crd crds`; don't edit.\n"
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [FILE],
    }
    contents = {FILE: crd(), "kustomization.yaml": kustomization}
    # A round trip through JSON gives every part its own identity: YAML then writes no anchors.
    return {
        name: head + yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False, width=110)
        for name, content in contents.items()
    }


def main(arguments: list[str]) -> None:
    """Write the folder that is named, or print the CRD."""
    if not arguments:
        sys.stdout.write(files()[FILE])
        return
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (folder / name).write_text(content)


if __name__ == "__main__":
    main(sys.argv[1:])
