from __future__ import annotations

import pytest

from specdec.engine.agent import loopback_client as subject
from specdec.engine.agent.loopback_client import SILENT_SECONDS, EngineUnreachableError, watch


class Loopback:
    """An engine that answers as its script says, one entry for each look."""

    def __init__(self, script: list[tuple[bool, bool]]) -> None:
        self.script = script
        self.looks = 0

    async def answers(self) -> bool:
        return self._now()[0]

    async def report(self) -> None:
        web, scheduler = self._now()
        self.looks += 1
        if not scheduler:
            raise EngineUnreachableError(f"web app {web}")

    def _now(self) -> tuple[bool, bool]:
        return self.script[min(self.looks, len(self.script) - 1)]


@pytest.mark.parametrize(
    ("script", "part", "looks"),
    [
        ([(True, False)], "scheduler", 11),
        ([(False, True)], "web app", 11),
        ([(False, False)], "web app", 11),
        # One answer begins the count anew.
        ([(True, False)] * 9 + [(True, True), (True, False)], "scheduler", 21),
    ],
)
async def test_a_silent_engine_is_lost_after_its_time_and_the_silent_part_is_named(
    monkeypatch, script, part, looks
):
    monkeypatch.setattr(subject, "WATCH_SECONDS", 0)
    loopback = Loopback(script)
    with pytest.raises(EngineUnreachableError, match=f"SGLang's {part} gave no answer"):
        await watch(loopback, clock=lambda: loopback.looks * SILENT_SECONDS / 10)  # type: ignore[arg-type]
    assert loopback.looks == looks
