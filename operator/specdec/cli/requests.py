"""`kubectl specdec undo | promote | abort | retry`: one request to the operator, and its answer.

The request is the annotation specdec.dev/request: VERB@REVISION@NONCE; the operator answers in the status.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from specdec.cli.cluster import Cluster, FailedError, UnaskedError, in_cluster

if TYPE_CHECKING:
    from specdec.cli.picture import Picture

LOOK_SECONDS = 0.25
Function = Callable[..., Any]


def waiting(function: Function) -> Function:
    """The option --timeout of commands that wait for the operator's answer."""
    return click.option(
        "--timeout",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        default=30.0,
        show_default=True,
        help="How long to wait for the operator's answer; 0 does not wait.",
    )(function)


def examples(verb: str, more: str) -> str:
    """Examples of one verb's help."""
    return f"\b\nExamples:\n  kubectl specdec {verb} kimi\n  kubectl specdec {verb} kimi {more}\n"


@click.command(epilog=examples("undo", "--to-revision 3"))
@click.argument("name")
@click.option(
    "--to-revision",
    default="",
    metavar="REVISION",
    help="Number, name or drafter version; the last good one before if left out.",
)
@waiting
@in_cluster
async def undo(cluster: Cluster, *, name: str, to_revision: str, timeout: float) -> None:  # noqa: ASYNC109 - the user's own
    """Return to an earlier revision, in place where that can be.

    The spec stays as it is: its drafter is refused until it changes, or until you say retry.
    """
    from specdec.cli.picture import chosen, looked

    picture = await looked(cluster, name)
    to = chosen(picture, to_revision).name if to_revision else earlier(picture)
    await asked(cluster, picture, "undo", to, timeout)


@click.command(epilog=examples("promote", "v3"))
@click.argument("name")
@click.argument("revision", required=False)
@waiting
@in_cluster
async def promote(cluster: Cluster, *, name: str, revision: str | None, timeout: float) -> None:  # noqa: ASYNC109
    """Make the candidate the active revision now, whatever the judge still waits for."""
    await _of_candidate(cluster, name, "promote", revision, timeout)


@click.command(epilog=examples("abort", "v3"))
@click.argument("name")
@click.argument("revision", required=False)
@waiting
@in_cluster
async def abort(cluster: Cluster, *, name: str, revision: str | None, timeout: float) -> None:  # noqa: ASYNC109
    """Take the candidate back and refuse it until you say retry."""
    await _of_candidate(cluster, name, "abort", revision, timeout)


@click.command(epilog=examples("retry", "v3"))
@click.argument("name")
@click.argument("revision", required=False)
@waiting
@in_cluster
async def retry(cluster: Cluster, *, name: str, revision: str | None, timeout: float) -> None:  # noqa: ASYNC109
    """Give a rejected revision another trial; the spec's own if none is named."""
    from specdec.cli.picture import chosen, looked

    picture = await looked(cluster, name)
    record = chosen(picture, revision) if revision else picture.desired
    if record is None:
        raise FailedError(f"{picture.named} has no revisions yet")
    await asked(cluster, picture, "retry", record.name, timeout)


async def _of_candidate(cluster: Cluster, name: str, verb: str, revision: str | None, seconds: float) -> None:
    from specdec.cli.picture import chosen, looked

    picture = await looked(cluster, name)
    candidate = picture.server.status.candidate
    if revision is None and candidate is None:
        raise FailedError(f"{picture.named} has no candidate now; name a revision")
    named = chosen(picture, revision).name if revision else candidate.revision if candidate else ""
    await asked(cluster, picture, verb, named, seconds)


def earlier(picture: Picture) -> str:
    """Choose what undo returns to: promoted last, not the spec's own, and not what serves if the spec's own was left."""
    from specdec.rollout.aim import last_good
    from specdec.rollout.quarantine import rejected

    active, wished = picture.server.status.active, picture.desired
    taken = {wished.name if wished else ""}
    if active and rejected(wished):
        taken.add(active.revision)
    good = last_good(tuple(record for record in picture.records if record.name not in taken))
    if good is None:
        raise FailedError(f"{picture.named} has no earlier revision that was promoted; give --to-revision")
    return good.name


async def asked(cluster: Cluster, picture: Picture, verb: str, revision: str, seconds: float) -> None:
    """Post a request, wait for its answer and print it; a refusal is the command's no."""
    from specdec.controller.kinds import SPEC_DECODE_SERVER
    from specdec.controller.observe import REQUEST
    from specdec.rollout.requests import refusal

    text = f"{verb}@{revision}@{secrets.token_hex(4)}"
    changes = {"metadata": {"annotations": {REQUEST: text}}}
    await cluster.kube.merge(SPEC_DECODE_SERVER, picture.server.namespace, picture.server.name, changes)
    if not seconds:
        click.echo(f"asked: {verb} {revision}")
        return
    answer = await _answered(cluster, picture, text, seconds)
    if answer.startswith(refusal(verb, "")):
        raise FailedError(answer)
    click.echo(answer or f"{verb}: done")


async def _answered(cluster: Cluster, picture: Picture, text: str, seconds: float) -> str:
    from specdec.cli.picture import server

    deadline = cluster.now() + seconds
    while True:
        status = (await server(cluster, picture.server.name)).get("status", {})
        if status.get("lastHandledRequest") == text:
            return str(status.get("lastAnswer", ""))
        if cluster.now() >= deadline:
            verb = text.partition("@")[0]
            raise UnaskedError(
                f"no operator answered {verb} within {seconds:g} s; it stays asked for, and is acted upon once one runs"
            )
        await cluster.sleep(LOOK_SECONDS)
