"""Names of SGLang's command-line arguments, read from the source that declares them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from specdec.preflight.probes.wheel import Wheel


@functools.lru_cache(maxsize=64)
def argument_names(wheel: Wheel) -> Mapping[str, str]:
    """All arguments of a version; the value says what replaces a deprecated one, else it is empty."""
    found: dict[str, str] = {}
    for path in ("server_args.py", *wheel.files("arg_groups/")):
        tree = ast.parse(wheel.source(path) or "")
        for node in ast.walk(tree):
            found.update(_declared(node))
    return found


def _declared(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Arguments that one node declares: a call of add_argument, or (0.5.14 and newer) an annotated field."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
    ):
        instead = "".join(_strings(word.value for word in node.keywords if word.arg == "new_flag"))
        yield from ((name, instead) for name in _strings(node.args) if name.startswith("--"))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        annotation = node.annotation
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "A":
            yield from ((name, "") for name in _field_names(node.target.id, annotation))


def _field_names(field: str, annotation: ast.Subscript) -> Iterator[str]:
    words: dict[str, Any] = {
        word.arg: word.value
        for call in ast.walk(annotation)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Arg"
        for word in call.keywords
        if word.arg
    }
    if "no_cli" in words:
        return
    renamed = _strings([words["cli_name"]]) if "cli_name" in words else ()
    yield from renamed or (f"--{field.replace('_', '-')}",)
    if "aliases" in words:
        yield from (name for name in _strings(ast.walk(words["aliases"])) if name.startswith("--"))


def _strings(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    return tuple(
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
