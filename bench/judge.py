"""How soon the judge finds a bad drafter, and how rarely a good one, beside the rules of Flagger and Argo Rollouts.

Everything is simulated by the seed (`bench.judging`); ours is the product's own code. `--runs N` sets the number of
half-hour rollouts, `--docs` puts rows and plot into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bench.judging import one, page, plot, rules, runs, steps
from bench.judging.ours import KEPT
from bench.judging.regret import crossing
from bench.judging.runs import HALF_HOUR, MODEST, Tried, of_active
from bench.judging.traces import Traffic
from bench.results import FOLDER, Row, write

RATES = (0.2, 1.0, 5.0)
BARS = {0.2: 490.0, 1.0: 110.0, 5.0: 30.0}
SHARES = (0.95, 0.9, 0.84)
SEED = 20_000
DOCS = Path(__file__).parents[1] / "docs"


@dataclass(frozen=True)
class AtRate:
    """What was tried at one rate."""

    rate: float
    bad: Tried
    """2.0 against 3.03."""
    dead: Tried
    equal: Tried
    modest: Tried
    """Equal drafters of which hard domains lie below the absolute limit."""
    subtle: dict[float, Tried]

    def hindsight(self, *shares: float) -> rules.Setting:
        """The quickest setting with one of these shares that let every equal candidate live: chosen knowing the answer."""
        safe = [
            setting
            for setting in rules.grid()
            if setting.share in shares
            and not self.equal.flagger.get(setting)
            and not self.modest.flagger.get(setting)
        ]
        never = rules.Setting(int(HALF_HOUR), 1, shares[0])
        return min(safe, key=lambda setting: (self.bad.median_of(setting), setting), default=never)

    @property
    def alike(self) -> rules.Setting:
        """The best of those that allow as small a regression as we do."""
        return self.hindsight(KEPT)

    @property
    def any(self) -> rules.Setting:
        """The best of all: the allowed regression, too, is chosen knowing how bad the bad one is."""
        return self.hindsight(*rules.SHARES)


def tried_at(rate: float, count: int) -> AtRate:
    """Try every kind of candidate at one rate."""
    traffic, few = Traffic(rate, HALF_HOUR), max(20, count // 3)
    done = AtRate(
        rate=rate,
        bad=runs.rolled_out(traffic, (2.0 - 1) / (runs.MEAN - 1), few, SEED),
        dead=runs.rolled_out(traffic, 0.0, few, SEED + 10_000),
        equal=runs.rolled_out(traffic, 1.0, count, SEED + 20_000),
        modest=runs.rolled_out(traffic, 1.0, count, SEED + 30_000, base=MODEST),
        subtle={share: runs.rolled_out(traffic, of_active(share), few, SEED + 40_000) for share in SHARES},
    )
    print(f"{rate:g} requests/s: {time.process_time():.0f} s of CPU so far", flush=True)
    return done


def found_rows(at: AtRate, name: str, tried: Tried, bar: float | None) -> list[Row]:
    """How soon one bad drafter was found."""
    where = f"{name}, {at.rate:g}/s"
    times = [HALF_HOUR if found is None else found for found in tried.ours]
    spread = f"{np.percentile(times, 5):.0f} to {np.percentile(times, 95):.0f} (5th to 95th)"
    n = len(times)
    peers = {
        f"Flagger documented ({rules.FLAGGER_DOCUMENTED})": tried.median_of(rules.FLAGGER_DOCUMENTED),
        f"Flagger best hindsight, as strict as we ({at.alike})": tried.median_of(at.alike),
        f"Flagger best hindsight, any ({at.any})": tried.median_of(at.any),
        "Argo documented (300 s x 4)": tried.median("argo"),
        "gauge alert": tried.median("gauge"),
    }
    mine = tried.median("ours")
    rows = [Row(f"{where}: ours", mine, "s", bar, "", n, spread)]
    rows += [Row(f"{where}: {peer}", value, "s", n=n) for peer, value in peers.items()]
    return rows


def ratio_rows(at: AtRate) -> list[Row]:
    """How much sooner than the peers; bars are lower limits, so the reciprocal is held against them."""
    mine, n = at.bad.median("ours"), len(at.bad.ours)
    peers = {
        "Flagger's best hindsight setting, as strict": (at.bad.median_of(at.alike), 0.5),
        "Flagger's best hindsight setting, any": (at.bad.median_of(at.any), 0.5),
        "Flagger's documented setting": (at.bad.median_of(rules.FLAGGER_DOCUMENTED), 0.1),
        "Argo's documented setting": (at.bad.median("argo"), 0.1),
    }
    return [
        Row(f"2.0 for 3.03, {at.rate:g}/s: our time / {peer}", round(mine / theirs, 3), "x", bar, peer, n)
        for peer, (theirs, bar) in peers.items()
    ]


def false_rows(at: AtRate) -> list[Row]:
    """How often a candidate as good as the active one was rolled back."""
    rows = []
    for name, tried in (("equal", at.equal), ("equal, mean 2.3", at.modest)):
        where, n = f"false rollbacks, {name}, {at.rate:g}/s", len(tried.ours)
        rows += [
            Row(f"{where}: ours", tried.caught("ours"), "", 0, n=n),
            Row(
                f"{where}: Flagger documented", len(tried.flagger.get(rules.FLAGGER_DOCUMENTED, [])), "", n=n
            ),
            Row(
                f"{where}: Flagger, {rules.ABSOLUTE} alone",
                len(tried.flagger.get(rules.FLAGGER_ABSOLUTE, [])),
                "",
                n=n,
            ),
            Row(f"{where}: Argo documented", tried.caught("argo"), "", n=n),
            Row(f"{where}: gauge alert", tried.caught("gauge"), "", n=n),
        ]
    return rows


def power_rows(at: AtRate) -> list[Row]:
    """How many subtle regressions were found within half an hour."""
    rows = []
    for share, tried in at.subtle.items():
        n, where = len(tried.ours), f"power at {share:g} of active, {at.rate:g}/s"
        peers = {
            "ours": tried.caught("ours"),
            "Flagger documented": len(tried.flagger.get(rules.FLAGGER_DOCUMENTED, [])),
            "Flagger best hindsight, as strict": len(tried.flagger.get(at.alike, [])),
            "Flagger best hindsight, any": len(tried.flagger.get(at.any, [])),
            "Argo documented": tried.caught("argo"),
        }
        rows += [
            Row(f"{where}: {name}", round(100 * caught / n, 1), "%", n=n) for name, caught in peers.items()
        ]
    return rows


def hostile_rows(rate: float, count: int) -> list[Row]:
    """Tenants who stick to engines, requests that collapse, a tenant with random tokens."""
    stuck = runs.stuck(rate, count, SEED + 50_000)
    rows = [
        Row(f"false rollbacks, sticky tenants, {rate:g}/s: ours", stuck.taken, "", 0, n=count),
        Row(f"  sticky tenants: noticed, {rate:g}/s", stuck.noticed, "", n=count),
        Row(f"  sticky tenants: paired test without looking, {rate:g}/s", stuck.plain, "", n=count),
        Row(
            f"  sticky tenants: paired test, stratified by engine, {rate:g}/s", stuck.stratified, "", n=count
        ),
        Row(f"  sticky tenants: Flagger documented, {rate:g}/s", stuck.flagger, "", n=count),
        Row(
            f"even routing taken for sticky, {rate:g}/s",
            runs.even(rate, count, SEED + 55_000),
            "",
            0,
            n=count,
        ),
    ]
    for name, traffic in (
        ("1 % collapse", Traffic(rate, HALF_HOUR, odd=0.01)),
        ("random-token tenant of 20 %", Traffic(rate, HALF_HOUR, tenant=0.2)),
    ):
        tried = runs.rolled_out(traffic, 1.0, count, SEED + 60_000)
        flagger = len(tried.flagger.get(rules.FLAGGER_DOCUMENTED, []))
        rows.append(Row(f"false rollbacks, {name}, {rate:g}/s: ours", tried.caught("ours"), "", 0, n=count))
        rows.append(Row(f"  {name}: Flagger documented, {rate:g}/s", flagger, "", n=count))
        taken, gauge = runs.alone(traffic, 1.0, count, SEED + 70_000)
        rows.append(
            Row(f"  {name}: ours, floor {rules.ABSOLUTE} and probe, {rate:g}/s", taken, "", 0, n=count)
        )
        rows.append(Row(f"  {name}: gauge alert, {rate:g}/s", gauge, "", n=count))
    return rows


def one_engine_rows(rate: float, count: int) -> list[Row]:
    """One engine: before and after with the probes, and what switching back and forth would take."""
    traffic, rows = Traffic(rate, HALF_HOUR), []
    for name, share, bar in (
        ("2.0 for 3.03", 2.0 / runs.MEAN, None),
        ("0.84", 0.84, None),
        ("0.9", 0.9, None),
        ("0.95", 0.95, 0.0),
        ("equal", 1.0, 0.0),
    ):
        quality, where = of_active(share), f"one engine, {name}, {rate:g}/s"
        found = [one.found_after(traffic, quality, SEED + 95_000 + run) for run in range(count)]
        times = [time for time in found if time is not None]
        taken = f"{where}: taken back after a look before and after and a probe"
        rows.append(Row(taken, len(times), "", bar, n=count))
        if times:
            spread = f"{np.percentile(times, 5):g} to {np.percentile(times, 95):g} (5th to 95th)"
            rows.append(Row(f"{where}: median", float(np.median(times)), "s", n=len(times), spread=spread))
    for name, quality in (("2.0 for 3.03", of_active(2.0 / runs.MEAN)), ("0.84", of_active(0.84))):
        switched = [one.switched(traffic, quality, SEED + 97_000 + run) for run in range(max(5, count // 4))]
        sure = [which for which in switched if which is not None]
        where = f"switched back and forth, {name}, {rate:g}/s"
        rows.append(Row(f"{where}: sure within half an hour", len(sure), "", n=len(switched)))
        if sure:
            swaps = f"{np.median([which.swaps for which in sure]):g} swaps"
            seconds = float(np.median([which.seconds for which in sure]))
            rows.append(Row(f"{where}: median", seconds, "s", n=len(sure), spread=swaps))
    return rows


def steady_rows(rate: float, count: int) -> list[Row]:
    """Six hours of a settled drafter whose hard domains lie below the floor."""
    traffic = Traffic(rate, 6 * 3600.0)
    taken, gauge = runs.alone(traffic, MODEST, count, SEED + 80_000, steady=True)
    good, _ = runs.alone(traffic, 1.0, count, SEED + 90_000, steady=True)
    where = f"taken away in 6 h of steady state, {rate:g}/s"
    rows = [
        Row(f"{where}: mean 3.03, floor {rules.ABSOLUTE}", good, "", 0, n=count),
        Row(f"{where}: mean 2.3, hard domains below it", taken, "", 0, n=count),
        Row(f"{where}: gauge alert on that", gauge, "", n=count),
    ]
    for length in (1.76, 1.41):
        half, quality = Traffic(rate, HALF_HOUR), of_active(length / runs.MEAN)
        times = runs.settled(half, quality, count, SEED + 92_000)
        where = f"settled at {length:g}, floor {rules.ABSOLUTE}, {rate:g}/s"
        rows.append(Row(f"{where}: taken away in half an hour", len(times), "", n=count))
        if times:
            rows.append(Row(f"{where}: median", float(np.median(times)), "s", n=len(times)))
    return rows


def regret_rows(count: int) -> list[Row]:
    """Lost tokens while the load crosses break-even twice."""
    rows = []
    for hours, bar in ((24.0, 0.2), (12.0, 0.2), (6.0, 0.2)):
        found = [crossing(SEED + seed, hours) for seed in range(count)]
        ratios = [one.against_fixed for one in found]
        lost = f"we lose {100 * np.median([one.ours for one in found]):.1f} %, always on {100 * found[0].always:.1f} %"
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}; {lost}"
        name = f"regret / best fixed limit's, batch 1 to 64 and back in {hours:g} h"
        rows.append(
            Row(name, round(float(np.median(ratios)), 3), "x", bar, "always on or off", count, spread)
        )
    return rows


def steps_rows() -> list[Row]:
    """What steps by batch size would gain at best over the whole-engine switch."""
    rows = []
    for name, costs in steps.PAIRS.items():
        found = steps.gain(costs)
        spread = (
            f"for a drafter right with {found.chance:.2f}; {found.crossing:.3f} x over a load that crosses"
        )
        rows.append(
            Row(f"steps by batch size / on or off, {name}: at most", round(found.most, 3), "x", spread=spread)
        )
    return rows


def measured_at(rate: float, count: int) -> tuple[AtRate, list[Row]]:
    """Measure everything at one rate."""
    at = tried_at(rate, count)
    rows = [*found_rows(at, "2.0 for 3.03", at.bad, BARS[rate]), *ratio_rows(at)]
    rows += [*found_rows(at, "dead, by comparison alone", at.dead, None), *false_rows(at), *power_rows(at)]
    rows += [*hostile_rows(rate, max(10, count // 4)), *one_engine_rows(rate, max(10, count // 6))]
    rows += [*steady_rows(rate, max(4, count // 10))]
    return at, rows


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="bench.judge", description=__doc__)
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--docs", action="store_true")
    asked, begun = parser.parse_args(), time.monotonic()
    print(f"seeds from {SEED} on, {asked.runs} rollouts of half an hour at each rate")
    with ProcessPoolExecutor(max_workers=2) as workers:
        done = list(workers.map(measured_at, reversed(RATES), [asked.runs] * len(RATES)))[::-1]
    tried, rows = [at for at, _ in done], [row for _, found in done for row in found]
    rows += [*regret_rows(5), *steps_rows()]
    write("judge", rows)
    plot.draw(tried, FOLDER / "judge.png")
    seconds = round(time.monotonic() - begun)
    if asked.docs:
        plot.draw(tried, DOCS / "images" / "judge.png")
        document(rows, asked.runs, seconds)
    print(json.dumps({"seed": SEED, "runs": asked.runs, "seconds": seconds}))


def document(rows: list[Row], count: int, seconds: int) -> None:
    """Put the rows into docs/benchmarks.md, with a line on how they came about."""
    head = (
        f"`make bench-judge ARGS=--docs` on {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}: "
        f"{seconds / 60:.0f} minutes. Seeds from {SEED} on, {count} rollouts of half an hour at each rate.\n"
    )
    path = DOCS / "benchmarks.md"
    path.write_text(page.filled(path.read_text(), rows, head))


if __name__ == "__main__":
    main()
