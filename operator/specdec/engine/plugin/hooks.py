"""Patches and their hooks, registered with SGLang's own HookRegistry, or not at all.

Symptom cured: SGLang logs a hook that does not fit ("Failed to apply hooks to ...") and serves without it.
So every target is looked up, and its parameters compared, before anything is registered; and when the
scheduler is up, :func:`in_force` asks whether the targets really are other functions than before.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

_before: dict[str, Any] = {}
"""What each hooked target was before."""


@dataclass(frozen=True)
class Hook:
    """A function that is called around one of SGLang's."""

    target: str
    """Dotted path."""
    around: Callable[..., Any]
    """Called as around(original, *args, **kwargs)."""
    parameters: tuple[str, ...]
    """Names that the target's parameters must contain."""


@dataclass(frozen=True)
class Patch:
    """Hooks that are only sound together."""

    name: str
    hooks: tuple[Hook, ...]


class PatchNotApplicableError(Exception):
    """The SGLang at hand has no place for a hook."""


def register(patches: Iterable[Patch]) -> None:
    """Check all hooks of all patches, then register them.

    Raises
    ------
    PatchNotApplicableError
        A target is missing or takes other parameters; nothing was registered.
    """
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    hooks = [(patch, hook) for patch in patches for hook in patch.hooks]
    for patch, hook in hooks:
        _before[hook.target] = _check(patch, hook)
    for _, hook in hooks:
        HookRegistry.register(hook.target, hook.around, HookType.AROUND)


def in_force(patch: Patch) -> bool:
    """Whether every target of a patch was replaced."""
    return all(
        hook.target in _before and pkgutil.resolve_name(hook.target) is not _before[hook.target]
        for hook in patch.hooks
    )


def _check(patch: Patch, hook: Hook) -> Any:
    try:
        target = pkgutil.resolve_name(hook.target)
        names = set(inspect.signature(target).parameters)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise PatchNotApplicableError(f"patch {patch.name} finds no {hook.target}: {error}") from error
    missing = sorted(set(hook.parameters) - names)
    if missing:
        raise PatchNotApplicableError(
            f"patch {patch.name}: {hook.target} takes no parameter {', '.join(missing)}"
        )
    return target
