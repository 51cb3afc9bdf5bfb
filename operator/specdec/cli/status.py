"""`kubectl specdec status`: how servers stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from specdec.cli.cluster import Cluster, in_cluster
from specdec.cli.output import dumped, output_option, structured

if TYPE_CHECKING:
    from specdec.cli.picture import Picture

EXAMPLES = """\b
Examples:
  kubectl specdec status                  one line for each server of the namespace
  kubectl specdec status kimi -n llm      one screen
  kubectl specdec status kimi -o wide     and each engine, as its agent describes it (needs pods/proxy)
  kubectl specdec status kimi -o json     the same for programs
  kubectl specdec status -A -o wide       all namespaces, more columns
"""


@click.command(epilog=EXAMPLES)
@click.argument("name", required=False)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Servers of all namespaces.")
@output_option("wide")
@in_cluster
async def status(cluster: Cluster, *, name: str | None, everywhere: bool, output: str | None) -> None:
    """Say how a server stands: replicas, revisions, acceptance against its limit, conditions, last events."""
    if name is None:
        await _all(cluster, everywhere=everywhere, output=output)
        return
    if everywhere:
        raise click.UsageError("give NAME or -A, not both")
    from specdec.cli.picture import looked
    from specdec.cli.screen import screen

    picture = await looked(cluster, name)
    if structured(output):
        click.echo(dumped(_data(picture), output), nl=False)
    else:
        click.echo("\n".join(screen(picture, cluster.now())))
        if output == "wide":
            await _engines(cluster, picture)


def _data(picture: Picture) -> dict[str, Any]:
    """For programs: the status as the API has it, and the last events."""
    return {
        "namespace": picture.server.namespace,
        "name": picture.server.name,
        "generation": picture.server.generation,
        "status": picture.manifest.get("status", {}),
        "events": [vars(event) for event in picture.events],
    }


async def _engines(cluster: Cluster, picture: Picture) -> None:
    """Ask the agents through the API server."""
    from specdec.cli.screen import engines
    from specdec.controller.clock import Clock
    from specdec.controller.kinds import POD
    from specdec.controller.observe import pod_view
    from specdec.controller.snapshot import heard, snapshot
    from specdec.resources.labels import is_engine

    key = (picture.server.namespace, picture.server.name)
    store = await snapshot(cluster.kube, key)
    said = await heard(cluster.kube, store, key, Clock(now=cluster.now))
    pods = [
        pod_view(pod, said.get(pod["metadata"]["uid"])) for pod in store.children(POD, key) if is_engine(pod)
    ]
    click.echo("\n".join(engines(pods, picture, cluster.now())))


async def _all(cluster: Cluster, *, everywhere: bool, output: str | None) -> None:
    from specdec.cli.output import table
    from specdec.controller.kinds import SPEC_DECODE_SERVER

    listed = await cluster.kube.list(SPEC_DECODE_SERVER, "" if everywhere else cluster.namespace)
    if structured(output):
        kept = [{**item["metadata"], "status": item.get("status", {})} for item in listed]
        data = [{key: item[key] for key in ("namespace", "name", "generation", "status")} for item in kept]
        click.echo(dumped(data, output), nl=False)
        return
    if not listed:
        click.echo(
            f"No servers in {'any namespace' if everywhere else f'namespace {cluster.namespace}'}.", err=True
        )
        return
    wide = output == "wide"
    head = ("NAMESPACE",) * everywhere + (
        "NAME",
        "READY",
        "DRAFTER",
        "ACCEPT-LEN",
        "ROLLOUT",
        "REASON",
        "AGE",
    )
    more = ("CANDIDATE", "LAST-GOOD", "ENGINE", "TARGET") * wide
    rows = [_row(item, cluster.now(), everywhere=everywhere, wide=wide) for item in listed]
    click.echo("\n".join(table((*head, *more), rows)))


def _row(item: dict[str, Any], now: float, *, everywhere: bool, wide: bool) -> tuple[str, ...]:
    from specdec.cli.output import age

    metadata, spec, said = item["metadata"], item["spec"], item.get("status", {})
    places = {
        place: said.get(place, {}).get("version") or "-" for place in ("active", "candidate", "lastGood")
    }
    cells = (
        metadata["name"],
        f"{said.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        places["active"],
        said.get("acceptance", {}).get("acceptLength") or "-",
        said.get("rollout") or "-",
        said.get("reason") or "-",
        age(metadata.get("creationTimestamp", ""), now),
    )
    more = (places["candidate"], places["lastGood"], said.get("engine") or "-", spec["target"]["model"])
    return (metadata["namespace"],) * everywhere + cells + more * wide
