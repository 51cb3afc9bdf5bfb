"""What the engine half costs and how little users notice it, on the real engine on the CPU, beside stock SGLang.

Both sides of a comparison run in the same minutes, in turns. About 8 minutes on two cores.
"""

from __future__ import annotations

import time

from tests.cluster.tooling import enginevenv
from tests.support.engine import EngineSlot, Launch
from tests.support.load import prompts

from bench.enginehalf import agent, cost, speeds, underload
from bench.results import Row, write


def main() -> None:
    """Measure, print, keep."""
    enginevenv.install()
    began, rows, asked = time.monotonic(), list[Row](), prompts()
    ours, drafting, plain = slots = [EngineSlot() for _ in range(3)]
    try:
        engine = ours.use(Launch("good"))
        rows += underload.swaps(engine, asked)
        rows += underload.switches(engine, asked)
        stock = drafting.use(Launch("good", plugin=False)), plain.use(Launch("", plugin=False))
        rows += speeds.rows(engine, *stock, asked)
        drafting.clear()
        plain.clear()
        rows += cost.rows(ours, asked)
    finally:
        for slot in slots:
            slot.clear()
    rows += agent.rows()
    rows.append(Row("this run, in all", round(time.monotonic() - began), "s"))
    write("engine", rows)


if __name__ == "__main__":
    main()
