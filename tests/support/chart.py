"""The chart as helm renders it; `python -m tests.support.chart FILE` writes examples/operator.yaml from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from tests.support.paths import CACHE, ROOT

CHART = ROOT / "charts" / "specdec-operator"
EXAMPLE = ROOT / "examples" / "operator.yaml"
EXAMPLE_VALUES = ROOT / "examples" / "operator-values.yaml"
PLAIN: dict[str, Any] = {
    "createNamespace": True,
    "crds": {"enabled": False},  # crds/ is applied by itself
    "rbac": {"userRoles": False},
    "admissionPolicy": {"enabled": False},
}
"""What the example leaves out: it is the least that an operator needs."""
BIN = CACHE / "bin"

HEAD = """\
# The operator, plainly: kubectl apply -f crds/specdecodeservers.yaml -f examples/operator.yaml
# Uninstall: kubectl delete -f examples/operator.yaml. Servers and engines go on as they are and can be deleted
# at any time: nothing waits for the operator.
# Generated from charts/specdec-operator with examples/operator-values.yaml by `make generate`; don't edit.
"""

Manifest = dict[str, Any]


class HelmError(Exception):
    """Helm refused; the text is what it wrote."""


def tool(name: str) -> str:
    """Path of helm, prometheus or promtool."""
    path = BIN / name
    if not path.exists():
        raise FileNotFoundError(f"{name} is not there: run `python -m tests.cluster tools` first")
    return str(path)


def helm(*arguments: str) -> str:
    """Run helm from the repository's root and return what it printed."""
    done = subprocess.run(
        [tool("helm"), *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    if done.returncode:
        raise HelmError(done.stdout + done.stderr)
    return done.stdout


def text(*values: Path | dict[str, Any], kubernetes: str = "1.34.0") -> str:
    """Render the chart as text, with values files or values on top of each other."""
    given: list[str] = []
    for value in values:
        if isinstance(value, Path):
            given.append(f"--values={value}")
        else:
            given += [f"--set-json={key}={json.dumps(part)}" for key, part in value.items()]
    where = ("specdec-operator", str(CHART), "--namespace=specdec-system", f"--kube-version={kubernetes}")
    return helm("template", *where, *given)


def render(*values: Path | dict[str, Any], kubernetes: str = "1.34.0") -> list[Manifest]:
    """Render the chart as objects, in the order in which helm installs them."""
    return [item for item in yaml.safe_load_all(text(*values, kubernetes=kubernetes)) if item]


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    """Those of one kind."""
    return [item for item in manifests if item["kind"] == kind]


def example() -> str:
    """What examples/operator.yaml should be."""
    lines = [line for line in text(EXAMPLE_VALUES, PLAIN).splitlines() if not line.startswith("# Source:")]
    documents = [part.strip("\n") for part in "\n".join(lines).split("---\n")]
    return HEAD + "\n---\n".join(document for document in documents if document) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(example())
