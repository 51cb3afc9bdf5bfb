"""`kubectl specdec plan -f FILE`: what would happen if a file were applied, from the operator's own planner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import click

from specdec.cli.cluster import NO, Cluster, UnaskedError, in_cluster
from specdec.cli.output import dumped, output_option, structured

if TYPE_CHECKING:
    from specdec.api.v1alpha1 import SpecDecodeServer
    from specdec.cli.foretell import Foretold
    from specdec.controller.store import Store
    from specdec.rollout.world import Settings

Manifest = dict[str, Any]

EXAMPLES = """\b
Examples:
  kubectl specdec plan -f kimi.yaml
  helm template . | kubectl specdec plan -f -
"""

DEFAULT_IMAGE = "(the operator's default image)"


@click.command(epilog=EXAMPLES)
@click.option(
    "-f", "--filename", "file", required=True, type=click.File(), help="YAML or JSON; - reads standard input."
)
@click.option(
    "--default-image",
    default="",
    metavar="IMAGE",
    help="The operator's default engine image, where neither file nor cluster shows it.",
)
@output_option()
@in_cluster
async def plan(cluster: Cluster, *, file: IO[str], default_image: str, output: str | None) -> None:
    """Say what would happen if a file were applied. Nothing is changed.

    The file is admitted by the API server (a dry run), the engines' agents are asked through it (the right to get
    pods/proxy; without it the engines' part is left out), and the operator's own planner decides.
    Exits with 1 if the file would not come to serve.
    """
    answers = [await _foretold(cluster, document, default_image) for document in documents(file)]
    if structured(output):
        from dataclasses import asdict

        click.echo(
            dumped([asdict(answer) | {"course": answer.course.value} for answer in answers], output), nl=False
        )
    else:
        click.echo("\n\n".join("\n".join(lines(answer)) for answer in answers))
    if any(answer.refused for answer in answers):
        raise click.exceptions.Exit(NO)


def documents(file: IO[str]) -> list[Manifest]:
    """Read the servers of a file; other objects are none of our business."""
    import yaml

    from specdec.api.base import KIND

    try:
        read = [item for item in yaml.safe_load_all(file) if isinstance(item, dict)]
    except yaml.YAMLError as error:
        raise UnaskedError(f"{file.name} is not YAML: {' '.join(str(error).split())}") from error
    found = [item for item in read if item.get("kind") == KIND]
    if not found:
        raise UnaskedError(f"{file.name} has no {KIND}")
    nameless = [item for item in found if not item.get("metadata", {}).get("name")]
    if nameless:
        raise UnaskedError(f"{file.name} has a {KIND} without metadata.name")
    return found


async def _foretold(cluster: Cluster, document: Manifest, default_image: str) -> Foretold:
    from specdec.api.v1alpha1 import SpecDecodeServer
    from specdec.cli.foretell import Change, foretold
    from specdec.controller.clock import Clock
    from specdec.controller.kinds import POD
    from specdec.controller.snapshot import heard, observed_world, snapshot
    from specdec.resources.labels import is_engine
    from specdec.rollout import plan as planner

    metadata = document["metadata"]
    key = (metadata.get("namespace") or cluster.namespace, metadata["name"])
    store = await snapshot(cluster.kube, key)
    standing = store.server(key)
    wished = await _admitted(cluster, document, standing, key)
    server = SpecDecodeServer.model_validate(wished)
    said = await heard(cluster.kube, store, key, Clock(now=cluster.now))
    settings, assumed = settings_of(store, server, default_image)
    seen = await observed_world(cluster.kube, server, store, said, settings)
    silent = [
        pod["metadata"]["name"]
        for pod in store.children(POD, key)
        if is_engine(pod) and pod["metadata"]["uid"] not in said
    ]
    unheard = (
        (f"the agents of {', '.join(silent)} did not answer: what they would be told is not shown",)
        if silent
        else ()
    )
    made = planner.plan(seen, {}, cluster.now())
    before = standing["spec"] if standing else None
    return foretold(Change(before, wished["spec"], seen, made, store, cluster.now(), (*unheard, *assumed)))


async def _admitted(
    cluster: Cluster, document: Manifest, standing: Manifest | None, key: tuple[str, str]
) -> Manifest:
    """Let the API server fill in defaults and check the rules, without storing anything."""
    from specdec.controller.kinds import SPEC_DECODE_SERVER

    kind, namespace = SPEC_DECODE_SERVER, key[0]
    spec = dict(document.get("spec") or {})
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    if standing is None:
        metadata = {**document["metadata"], "namespace": namespace}
        made = await cluster.kube.create(
            kind, namespace, {**head, "metadata": metadata, "spec": spec}, dry_run=True
        )
        # The owner references of what would be created carry it.
        return {**made, "metadata": {"uid": "", "generation": 1, **made["metadata"]}}
    if "replicas" in standing["spec"]:
        spec.setdefault(
            "replicas", standing["spec"]["replicas"]
        )  # an apply leaves an autoscaler's number alone
    manifest = {**head, "metadata": standing["metadata"], "spec": spec}
    wished = await cluster.kube.replace(kind, namespace, manifest, dry_run=True)
    return {**wished, "status": standing.get("status", {})}


def settings_of(
    store: Store, server: SpecDecodeServer, default_image: str
) -> tuple[Settings, tuple[str, ...]]:
    """Guess the operator's settings from what it has made, and say what was guessed."""
    from specdec.controller.kinds import CONFIG_MAP, CONTROLLER_REVISION
    from specdec.resources import launch_plan_of
    from specdec.rollout.world import Settings

    key = (server.namespace, server.name)
    plans = [launch_plan_of(item) for item in store.children(CONFIG_MAP, key)]
    image, assumed = server.spec.engine.image or default_image, []
    if not image:
        standing = store.server(key)
        revisions = sorted(store.children(CONTROLLER_REVISION, key), key=lambda item: int(item["revision"]))
        named = standing is None or "image" in standing["spec"].get("engine", {})
        image = DEFAULT_IMAGE if named or not revisions else str(revisions[-1]["data"]["image"])
        if image == DEFAULT_IMAGE:
            assumed.append("which image is the operator's default; --default-image says it")
    known = {str(item["data"].get("image")) for item in store.children(CONTROLLER_REVISION, key)}
    if server.spec.engine.image and image not in known:
        assumed.append("whether the operator allows this image's prefix")
    return Settings(image, (image,), plans[0].public_keys if plans else ()), tuple(assumed)


def lines(answer: Foretold) -> Iterator[str]:
    """Lay out an answer for people."""
    colour = {"Blocked": "red", "Refused": "red", "Held": "yellow", "Restart": "yellow"}.get(
        answer.course.value, "green"
    )
    yield f"{click.style(answer.course.value, fg=colour, bold=True)}  {answer.server}: {answer.sentence}"
    yield f"  {'revision':<12}{answer.revision}" + (f" ({answer.version})" if answer.version else "")
    parts = (
        ("changes", answer.changes),
        ("then", answer.further),
        ("first pass", answer.first),
        ("not known", answer.unknown),
    )
    for title, items in parts:
        for number, item in enumerate(items):
            yield f"  {'' if number else title:<12}{item}"
