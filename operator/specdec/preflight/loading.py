"""What the plugin does between a drafter's files and SGLang's loader: `overlay.json`, beside the repaired config.

The rules are data, so that the plugin decides nothing: the preflight that checked the drafter wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

OVERLAY = "overlay.json"
"""Name of the file in the overlay's folder; absent where a plain load does."""
ABSOLUTE_TO_OFFSETS = "absolute-to-offsets"
"""Transform of d2t: its index is subtracted from each entry."""

T = TypeVar("T")


@dataclass(frozen=True)
class Overlay:
    """Rules on tensors, by the names in the files (transforms: by the new names)."""

    renames: Mapping[str, str] = field(default_factory=dict)
    transforms: Mapping[str, str] = field(default_factory=dict)
    drops: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Content of overlay.json."""
        return {"renames": dict(self.renames), "transforms": dict(self.transforms), "drops": list(self.drops)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Overlay:
        """Read what to_json wrote."""
        return cls(dict(content["renames"]), dict(content["transforms"]), tuple(content["drops"]))

    @property
    def empty(self) -> bool:
        """Whether a plain load does."""
        return not (self.renames or self.transforms or self.drops)


NOTHING = Overlay()


def applied(
    overlay: Overlay, tensors: Iterable[tuple[str, T]], transforms: Mapping[str, Callable[[T], T]]
) -> Iterator[tuple[str, T]]:
    """Apply the rules to tensors as they are read; the caller brings the arithmetic of its tensors.

    Raises
    ------
    KeyError
        The rules name a transform that the caller does not know: they are of a newer preflight.
    """
    for name, tensor in tensors:
        new = overlay.renames.get(name, name)
        if name in overlay.drops or new in overlay.drops:
            continue
        transform = overlay.transforms.get(new)
        yield new, tensor if transform is None else transforms[transform](tensor)
