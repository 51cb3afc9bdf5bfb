"""What the preflight of a live server's drafter found: whole from an engine's agent, or as the operator keeps it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from specdec.cli.cluster import Cluster, UnaskedError, in_cluster
from specdec.cli.render import formatted

if TYPE_CHECKING:
    from specdec.cli.picture import Picture
    from specdec.preflight.report import Report
    from specdec.rollout.world import RevisionRecord


@in_cluster
async def live(cluster: Cluster, *, name: str, output: str) -> None:
    """Show the last result on the drafter that the spec asks for, and leave with its exit code."""
    from specdec.cli.picture import looked

    picture = await looked(cluster, name)
    record = picture.desired
    found = await _found(cluster, picture, record) if record else None
    if record is None or found is None:
        raise UnaskedError(f"there is no result for {picture.named}: {_why(picture)}")
    drafter = record.data.get("drafter") or {}
    named = replace(found, drafter=str(drafter.get("model", "")), target=str(record.data["target"]["model"]))
    click.echo(formatted(named, output), nl=False)
    raise click.exceptions.Exit(named.exit_code)


async def _found(cluster: Cluster, picture: Picture, record: RevisionRecord) -> Report | None:
    """Ask the engines for the whole report; the operator's record has what a status had room for."""
    from specdec.engine.protocol import PreflightResult
    from specdec.preflight.report import expanded

    whole = await _asked(cluster, picture, record)
    if whole is not None:
        return whole
    try:
        return expanded(PreflightResult.model_validate_json(record.preflight).report)
    except ValueError:
        return None


async def _asked(cluster: Cluster, picture: Picture, record: RevisionRecord) -> Report | None:
    from specdec.controller.kinds import POD
    from specdec.controller.kube import KubeError
    from specdec.engine.protocol import AGENT_PORT
    from specdec.preflight.report import read
    from specdec.resources.labels import is_engine

    server = picture.server
    pods = await cluster.kube.list(POD, server.namespace, f"{POD.label}={server.name}")
    for pod in filter(is_engine, pods):
        address = f"{pod['metadata']['name']}:{AGENT_PORT}"
        try:
            answer = await cluster.kube.proxied(POD, server.namespace, address, "preflight")
            return read(answer[record.name])
        except (KubeError, KeyError, ValueError):
            continue  # it does not answer, or has not judged this one since it was started
    return None


def _why(picture: Picture) -> str:
    from specdec.api.conditions import ConditionType, find

    said = find(picture.server.status.conditions, ConditionType.PREFLIGHT_PASSED)
    return said.message if said and said.message else "no operator has looked at it yet"
