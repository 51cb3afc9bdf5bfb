"""`kubectl specdec report`: a picture of a server's rollouts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specdec.cli.cluster import Cluster, FailedError, UnaskedError, in_cluster
from specdec.cli.output import dumped, output_option, structured

if TYPE_CHECKING:
    from specdec.cli.picture import Picture

EXAMPLES = """\b
Examples:
  kubectl specdec report kimi                      writes kimi-rollouts.png
  kubectl specdec report kimi --to /tmp/kimi.png
  kubectl specdec report kimi -o json              the figures behind it
"""


@click.command(epilog=EXAMPLES)
@click.argument("name")
@click.option(
    "--to",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The picture's file; NAME-rollouts.png if left out.",
)
@output_option()
@in_cluster
async def report(cluster: Cluster, *, name: str, path: Path | None, output: str | None) -> None:
    """Draw a server's rollouts: accept length at each verdict, acceptance by position now, what was decided when.

    It draws what the cluster keeps: outcomes beside the revisions, and events for as long as Kubernetes keeps them
    (an hour by default). The course between verdicts is in Prometheus, from the engines' metrics.
    """
    from specdec.cli.picture import looked
    from specdec.cli.plots import draw, story

    picture = await looked(cluster, name)
    if structured(output):
        click.echo(dumped(_data(picture), output), nl=False)
        return
    if story(picture).empty:
        raise FailedError(
            f"{picture.named} has nothing to draw: no revision was judged by live traffic, and no event of a rollout is kept"
        )
    if importlib.util.find_spec("matplotlib") is None:
        raise UnaskedError(
            "drawing needs matplotlib: pip install 'specdec-operator[cli,report]'; -o json works without"
        )
    path = path or Path(f"{name}-rollouts.png")
    try:
        draw(picture, path)
    except OSError as error:
        raise UnaskedError(f"{path} can't be written: {error.strerror}") from error
    found = story(picture)
    click.echo(f"Wrote {path}: {len(found.judged)} judged revisions, {len(found.events)} events.")


def _data(picture: Picture) -> dict[str, Any]:
    from specdec.cli.plots import story
    from specdec.rollout.revisions import version

    found = story(picture)
    shown = picture.server.status.acceptance
    return {
        "server": f"{picture.server.namespace}/{picture.server.name}",
        "judged": [
            {
                "revision": record.name,
                "version": version(record),
                "outcome": record.outcome,
                "reason": record.reason,
                "at": record.at,
                "acceptLength": record.accept_length,
                "requests": record.requests,
                "verifyCalls": record.calls,
            }
            for record in found.judged
        ],
        "perPosition": list(shown.per_position) if shown else [],
        "events": [vars(event) for event in found.events],
    }
