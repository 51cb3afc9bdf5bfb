"""`kubectl specdec pause | resume | pin | unpin | drafting`: decisions that last are fields of the spec, set as you."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from specdec.cli.cluster import Cluster, in_cluster

if TYPE_CHECKING:
    from specdec.cli.picture import Manifest

GITOPS = "\b\nWhere the object comes from a repository, set the field there: a sync would undo this.\n\n"


def epilog(*examples: str) -> str:
    """Examples, and what a repository would do."""
    return GITOPS + "\b\nExamples:\n" + "".join(f"  kubectl specdec {example}\n" for example in examples)


@click.command(epilog=epilog("pause kimi"))
@click.argument("name")
@in_cluster
async def pause(cluster: Cluster, *, name: str) -> None:
    """Hold the rollout where it is (rollout.paused); a failing candidate still goes back."""
    await _set(cluster, name, {"rollout": {"paused": True}}, "rollout.paused is true")


@click.command(epilog=epilog("resume kimi"))
@click.argument("name")
@in_cluster
async def resume(cluster: Cluster, *, name: str) -> None:
    """Let a held rollout go on."""
    await _set(cluster, name, {"rollout": {"paused": None}}, "rollout.paused is false")


@click.command(epilog=epilog("pin kimi v2", "pin kimi 3"))
@click.argument("name")
@click.argument("revision")
@in_cluster
async def pin(cluster: Cluster, *, name: str, revision: str) -> None:
    """Serve one revision whatever the spec's drafter is and whatever the judge says (rollout.pinnedRevision)."""
    from specdec.cli.picture import chosen, looked

    record = chosen(await looked(cluster, name), revision)
    wish = {"rollout": {"pinnedRevision": record.name}}
    await _set(cluster, name, wish, f"rollout.pinnedRevision is {record.name}")


@click.command(epilog=epilog("unpin kimi"))
@click.argument("name")
@in_cluster
async def unpin(cluster: Cluster, *, name: str) -> None:
    """Serve what the spec's drafter says again."""
    wish = {"rollout": {"pinnedRevision": None}}
    await _set(cluster, name, wish, "rollout.pinnedRevision is removed")


@click.command(epilog=epilog("drafting kimi off", "drafting kimi on"))
@click.argument("name")
@click.argument("wish", type=click.Choice(["on", "off"]))
@in_cluster
async def drafting(cluster: Cluster, *, name: str, wish: str) -> None:
    """Switch drafting off, or on again where the judge lets it (drafting: Off | Auto)."""
    value = {"on": "Auto", "off": "Off"}[wish]
    await _set(cluster, name, {"drafting": value}, f"drafting is {value}")


async def _set(cluster: Cluster, name: str, spec: Manifest, said: str) -> None:
    """Patch the spec, and say whether that changed anything."""
    from specdec.cli.picture import server
    from specdec.controller.kinds import SPEC_DECODE_SERVER

    before = await server(cluster, name)
    after = await cluster.kube.merge(SPEC_DECODE_SERVER, cluster.namespace, name, {"spec": spec})
    same = _without_empty(before["spec"]) == _without_empty(after["spec"])
    click.echo(f"{name} in {cluster.namespace}: {said}{' already' if same else ''}")


def _without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {key: _without_empty(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item != {}}
