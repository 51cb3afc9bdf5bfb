"""`kubectl specdec history` and `diff`: which revisions there were, what became of them, and how they differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from specdec.cli.cluster import NO, Cluster, in_cluster
from specdec.cli.output import dumped, output_option, structured

if TYPE_CHECKING:
    from specdec.cli.picture import Picture
    from specdec.rollout.world import RevisionRecord

HISTORY = """\b
Examples:
  kubectl specdec history kimi
  kubectl specdec history kimi -o wide     with digests and the evidence in a sentence
"""
DIFF = """\b
Examples:
  kubectl specdec diff kimi 3 4            by number
  kubectl specdec diff kimi v3 v4          by drafter version, where it is the only one
"""


@click.command(epilog=HISTORY)
@click.argument("name")
@output_option("wide")
@in_cluster
async def history(cluster: Cluster, *, name: str, output: str | None) -> None:
    """List a server's revisions and what became of each."""
    from specdec.cli.output import table
    from specdec.cli.picture import looked

    picture = await looked(cluster, name)
    if structured(output):
        click.echo(dumped([_data(picture, record) for record in picture.records], output), nl=False)
        return
    if not picture.records:
        click.echo(f"{picture.named} has no revisions yet.", err=True)
        return
    wide = output == "wide"
    head = ("NUMBER", "REVISION", "DRAFTER", "OUTCOME", "REASON", "ACCEPT-LEN", "REQUESTS", "AGE", "NOW")
    rows = [_row(picture, record, cluster.now(), wide=wide) for record in picture.records]
    click.echo("\n".join(table((*head, *("DIGEST", "EVIDENCE") * wide), rows)))


def _row(picture: Picture, record: RevisionRecord, now: float, *, wide: bool) -> tuple[str, ...]:
    from specdec.cli.output import age
    from specdec.rollout.revisions import version

    cells = (
        str(record.number),
        record.name,
        version(record) or "-",
        record.outcome or "-",
        record.reason or "-",
        record.accept_length or "-",
        str(record.requests) if record.requests else "-",
        age(record.at, now),
        ", ".join(places(picture, record)),
    )
    return cells + (record.digest[:19] or "-", record.message) * wide


def places(picture: Picture, record: RevisionRecord) -> Iterator[str]:
    """Say which places a revision holds now."""
    status = picture.server.status
    held = (("active", status.active), ("candidate", status.candidate), ("last good", status.last_good))
    yield from (word for word, place in held if place and place.revision == record.name)
    if picture.desired is record:
        yield "spec"


def _data(picture: Picture, record: RevisionRecord) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(record), "places": list(places(picture, record))}


@click.command(epilog=DIFF)
@click.argument("name")
@click.argument("revision")
@click.argument("other")
@in_cluster
async def diff(cluster: Cluster, *, name: str, revision: str, other: str) -> None:
    """Show how two revisions differ: image, engine inputs, target, drafter.

    Exits with 0 if they are equal and 1 if they differ, as `kubectl diff` does.
    """
    from specdec.cli.picture import chosen, looked

    picture = await looked(cluster, name)
    lines = list(differences(chosen(picture, revision), chosen(picture, other)))
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.secho(line, fg=colour, bold=line.startswith(("+++", "---")))
    if lines:
        raise click.exceptions.Exit(NO)


def differences(one: RevisionRecord, other: RevisionRecord) -> Iterator[str]:
    """Compare what two revisions are, as a unified diff of their YAML."""
    import difflib

    yield from difflib.unified_diff(
        dumped(one.data, "yaml").splitlines(),
        dumped(other.data, "yaml").splitlines(),
        f"{one.name} (number {one.number})",
        f"{other.name} (number {other.number})",
        lineterm="",
    )
