"""One screen that says how a server stands: pure, from a picture to lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from specdec.acceptance.judge import Floor
from specdec.api.base import Condition
from specdec.api.v1alpha1 import AcceptanceStatus, RevisionStatus
from specdec.api.warmup import WarmupStatus
from specdec.cli.output import age, padded, table
from specdec.cli.picture import Happened, Picture
from specdec.rollout.clock import text
from specdec.rollout.revisions import version
from specdec.rollout.world import PodView

BAR = 30
"""Cells of the accept length's bar; those of the positions are as long."""
EVENTS = 6
"""Events on the screen."""
ABNORMAL = ("Reconciling", "Stalled")
"""Conditions that are False when all is well."""
PHASES = {"Serving": "green", "RollingOut": "cyan", "Starting": "cyan", "Degraded": "yellow", "Failed": "red"}
VERDICTS = {"Healthy": "green", "Unhealthy": "red", "Unknown": "yellow"}


def screen(picture: Picture, now: float) -> list[str]:
    """Lay out everything that matters of one server."""
    parts = (
        headline(picture),
        places(picture, now),
        acceptance(picture),
        baseline(picture, now),
        conditions(picture),
        events(picture, now),
    )
    return [line for part in parts for line in part]


def headline(picture: Picture) -> Iterator[str]:
    """Name the server and say how it is in a word or two."""
    status = picture.server.status
    phase = click.style(status.phase or "Unseen", fg=PHASES.get(status.phase, "yellow"), bold=True)
    rollout = f"   rollout {status.rollout}" if status.rollout else ""
    yield f"{click.style(picture.named, bold=True)}   {phase}{rollout}"
    if not status.phase:
        yield "  no operator has looked at it yet"
    elif status.observed_generation < picture.server.generation:
        yield click.style("  the operator has not seen the newest spec yet", fg="yellow")


def places(picture: Picture, now: float) -> Iterator[str]:
    """Say which revisions hold which place."""
    spec, status = picture.server.spec, picture.server.status
    wanted = 1 if spec.replicas is None else spec.replicas
    engine = f" on {status.engine}" if status.engine else ""
    yield f"  {'Replicas':<11}{status.ready_replicas} of {wanted} serve {spec.target.model}{engine}"
    for word, place in (
        ("Active", status.active),
        ("Candidate", status.candidate),
        ("Last good", status.last_good),
    ):
        yield f"  {word:<11}{_place(place, now)}"
    for held in _held(picture):
        yield f"  {'Held':<11}{click.style(held, fg='yellow')}"
    for entry in status.quarantine:
        name = entry.version or entry.drafter_digest[:19]
        yield f"  {'Quarantine':<11}{name}   {entry.reason}   for {age(entry.at, now)}"
    yield ""


def _place(place: RevisionStatus | None, now: float) -> str:
    if place is None:
        return "-"
    return f"{place.version or 'no drafter'}   {place.revision}   for {age(place.since, now)}"


def _held(picture: Picture) -> Iterator[str]:
    """Say what a person has decided that lasts."""
    spec = picture.server.spec
    if spec.rollout.paused:
        yield "rollout.paused: no rollout begins or ends well (resume)"
    if spec.rollout.pinned_revision:
        yield f"rollout.pinnedRevision is {spec.rollout.pinned_revision} (unpin)"
    if spec.drafting == "Off":
        yield "drafting is Off (drafting on)"
    if spec.mode == "Observe":
        yield "mode is Observe: verdicts are told, not acted upon"


def acceptance(picture: Picture) -> Iterator[str]:
    """Draw what live traffic shows, and the evidence against its limit."""
    shown = picture.server.status.acceptance
    if shown is None:
        yield from ("Acceptance   no drafter serves", "")
        return
    record = picture.record(shown.revision)
    steps = int(record.data.get("numSteps", 3)) if record else picture.server.spec.num_steps
    verdict = click.style(shown.verdict or "Unknown", fg=VERDICTS.get(shown.verdict, "yellow"), bold=True)
    named = f" of {version(record)}" if record else ""
    yield f"Acceptance{named}   {verdict}"
    if shown.accept_length:
        yield from _figures(picture, shown, steps)
    yield f"  {'evidence':<15}{shown.message}"
    if picture.server.status.last_evidence:
        yield f"  {'last decision':<15}{picture.server.status.last_evidence}"
    yield ""


def _figures(picture: Picture, shown: AcceptanceStatus, steps: int) -> Iterator[str]:
    limit = Floor.of(picture.server.spec.acceptance, steps).length
    length = float(shown.accept_length)
    behind = f"of at most {steps + 1}" + (
        f", floor {limit:.2f}" if limit is not None else ", no floor is set"
    )
    share, mark = (length - 1) / steps, None if limit is None else (limit - 1) / steps
    colour = "red" if limit is not None and length < limit else "green"
    yield f"  {'accept length':<15}{shown.accept_length}  {bar(share, colour, mark)}  {behind}"
    for number, right in enumerate(shown.per_position, 1):
        yield f"  {f'position {number}':<15}{right}  {bar(float(right), 'blue')}"


def baseline(picture: Picture, now: float) -> Iterator[str]:
    """Say what the newest warm-up showed, and how the active drafter was read."""
    status, found = picture.server.status, picture.server.status.warmup
    if status.drafter_load:
        yield f"{'Drafter load':<14}{status.drafter_load}"
    if found is not None:
        yield from _warmup(picture, found, now)
    if status.drafter_load or found is not None:
        yield ""


def _warmup(picture: Picture, found: WarmupStatus, now: float) -> Iterator[str]:
    record = picture.record(found.revision)
    named = version(record) if record else found.revision
    length = f", accept length {found.accept_length}" if found.accept_length else ""
    shares = f" ({' '.join(found.per_position)})" if found.per_position else ""
    yield f"{'Warm-up':<14}of {named}, {age(found.at, now)} ago{length}{shares}"
    off = "as without a drafter" if found.plain_off else "by verify, at a price"
    for speed in found.speeds:
        requests = f"{speed.batch} request{'s' if speed.batch > 1 else ''}"
        yield f"  {requests:<15}{speed.drafting or '-'} tok/s drafting, {speed.without or '-'} off ({off})"
    if found.answers == "Same":
        yield f"  {'answers':<15}the same with drafting and without"
    if found.images == "Answered":
        yield f"  {'images':<15}one was answered"
    if found.answers == "Different" or found.images == "Failed":
        yield f"  {click.style(found.message, fg='red')}"


def bar(share: float, colour: str, mark: float | None = None) -> str:
    """Draw a share as a bar; a mark stands where a limit is."""
    filled = round(max(0.0, min(1.0, share)) * BAR)
    cells = ["█"] * filled + ["·"] * (BAR - filled)
    if mark is not None:
        cells[min(BAR - 1, max(0, round(mark * BAR)))] = "┃"
    return click.style("".join(cells), fg=colour)


def engines(pods: Sequence[PodView], picture: Picture, now: float) -> Iterator[str]:
    """List the engines as their agents describe them."""
    yield ""
    head = (
        "ENGINE",
        "READY",
        "PHASE",
        "SERVES",
        "STARTS-WITH",
        "CANDIDATE",
        "DRAFTING",
        "IN-FLIGHT",
        "RESTARTS",
        "AGE",
    )
    yield from table(head, [_engine(pod, picture, now) for pod in pods])
    for pod in pods:
        yield from said_by_agent(pod, now)


def said_by_agent(pod: PodView, now: float) -> Iterator[str]:
    """Say how far a start is, and how the last one that failed ended."""
    said = pod.status
    if said is None:
        return
    if said.message:
        yield f"{pod.name}: {said.message}"
    if said.failure is not None:
        ended = f" ({said.failure.ended})" if said.failure.ended else ""
        when = age(said.failure.at, now)
        yield f"{pod.name} failed {when} ago: {said.failure.reason}{ended}: {said.failure.message}"
        yield from (f"  {line}" for line in said.failure.lines)


def _engine(pod: PodView, picture: Picture, now: float) -> tuple[str, ...]:
    said = pod.status
    words: tuple[str, ...] = (pod.waiting_reason or "not heard", "-", "-", "-", "-", "-")
    if said is not None:
        candidate = (
            f"{_version(picture, said.candidate.revision)} {said.candidate.state}" if said.candidate else "-"
        )
        serves, starts = _version(picture, said.revision), _version(picture, said.promoted)
        words = (
            said.phase,
            serves,
            starts,
            candidate,
            f"{said.drafting}, {said.steps} steps",
            str(said.in_flight),
        )
    ready = "yes" if pod.ready else "no"
    return (pod.name, ready, *words, str(pod.restarts), age(text(pod.created), now))


def _version(picture: Picture, revision: str) -> str:
    record = picture.record(revision)
    return (version(record) if record else "") or revision or "-"


def conditions(picture: Picture) -> Iterator[str]:
    """List the conditions; what is not as it should be stands out."""
    found = picture.server.status.conditions
    if not found:
        return
    yield "Conditions"
    wide = max(len(item.type) for item in found)
    reasons = max(len(item.reason) for item in found)
    for item in found:
        state = padded(click.style(item.status, fg=_colour(item)), len("Unknown"))
        yield f"  {item.type:<{wide}}   {state}   {item.reason:<{reasons}}   {item.message}".rstrip()
    yield ""


def _colour(item: Condition) -> str:
    if item.status == "Unknown":
        return "yellow"
    good = "False" if item.type in ABNORMAL else "True"
    if item.type == "Reconciling":
        return "green" if item.status == good else "cyan"
    return "green" if item.status == good else "red"


def events(picture: Picture, now: float) -> Iterator[str]:
    """Tell what happened last, newest below."""
    last = picture.events[-EVENTS:]
    if not last:
        return
    yield "Events"
    reasons = max(len(event.reason) for event in last)
    for event in last:
        yield f"  {age(event.at, now):>6}   {coloured(event, reasons)}"


def coloured(event: Happened, width: int = 0) -> str:
    """Write an event as one line."""
    reason = f"{event.reason:<{width}}"
    return f"{click.style(reason, fg='yellow') if event.type == 'Warning' else reason}   {event.message}"
