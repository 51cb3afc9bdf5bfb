"""The cluster as a person at a terminal reaches it: options as kubectl has them, errors of one sentence, exit codes.

0 is yes or done. 1 is the cluster's no: not found, refused, different, not in time. 2 is that it could not be asked:
a wrong command line, no connection, a missing right.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from specdec.cli.where import where_options

if TYPE_CHECKING:
    from specdec.controller.kube import Kube, KubeError

NO, UNASKED = 1, 2
"""Exit codes besides 0."""

REFUSALS = frozenset({400, 404, 409, 422})
"""HTTP answers that are the cluster's no."""


class FailedError(click.ClickException):
    """The cluster's no, in one sentence."""

    exit_code = NO


class UnaskedError(FailedError):
    """The cluster could not be asked, or the question makes no sense."""

    exit_code = UNASKED


@dataclass(frozen=True)
class Where:
    """Which cluster and namespace a person means."""

    namespace: str = ""
    """"" is the context's own."""
    context: str = ""
    kubeconfig: str = ""


@dataclass
class Cluster:
    """A connection, and where in the cluster a command looks."""

    kube: Kube
    namespace: str
    now: Callable[[], float] = field(default=time.time)
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)


async def connect(where: Where) -> Cluster:
    """Connect as the kubeconfig says, its credential plugins included."""
    from kubernetes.aio import client, config

    from specdec.controller.connection import Connection
    from specdec.controller.kube import Caller, Kube

    file = where.kubeconfig or None
    configuration = client.Configuration()
    try:
        await config.load_kube_config(file, where.context or None, configuration)
        contexts, current = config.list_kube_config_contexts(file)
    except (config.ConfigException, OSError, ValueError) as error:
        raise UnaskedError(f"no cluster is configured: {_first_line(error)}") from error
    if where.context:
        current = next(item for item in contexts if item["name"] == where.context)
    namespace = where.namespace or current["context"].get("namespace") or "default"
    you = Caller("kubectl-specdec", "you", "ask whoever grants roles in this cluster")
    return Cluster(Kube(Connection(client.ApiClient(configuration)), you), namespace)


def in_cluster(function: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Give a command kubectl's options and a connection, and put its errors into one sentence."""

    @where_options
    @functools.wraps(function)
    def command(*, namespace: str, context: str, kubeconfig: str, **given: Any) -> None:
        asyncio.run(_called(Where(namespace, context, kubeconfig), function, given))

    return command


async def _called(where: Where, function: Callable[..., Awaitable[None]], given: dict[str, Any]) -> None:
    cluster = await connect(where)
    from specdec.controller.kube import KubeError

    try:
        await function(cluster, **given)
    except KubeError as error:
        raise _worded(error) from error
    finally:
        await cluster.kube.close()


def _worded(error: KubeError) -> FailedError:
    return FailedError(str(error)) if error.status in REFUSALS else UnaskedError(str(error))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
