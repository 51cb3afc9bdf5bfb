"""Whether the engine should draft: the mode that lasts, and one that was ordered for a while and ends by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from specdec.engine.agent.times import now_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdec.engine.agent.board import Board
    from specdec.engine.protocol import Drafting, SetDrafting


class Mode:
    """The mode in force; it needs nobody to end a measurement, as the dead-man switch needs nobody to take back."""

    def __init__(self, lasting: Drafting, board: Board, changed: Callable[[], None]) -> None:
        self._lasting = lasting
        self._for_now: Drafting | None = None
        self._board = board
        self._changed = changed
        """Called after every change."""
        self._timer: asyncio.TimerHandle | None = None
        board.change(drafting_until="")

    @property
    def now(self) -> Drafting:
        """What is wanted now; a dead drafter does not draft all the same."""
        return self._lasting if self._for_now is None else self._for_now

    def order(self, command: SetDrafting) -> None:
        """Obey a command; it takes the place of one for a while."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if command.for_seconds:
            self._for_now = command.drafting
            self._timer = asyncio.get_running_loop().call_later(command.for_seconds, self._over)
        else:
            self._lasting, self._for_now = command.drafting, None
        self._board.change(drafting_until=now_text(command.for_seconds) if command.for_seconds else "")
        self._changed()

    def _over(self) -> None:
        self._timer = self._for_now = None
        self._board.change(drafting_until="")
        self._changed()
