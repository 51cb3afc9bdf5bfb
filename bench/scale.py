"""2,000 servers on a real kube-apiserver: our operator against kopf's default handlers and a raw asyncio floor.

Each operator gets an API server of its own, in turns (A B C C B A): a storm of new servers in two halves, to weigh
the operator between them, single changes of a spec, a restart with nothing to do, and rest. No controller makes pods
there, so nothing but the API is measured; `bench.scaling.replicated` measures servers with pods.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field

from bench.results import Row, measured, ranked, write
from bench.scaling import replicated
from bench.scaling.apiserver import ApiServer
from bench.scaling.load import Progress, changed, post, prepared, storm
from bench.scaling.objects import SERVERS, server
from bench.scaling.operators import OPERATORS, Process

RESTART_SECONDS = 45.0
"""After a kill the Lease is free after 15 s; all servers are looked at well within the rest."""
REST_SECONDS = 60.0
CONVERGE_SECONDS = 400.0


@dataclass
class Measured:
    """What one operator did in one turn."""

    storm_seconds: float = 0.0
    storm_cpu: float = 0.0
    changes: list[float] = field(default_factory=list)
    """Milliseconds from before each change was sent to the first write that tells of it."""
    writes_of_changes: int = 0
    restart_writes: int = 0
    rest_writes: int = 0
    memory_half: float = 0.0
    memory_all: float = 0.0
    """MB."""


def turn(name: str, count: int) -> Measured:
    """Measure one operator once."""
    found, names = Measured(), [f"server-{number}" for number in range(count)]
    with prepared(name) as api:
        progress = Progress(api)
        with Process(name, api) as process:
            post(api.session(), api.url + SERVERS, server("first"))
            progress.wait(progress.seen, {"first": 1}, 60)  # it has begun
            cpu, began = process.cpu(), time.perf_counter()
            half = count // 2
            for part in (names[:half], names[half:]):
                storm(api, [server(one) for one in part])
                progress.wait(progress.seen, dict.fromkeys(part, 1), CONVERGE_SECONDS)
                found.memory_half = found.memory_half or process.memory()
            found.storm_seconds = time.perf_counter() - began
            found.storm_cpu = process.cpu() - cpu
            found.memory_all = process.memory()
            time.sleep(5)  # what was under way ends
            before = api.writes()
            found.changes = changed(api, progress, names)
            time.sleep(5)
            found.writes_of_changes = api.writes() - before - len(found.changes)
        found.restart_writes, found.rest_writes = restarted(name, api)
    return found


def restarted(name: str, api: ApiServer) -> tuple[int, int]:
    """Start it again with nothing to do: its writes until it has looked at everything, and in the minute after."""
    before = api.writes()
    with Process(name, api):
        time.sleep(RESTART_SECONDS)
        first = api.writes()
        if name == "ours":
            time.sleep(REST_SECONDS)
    return first - before, api.writes() - first


def rows(found: dict[str, list[Measured]], count: int) -> list[Row]:
    """Put the turns into rows; ratios are of one round each."""

    def ratios(what: str, other: str) -> list[float]:
        pairs = zip(found["ours"], found[other], strict=True)
        return [round(getattr(ours, what) / getattr(theirs, what), 3) for ours, theirs in pairs]

    def changes(turns: list[Measured]) -> list[float]:
        return [sample for one in turns for sample in one.changes]

    table = [
        measured(f"storm of {count}: wall, of kopf's", ratios("storm_seconds", "kopf"), "x", 0.4, "kopf's default handlers"),
        measured(f"storm of {count}: CPU, of kopf's", ratios("storm_cpu", "kopf"), "x", 0.5, "kopf's default handlers"),
        measured(f"storm of {count}: wall, of the floor's", ratios("storm_seconds", "floor"), "x", 2.0, "raw asyncio"),
        ranked("spec -> first write", changes(found["ours"]), 99, "ms", 250.0),
    ]  # fmt: skip
    ours = found["ours"]
    per_object = [(one.memory_all - one.memory_half) * 1024 / (count - count // 2) for one in ours]
    table += [
        measured("writes after a restart with nothing to do", [one.restart_writes for one in ours], "", 0.0),
        measured("writes in 60 s of rest", [one.rest_writes for one in ours], "", 0.0),
        measured("writes per change of a spec", [one.writes_of_changes / len(one.changes) for one in ours], "", 2.0),
        measured(f"memory at {count // 2}", [one.memory_half for one in ours], "MB", 140.0),
        measured("memory per further server", per_object, "KB", 20.0),
    ]  # fmt: skip
    for name, turns in found.items():
        table += [
            measured(f"{name}: storm", [round(one.storm_seconds, 2) for one in turns], "s"),
            measured(f"{name}: CPU of the storm", [round(one.storm_cpu, 2) for one in turns], "s"),
            ranked(f"{name}: spec -> first write", changes(turns), 99, "ms"),
            measured(f"{name}: writes after a restart", [one.restart_writes for one in turns], ""),
            measured(f"{name}: memory at {count}", [one.memory_all for one in turns], "MB"),
        ]
    return table


def compared(count: int, rounds: int) -> list[Row]:
    """Measure all operators in turns."""
    found: dict[str, list[Measured]] = {name: [] for name in OPERATORS}
    for number in range(rounds):
        for name in list(OPERATORS)[:: -1 if number % 2 else 1]:
            found[name].append(turn(name, count))
            print(f"round {number + 1}: {name}: {found[name][-1].storm_seconds:.1f} s", file=sys.stderr)
    return rows(found, count) if rounds else []


def main() -> None:
    """Measure servers without pods, each operator in its turn, then servers with pods."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--servers", type=int, default=2000, help="without pods")
    words.add_argument("--rounds", type=int, default=1, help="turns of each operator; 0 leaves this part out")
    words.add_argument(
        "--replicated", type=int, default=500, help="servers with pods; 0 leaves this part out"
    )
    given = words.parse_args()
    table = compared(given.servers, given.rounds)
    if given.replicated:
        table += replicated.rows(replicated.replicated(given.replicated), given.replicated)
    write("scale", table)


if __name__ == "__main__":
    main()
