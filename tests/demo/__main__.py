"""`make demo`: from `kubectl apply` to an automatic rollback, on a real cluster with the real engine."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.demo import terminal
from tests.demo.figures import Chapter, Promise, Result, span
from tests.demo.narrate import say
from tests.demo.plot import draw
from tests.demo.story import Story, clean_up
from tests.support import install

COLUMNS = (
    "version",
    "drafter",
    "outcome",
    "apply->serving",
    "serving->verdict",
    "verdict->back",
    "touched",
    "AL before/during/after",
    "tok/s before/during/after",
)


def seconds(value: float | None) -> str:
    """Show seconds, or a dash where there are none."""
    return "-" if value is None else f"{value:.2f} s"


def row(chapter: Chapter) -> tuple[str, ...]:
    """One line of the table."""
    windows = (chapter.before, chapter.during, chapter.after)
    lengths = " / ".join(f"{w.accept_length:.2f}" if w and w.requests else "-" for w in windows)
    speeds = " / ".join(f"{w.tokens_per_second:.0f}" if w and w.requests else "-" for w in windows)
    return (
        chapter.version,
        chapter.drafter,
        f"{chapter.outcome} {chapter.reason}".strip(),
        seconds(span(chapter.applied, chapter.swapped)),
        seconds(span(chapter.swapped, chapter.verdict)),
        seconds(span(chapter.verdict, chapter.back)),
        f"{chapter.touched} ({chapter.in_flight} in flight)" if chapter.swapped else "-",
        lengths,
        speeds,
    )


def table(result: Result) -> str:
    """All chapters as a table."""
    lines = [COLUMNS, *(row(c) for c in result.chapters)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


def promise_line(promise: Promise) -> str:
    """One promise and whether it was kept."""
    return f"  {'kept  ' if promise.kept else 'BROKEN'}  {promise.text}: {promise.found}"


def main() -> int:
    """Run the demo and write its figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for demo.json and demo.png")
    parser.add_argument("--keep", action="store_true", help="leave the demo's namespace in the cluster")
    options = parser.parse_args()
    begin = time.monotonic()
    say("Making the tiny models.")
    install.models()
    say(f"Installing the operator: helm {' '.join(install.command())}")
    install.operator()
    try:
        story = Story()
        result, requests = story.run()
    finally:
        if not options.keep:
            clean_up()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "demo.json").write_text(json.dumps(result.to_json(), indent=1) + "\n")
    draw(result, requests, options.out / "demo.png")
    terminal.picture(*story.screen, options.out / "demo-status.svg")
    story.outputs["table"] = [table(result)]
    for block, shown in story.outputs.items():
        (options.out / f"demo-{block}.txt").write_text("\n".join(shown).rstrip() + "\n")
    print(f"\n{table(result)}\n")
    print("\n".join(promise_line(p) for p in result.promises))
    broken = [p for p in result.promises if not p.kept]
    print(
        f"\n{len(result.promises) - len(broken)} promises kept, {len(broken)} broken; {time.monotonic() - begin:.0f} s; see {options.out}/demo.json and {options.out}/demo.png"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
