"""Writes docs/reference/{crd,conditions,cli,metrics}.md from their definitions: `python -m specdec.cli.reference [--check]`."""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from prometheus_client.metrics import MetricWrapperBase

from specdec.acceptance.verdict import Doubt, Judgement, Layer
from specdec.api.base import API_VERSION, KIND
from specdec.api.conditions import ConditionType, Reason
from specdec.api.crd import COLUMNS, openapi
from specdec.api.words import RolloutWord, ServerPhase
from specdec.cli.main import SECTIONS, specdec
from specdec.controller import metrics
from specdec.engine import reasons
from specdec.preflight.reference import publish
from specdec.rollout.outcomes import NOT_IN_PLACE, NOT_ITS_FAULT

NOTE = "<!-- Made by `python -m specdec.cli.reference`; `make test-lint` checks that it is current. -->"
WIDTH = 100

Schema = dict[str, Any]


def crd_page() -> str:
    """Every field of the API, in the order of the models."""
    schema = openapi()
    lines = [
        f"# {KIND} ({API_VERSION})", "", NOTE, "", schema["description"], "",
        "A `*` marks what is required. Printer columns: " + ", ".join(f"**{name}**{' (wide)' if wide else ''}" for name, _, _, wide, _ in COLUMNS) + ".",
    ]  # fmt: skip
    for part in ("spec", "status"):
        node = schema["properties"][part]
        lines += [
            "",
            f"## {part}",
            "",
            node.get("description", ""),
            "",
            "| field | type | meaning |",
            "|---|---|---|",
        ]
        lines += [f"| `{path}` | {kind(field)} | {meaning(field)} |" for path, field in fields(node)]
    lines += ["", "## What admission checks", ""]
    lines += [f"- {words}" for words in sorted(set(messages(schema)))]
    return "\n".join(lines) + "\n"


def fields(node: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield a node's fields, depth first; what is required is marked by the caller's path."""
    required = set(node.get("required", ()))
    for name, child in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield f"{here}{' *' if name in required else ''}", child
        yield from fields(child, here)
        if "properties" in child.get("items", {}):
            yield from fields(child["items"], f"{here}[]")


def kind(field: Schema) -> str:
    """Say what a field holds: type, bounds, default."""
    match field.get("type"):
        case "array":
            said = f"list of {field['items'].get('type', 'any')}"
        case "object" if "properties" not in field:
            said = "map"
        case found:
            said = str(found or "any")
    if "enum" in field:
        said = " \\| ".join(field["enum"])
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None and high is not None:
        said += f", {low} to {high}"
    return said + (f", default {json.dumps(field['default']).strip(chr(34))}" if "default" in field else "")


def meaning(field: Schema) -> str:
    """One line for a table's cell."""
    return str(field.get("description", "")).replace("\n", " ").replace("|", "\\|")


def messages(node: Any) -> Iterator[str]:
    """Collect the sentences of all CEL rules."""
    if isinstance(node, dict):
        yield from (rule["message"] for rule in node.get("x-kubernetes-validations", ()))
        for child in node.values():
            yield from messages(child)


def conditions_page() -> str:
    """Every condition and reason, with the sentence that stands beside it in the code."""
    lines = [
        "# Conditions, reasons and verdicts", "", NOTE, "",
        ("Conditions are the truth, `phase` is derived from them. `Reconciling` and `Stalled` are abnormal-true, as kstatus"
        " wants them; CI waits for `DrafterCurrent`. Every message is a sentence with its numbers."), "",
    ]  # fmt: skip
    for title, enum, words in (
        ("Conditions", ConditionType, "condition"),
        ("Phases", ServerPhase, "`status.phase`"),
        ("Where a rollout is", RolloutWord, "`status.rollout`"),
        ("Reasons of conditions, events and outcomes", Reason, "reason"),
        ("Verdicts on live traffic", Judgement, "verdict"),
        ("Why a verdict is Healthy or Unhealthy", Layer, "reason"),
        ("Why a verdict is Unknown", Doubt, "reason"),
    ):
        lines += [f"## {title}", "", f"| {words} | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {said} |" for name, said in documented(enum)]
        lines.append("")
    return "\n".join((*lines, *engines_reasons())) + "\n"


def engines_reasons() -> Iterator[str]:
    """Tell the reasons that engines give, and how the operator takes a refusal."""
    files = "What is wrong with a drafter's files has the code of the [preflight's finding](preflight.md) as its reason, on an engine as well."
    yield from ("## Why an engine refuses or returns a candidate", "", files, "")
    yield from ("| reason | meaning | then |", "|---|---|---|")
    yield from (
        f"| `{reason}` | {told} | {consequence(reason)} |" for reason, told in reasons.REFUSED.items()
    )
    more = "A candidate that served already may go back for one of these too, or for one of the following."
    yield from ("", more, "", "| reason | meaning |", "|---|---|")
    yield from (f"| `{reason}` | {told} |" for reason, told in reasons.RETURNED.items())
    yield from ("", "## Why an engine does not start, or ends", "")
    yield "The condition's reason is `EngineFailed`; its message names the pod, then one of these. `Target` before a preflight's code is a fault of the target's folder."
    yield from ("", "| reason | meaning |", "|---|---|")
    yield from (f"| `{reason}` | {told} |" for reason, told in reasons.START.items())
    yield from (f"| `{reason}` | {told} |" for reason, told in _known_ends())
    yield from ("", "## Why an agent takes no command", "")
    yield "In the message of `Reconciling` with the reason `ApplyFailed`; the operator goes on trying."
    yield from ("", "| reason | meaning |", "|---|---|")
    yield from (f"| `{reason}` | {told} |" for reason, told in reasons.ANSWER.items())


def consequence(reason: str) -> str:
    """Say what the operator does with a drafter that an engine refused so."""
    if reason in NOT_IN_PLACE:
        return "engines restart with it"
    return "it is tried again" if reason in NOT_ITS_FAULT else "it is rejected"


def _known_ends() -> Iterator[tuple[str, str]]:
    """Read the agent's table of SGLang's ends: this half does not import the agent."""
    tree = ast.parse((Path(__file__).parents[1] / "engine" / "agent" / "signatures.py").read_text())
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="_signature"), args=[_, reason, _, cause, advice]):
                said = f"{ast.literal_eval(cause)}: {ast.literal_eval(advice)}"
                yield ast.literal_eval(reason), f"{said[0].upper()}{said[1:]}."
            case _:
                pass


def documented(enum: type[StrEnum]) -> Iterator[tuple[str, str]]:
    """Yield each member's value and the docstring that follows it in the source."""
    (tree,) = ast.parse(inspect.getsource(enum)).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for line, following in pairwise(body):
        if isinstance(line, ast.Assign) and isinstance(following, ast.Expr):
            yield (
                ast.literal_eval(line.value),
                inspect.cleandoc(ast.literal_eval(following.value)).replace("\n", " "),
            )


def cli_page() -> str:
    """The help of every command."""
    lines = [
        "# kubectl specdec", "", NOTE, "",
        ("The Python distribution `specdec-operator` with its extra `cli` puts `kubectl-specdec` on the path, and kubectl"
            " finds it as `kubectl specdec` ([how](../how-to/install.md#kubectl-specdec)); the extra `report` also draws. kubectl 1.26 and newer completes it."), "",
        "Exit codes: 0 yes or done; 1 no: refused, different, not found, not in time; 2 it could not be asked or judged.",
        "",
        *rights(),
    ]  # fmt: skip
    for title, commands in SECTIONS.items():
        lines += ["", f"## {title}"]
        for name in commands:
            lines += ["", f"### {name}", "", "```text", help_of(name), "```"]
    return "\n".join(lines) + "\n"


def rights() -> list[str]:
    """What a person's role must allow."""
    return [
        "It acts as you. What your role must allow:", "",
        "| for | rights |", "|---|---|",
        "| `status`, `watch`, `history`, `diff`, `report` | get and list `specdecodeservers.specdec.dev`, list `controllerrevisions.apps` and `events` |",
        "| `undo`, `promote`, `abort`, `retry`, `pause`, `resume`, `pin`, `unpin`, `drafting` | the same, and patch `specdecodeservers.specdec.dev` |",
        "| `plan` | create and update `specdecodeservers.specdec.dev` (as a dry run), list what a server consists of, get its claims; get `pods/proxy` for the engines' part |",
        "| `status NAME -o wide` | list what a server consists of, get `pods/proxy` |",
        "| `preflight NAME` | those of `status`, and list `pods`; get `pods/proxy` for an engine's whole report |",
        "| `preflight` on files, `convert`, `completion` | no cluster |",
    ]  # fmt: skip


def help_of(name: str) -> str:
    """What `--help` prints, at one width whatever the terminal."""
    parent = click.Context(specdec, info_name="kubectl specdec", terminal_width=WIDTH)
    command = specdec.get_command(parent, name)
    if command is None:
        raise LookupError(f"there is no command {name}")
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def metrics_page() -> str:
    """Every metric of operator and engines."""
    lines = [
        "# Metrics", "", NOTE, "",
        ("What is said of one server carries its namespace and name and goes with it. SGLang's own metrics stand beside those of"
        " the plugin on an engine's `/metrics`; no decision rests on either: the operator reads agents' statuses."), "",
        "## Operator, port 8080", "", *_metric_rows(_operators_metrics()), "",
        "## Engine, port 30000", "", *_metric_rows(_engines_metrics()),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


Metric = tuple[str, str, tuple[str, ...], str]
"""Name on the page of a scrape, kind, labels, meaning."""


def _metric_rows(found: Iterator[Metric]) -> list[str]:
    rows = [
        f"| `{name}` | {kind} | {', '.join(labels) or '-'} | {words} |"
        for name, kind, labels, words in sorted(found)
    ]
    return ["| metric | type | labels | meaning |", "|---|---|---|---|", *rows]


def _operators_metrics() -> Iterator[Metric]:
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            end = "_total" if family.type == "counter" else ""
            yield family.name + end, family.type, metric._labelnames, family.documentation  # noqa: SLF001 - it has no other name
        elif isinstance(metric, metrics.ServerGauge):
            yield metric.name, "gauge", metrics.OF_A_SERVER, metric.documentation


def _engines_metrics() -> Iterator[Metric]:
    """Read the plugin's source: only an engine can import it."""
    tree = ast.parse((Path(__file__).parents[1] / "engine" / "plugin" / "metrics.py").read_text())
    common: tuple[str, ...] = ()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id="_LABELS")], value=value):
                common = ast.literal_eval(value)
            case ast.Call(func=ast.Name(id="Counter"), args=[name, words, labels]):
                own = [item.value for item in ast.walk(labels) if isinstance(item, ast.Constant)]
                named = (*common, *(str(label) for label in own))
                yield f"{ast.literal_eval(name)}_total", "counter", named, ast.literal_eval(words)
            case _:
                pass


PAGES = {"crd.md": crd_page, "conditions.md": conditions_page, "cli.md": cli_page, "metrics.md": metrics_page}


def main() -> int:
    """Write the pages, or check that they are current."""
    return publish(PAGES, check=sys.argv[1:] == ["--check"])


if __name__ == "__main__":
    sys.exit(main())
