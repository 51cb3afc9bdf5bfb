"""Foreign text made fit for terminals and logs: nothing that moves a cursor or turns the reading direction."""

from __future__ import annotations

import re

# Control characters but the line feed and tab, C1, and Unicode's marks, embeddings and isolates of direction.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def fit(text: str, length: int) -> str:
    """Clip a text and put spaces where it holds what could mislead."""
    return _UNFIT.sub(" ", text)[:length]
