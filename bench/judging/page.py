"""The judge's part of docs/benchmarks.md: each marked block is a table of the rows of one whole run. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from bench.results import Row

RATES = ("0.2", "1", "5")
RATE_HEADS = ("0.2 requests/s", "1", "5")
BLOCK = re.compile(r"(<!-- judge:(?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
BAD = "2.0 for 3.03"


class Found:
    """The rows by their names."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = {row.row.strip(): row for row in rows}

    def get(self, start: str) -> Row | None:
        """Find the row of a name, or the one that begins so; None where the run had none."""
        named = [row for name, row in self.rows.items() if name.startswith(start)]
        return self.rows.get(start) or (named[0] if named else None)

    def value(self, start: str) -> str:
        """Show a row's value, or a dash."""
        row = self.get(start)
        return "-" if row is None else f"{row.value:g}"

    def of(self, start: str) -> str:
        """Show a row's value and out of how many it is."""
        row = self.get(start)
        return "-" if row is None else f"{row.value:g} of {row.n}"

    def at_rates(self, pattern: str) -> str:
        """Show the values at the three rates in one cell."""
        return " / ".join(self.value(pattern.format(rate=rate)) for rate in RATES)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def met(row: Row) -> str:
    """Show a value with how it stands to its bar."""
    shown = f"{row.value:g}"
    return shown if row.met is None else f"{shown}, {'met' if row.met else '**not met**'}"


def bad(found: Found) -> str:
    """Show how soon a bad drafter is found, by rule and rate."""

    def cells(rule: str, show: Callable[[Row], str]) -> list[str]:
        rows = [found.get(f"{BAD}, {rate}/s: {rule}") for rate in RATES]
        return ["-" if row is None else show(row) for row in rows]

    def chosen(row: Row) -> str:
        setting = row.row.partition("(")[2].rstrip(")")
        return "none is safe" if setting.startswith("1800 s") else f"{row.value:g} ({setting})"

    rules = ("Flagger documented", "Argo documented", "gauge alert")
    return table(
        ("rule", *RATE_HEADS),
        [
            (
                "**ours**, 5 % of regression allowed (5th to 95th percentile)",
                *cells(
                    "ours", lambda row: f"**{row.value:g}** ({row.spread.removesuffix(' (5th to 95th)')})"
                ),
            ),
            ("bar", *cells("ours", lambda row: f"{row.bar:g}, {'met' if row.met else '**not met**'}")),
            *((rule, *cells(rule, lambda row: f"{row.value:g}")) for rule in rules),
            (
                "Flagger, hindsight, as strict as ours",
                *cells("Flagger best hindsight, as strict as we", chosen),
            ),
            ("Flagger, hindsight, any", *cells("Flagger best hindsight, any", chosen)),
            (
                "a dead one that passed its probe: ours, by comparison alone",
                *(found.value(f"dead, by comparison alone, {rate}/s: ours") for rate in RATES),
            ),
        ],
    )


def ratios(found: Found) -> str:
    """Show our time over the peers', each against its bar."""
    peers = {
        "Flagger's best hindsight setting, as strict": "0.5",
        "Flagger's best hindsight setting, any": "0.5",
        "Flagger's documented setting": "0.1",
        "Argo's documented setting": "0.1",
    }
    rows = []
    for peer, bar in peers.items():
        lines = [found.get(f"{BAD}, {rate}/s: our time / {peer}") for rate in RATES]
        rows.append((peer, f"<= {bar}", *("-" if line is None else met(line) for line in lines)))
    return table(("our time / that of", "bar", *RATE_HEADS), rows)


def good(found: Found) -> str:
    """Show how many good drafters are taken away."""

    def line(what: str, pattern: str, rules: Sequence[str]) -> tuple[str, ...]:
        first = found.get(pattern.format(rate="1") + ": ours")
        cells = [found.at_rates(f"{pattern}: {rule}") if rule else "" for rule in rules]
        return (what, f"{first.n if first else 0} each", f"**{cells[0]}**", *cells[1:])

    rules = ("ours", "Flagger documented", "Flagger, 1.9 alone", "Argo documented", "gauge alert")
    rows = [
        line(
            "equal to the active, half an hour, 0.2 / 1 / 5 requests/s",
            "false rollbacks, equal, {rate}/s",
            rules,
        ),
        line(
            "the same, mean 2.3: hard domains lie below 1.9",
            "false rollbacks, equal, mean 2.3, {rate}/s",
            rules,
        ),
    ]
    each = found.get("false rollbacks, sticky tenants, 1/s: ours")
    count = f"{each.n if each else 0} each"
    for what, name in (
        ("sticky tenants: engines have domains of their own", "sticky tenants"),
        ("1 % of requests collapse", "1 % collapse"),
        ("a tenant of 20 % with random tokens", "random-token tenant of 20 %"),
    ):
        gauge = "" if name == "sticky tenants" else found.at_rates(f"{name}: gauge alert, {{rate}}/s")
        mine = found.at_rates(f"false rollbacks, {name}, {{rate}}/s: ours")
        flagger = found.at_rates(f"{name}: Flagger documented, {{rate}}/s")
        rows.append((what, count, f"**{mine}**", flagger, "", "", gauge))
    rows += [alone(found, name) for name in ("1 % collapse", "random-token tenant of 20 %")]
    return table(("", "rollouts", *rules), [*rows, *steady(found)])


def alone(found: Found, name: str) -> tuple[str, ...]:
    """Show one hostile traffic under the layers that look at one drafter alone."""
    row = found.get(f"{name}: ours, floor 1.9 and probe, 1/s")
    mine = found.at_rates(f"{name}: ours, floor 1.9 and probe, {{rate}}/s")
    return (
        f"{name}, a floor of 1.9 and probes alone",
        f"{row.n if row else 0} each",
        f"**{mine}**",
        *[""] * 4,
    )


def steady(found: Found) -> list[tuple[str, ...]]:
    """Show six hours of a settled drafter."""
    start = "taken away in 6 h of steady state, {rate}/s: "
    row = found.get(start.format(rate="1"))
    count = f"{row.n if row else 0} each"
    sound = found.at_rates(f"{start}mean 3.03")
    modest, gauge = found.at_rates(f"{start}mean 2.3"), found.at_rates(f"{start}gauge alert")
    return [
        ("steady state of 6 h, floor 1.9, mean 3.03", count, f"**{sound}**", *[""] * 4),
        ("the same, mean 2.3: hard domains lie below the floor", count, f"**{modest}**", "", "", "", gauge),
    ]


def settled(found: Found) -> str:
    """Show how soon a settled drafter is taken away that got bad."""
    rows = []
    for length, what in (("1.76", "just below its floor of 1.9"), ("1.41", "far below it")):
        start = f"settled at {length}, floor 1.9, {{rate}}/s: "
        cells = [
            f"{found.of(start.format(rate=rate) + 'taken')}, {found.value(start.format(rate=rate) + 'median')} s"
            for rate in RATES
        ]
        rows.append((f"{length}, {what}", *cells))
    return table(("accept length", *RATE_HEADS), rows)


def subtle(found: Found) -> str:
    """Show the share of subtle regressions that is found."""
    rules = (
        "ours",
        "Flagger documented",
        "Flagger best hindsight, as strict",
        "Flagger best hindsight, any",
        "Argo documented",
    )
    rows = []
    for share, named in (("0.95", "0.95 (allowed)"), ("0.9", "0.90"), ("0.84", "0.84")):
        cells = [found.at_rates(f"power at {share} of active, {{rate}}/s: {rule}") for rule in rules]
        rows.append((named, f"**{cells[0]}**", *cells[1:]))
    return table(("candidate's share of the active's accept length", *rules), rows)


def one_engine(found: Found) -> str:
    """Show what is found with one engine."""
    rows = []
    for name in (BAD, "0.84", "0.9", "0.95", "equal"):
        taken = "one engine, {name}, {rate}/s: taken back"
        cells = [found.of(taken.format(name=name, rate=rate)) for rate in RATES]
        rows.append((name, *cells, found.at_rates(f"one engine, {name}, {{rate}}/s: median") + " s"))
    for name in (BAD, "0.84"):
        start = f"switched back and forth, {name}, {{rate}}/s"
        cells = [found.of(f"{start.format(rate=rate)}: sure") for rate in RATES]
        median, swaps = found.at_rates(f"{start}: median"), found.get(f"{start.format(rate='1')}: median")
        rows.append(
            (
                f"were it switched every 30 s: {name}",
                *cells,
                f"{median} s" + (f", {swaps.spread}" if swaps else ""),
            )
        )
    return table(("candidate", *RATE_HEADS, "median of those"), rows)


def sticky(found: Found) -> str:
    """Show what is made of sticky tenants."""
    rows = [
        ("noticed", "sticky tenants: noticed, {rate}/s"),
        ("even routing taken for sticky", "even routing taken for sticky, {rate}/s"),
        (
            "taken away by the paired test without that look",
            "sticky tenants: paired test without looking, {rate}/s",
        ),
        (
            "taken away with each engine held against its own history",
            "sticky tenants: paired test, stratified by engine, {rate}/s",
        ),
    ]
    return table(
        ("", *RATE_HEADS),
        [(what, *(found.of(pattern.format(rate=rate)) for rate in RATES)) for what, pattern in rows],
    )


def steps(found: Found) -> str:
    """Show what steps by batch size would gain."""
    start = "steps by batch size / on or off, "
    rows = []
    for name, row in found.rows.items():
        if name.startswith(start):
            crossing = row.spread.partition("; ")[2].partition(" ")[0]
            rows.append(
                (
                    name.removeprefix(start).removesuffix(": at most"),
                    f"{row.value:.2f} x",
                    f"{float(crossing):.3f} x",
                )
            )
    return table(("costs", "at its best batch", "over a load that crosses"), rows)


def regret(found: Found) -> str:
    """Show the tokens lost while the load crosses break-even."""
    rows = []
    for hours in ("24", "12", "6"):
        row = found.get(f"regret / best fixed limit's, batch 1 to 64 and back in {hours} h")
        if row:
            spread, _, lost = row.spread.partition("; ")
            rows.append((f"{hours} h", lost, f"{met(row)} ({spread})"))
    return table(("load rises and falls once in", "lost of an oracle's tokens", "ratio (bar 0.2)"), rows)


TABLES: dict[str, Callable[[Found], str]] = {
    "bad": bad,
    "ratios": ratios,
    "good": good,
    "settled": settled,
    "subtle": subtle,
    "one-engine": one_engine,
    "sticky": sticky,
    "steps": steps,
    "regret": regret,
}


def filled(text: str, rows: Iterable[Row], head: str) -> str:
    """Put the run's tables into the page, and one line on the run itself."""
    found = Found(rows)

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        return f"{match[1]}{head if name == 'run' else TABLES[name](found)}{match[3]}"

    return BLOCK.sub(block, text)
