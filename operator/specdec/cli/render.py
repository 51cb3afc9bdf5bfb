"""A report for a tired engineer: the verdict first, then each fault in three lines."""

from __future__ import annotations

from collections.abc import Iterator

import click

from specdec.cli.output import dumped
from specdec.preflight.finding import Finding, Severity
from specdec.preflight.report import Report, Verdict
from specdec.preflight.stories import Story

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.UNKNOWN: "cyan"}
VERDICT_COLOURS = {Verdict.PASSED: "green", Verdict.BLOCKED: "red", Verdict.UNKNOWN: "cyan"}


def formatted(report: Report, output: str) -> str:
    """Write a report for people, or as json or yaml for programs."""
    return human(report) if output == "human" else dumped(report.to_json(), output)


def human(report: Report) -> str:
    """Lay out a report; colours are stripped by click where the output is no terminal."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    verdict = click.style(report.verdict.value, fg=VERDICT_COLOURS[report.verdict], bold=True)
    pair = f"{report.drafter} for {report.target}" if report.target else report.drafter
    kind = f" ({report.layout})" if report.layout else ""
    yield f"{verdict}  {pair} on SGLang {report.version or '?'}{kind}"
    for finding in report.findings:
        yield ""
        yield from _finding(finding)
    if report.left_out:
        yield f"         and {report.left_out} more"
    if report.skipped:
        yield ""
        yield f"Skipped  {', '.join(dict.fromkeys(finding.code for finding in report.skipped))}"
    if report.repairs:
        yield ""
    for repair in report.repairs:
        yield f"{click.style('Mended', fg='green'):<7}  {repair.code}: {repair.said}"
    layers = report.resolved.get("capturedLayerInputs")
    if layers is not None:
        yield ""
        yield f"Captures the inputs of layers {', '.join(str(layer) for layer in layers)}."
    for name, digest in report.digests.items():
        yield f"{name}: {digest}"
    if report.findings:
        yield ""
        yield f"{_count(report)}. More on one: kubectl specdec preflight --explain {report.findings[0].code}"


def _finding(finding: Finding) -> Iterator[str]:
    name = click.style(f"{finding.severity.value:<7}", fg=COLOURS[finding.severity], bold=True)
    yield f"{name}  {click.style(finding.code, bold=True)}"
    yield f"         found     {finding.found}"
    yield f"         expected  {finding.expected}"
    yield f"         do        {finding.hint}"


def _count(report: Report) -> str:
    counts = [
        (sum(finding.severity is severity for finding in report.findings), word)
        for severity, word in (
            (Severity.ERROR, "error"),
            (Severity.WARNING, "warning"),
            (Severity.UNKNOWN, "unknown"),
        )
    ]
    return ", ".join(
        f"{count} {word}{'s' if count > 1 and word != 'unknown' else ''}" for count, word in counts if count
    )


def explained(story: Story) -> str:
    """One code's story."""
    return (
        f"{click.style(story.code, bold=True)} ({story.severity.value})\n"
        f"{story.what}\n\n"
        f"  shows as  {story.symptom}\n"
        f"  mend      {story.mend}\n"
        f"  source    {story.source}\n"
    )
