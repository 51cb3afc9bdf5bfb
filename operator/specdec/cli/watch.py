"""`kubectl specdec watch`: the status as it changes, redrawn on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from specdec.api.words import FAILED_ENDS, RolloutWord
from specdec.cli.cluster import Cluster, FailedError, in_cluster

if TYPE_CHECKING:
    from specdec.cli.picture import Picture

EXAMPLES = """\b
Examples:
  kubectl specdec watch kimi               until Ctrl-C
  kubectl specdec watch kimi | tee log     plain lines: one for each change, one for each event
  kubectl specdec watch kimi --until Idle --timeout 300
"""

SECONDS = 1.0
HIDE, SHOW = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""A screen of its own without line wrap, so that what stood on the terminal comes back."""
HOME, END_OF_LINE, REST = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command(epilog=EXAMPLES)
@click.argument("name")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=0.0,
    help="End after so many seconds; 0 never.",
)
@click.option(
    "--until",
    type=click.Choice([word.value for word in RolloutWord], case_sensitive=False),
    metavar="WORD",
    help="End once the rollout of the spec as it is now is at this word of status.rollout: Idle, RolledBack or another"
    " that docs/reference/conditions.md lists.",
)
@in_cluster
async def watch(cluster: Cluster, *, name: str, timeout: float, until: str | None) -> None:  # noqa: ASYNC109 - the user's own
    """Show the status as it changes.

    With --until, exits with 1 if the rollout ended otherwise (RolledBack, Refused, Aborted, Undone), or if the time is
    up before it got there.
    """
    live = sys.stdout.isatty()
    if live:
        click.echo(HIDE, nl=False)
    try:
        await _followed(cluster, name, cluster.now() + timeout if timeout else float("inf"), until, live=live)
    except (KeyboardInterrupt, asyncio.CancelledError):
        pass  # how a watch ends
    finally:
        if live:
            click.echo(SHOW, nl=False)


async def _followed(cluster: Cluster, name: str, deadline: float, until: str | None, *, live: bool) -> None:
    before: Picture | None = None
    while True:
        picture = await _seen(cluster, name) or before
        if picture is not None:
            _shown(before, picture, cluster.now(), live=live)
        word = picture.server.status.rollout if picture and _of_now(picture) else ""
        if until and word == until:
            return
        if until and word in FAILED_ENDS:
            raise FailedError(f"the rollout of {name} ended: {word}, not {until}")
        if cluster.now() >= deadline:
            if until:
                raise FailedError(
                    f"the rollout of {name} is {word or 'not known'}, not {until}, and the time is up"
                )
            return
        before = picture
        await cluster.sleep(SECONDS)


def _of_now(picture: Picture) -> bool:
    """Whether the status speaks of the spec and of the last request, not of the ones before."""
    from specdec.controller.observe import REQUEST
    from specdec.rollout.requests import mark

    server = picture.server
    asked = server.metadata.get("annotations", {}).get(REQUEST, "")
    answered = not asked or server.status.last_handled_request == mark(asked)
    return answered and server.status.observed_generation >= server.generation


async def _seen(cluster: Cluster, name: str) -> Picture | None:
    """Look once; an API server that is away for a moment does not end a watch."""
    from specdec.cli.picture import looked
    from specdec.controller.kube import KubeError

    try:
        return await looked(cluster, name)
    except KubeError as error:
        if 0 < error.status < 500:
            raise
        click.echo(f"{error}; trying again", err=True)
        return None


def _shown(before: Picture | None, picture: Picture, now: float, *, live: bool) -> None:
    from specdec.rollout.clock import text

    if live:
        click.echo(_redrawn(picture, now), nl=False, color=True)
        return
    for line in news(before, picture, text(now)):
        click.echo(line)
    sys.stdout.flush()


def _redrawn(picture: Picture, now: float) -> str:
    """Draw over the last screen, cut to the terminal: without clearing first it does not flicker."""
    import shutil

    from specdec.cli.screen import screen

    _, rows = shutil.get_terminal_size()
    lines = screen(picture, now)[: rows - 1]
    return HOME + "".join(f"{line}{END_OF_LINE}\n" for line in lines) + REST


def news(before: Picture | None, picture: Picture, now: str) -> Iterator[str]:
    """Say in plain lines what is new since the last look; times are UTC."""
    told = set(before.events) if before else set(picture.events[:-3])
    for event in picture.events:
        if event not in told:
            yield f"{event.at[11:19]} event   {event.type:<7} {event.reason:<18} {event.message}"
    if before is None or _words(before) != _words(picture):
        yield f"{now[11:19]} status  {_words(picture)}"


def _words(picture: Picture) -> str:
    """Say in a line how the server stands."""
    status = picture.server.status
    wanted = 1 if picture.server.spec.replicas is None else picture.server.spec.replicas
    shown = status.acceptance
    parts = [
        f"{status.phase or 'Unseen'} {status.rollout}".strip(),
        f"{status.ready_replicas}/{wanted} ready",
        f"active {status.active.version or '-'}" if status.active else "active -",
        f"candidate {status.candidate.version}" if status.candidate else "",
        f"accept length {shown.accept_length or '-'} ({shown.message})" if shown else "",
    ]
    return ", ".join(part for part in parts if part)
