"""Kubectl's options that say which cluster and namespace are meant; apart from what connects, which takes longer to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


def where_options(command: Function) -> Function:
    """The options that say which cluster and namespace, as kubectl has them."""
    for option in (
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="Kubeconfig; KUBECONFIG or ~/.kube/config if left out.",
        ),
        click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig."),
        click.option(
            "-n", "--namespace", default="", metavar="NAME", help="Namespace; the context's own if left out."
        ),
    ):
        command = option(command)
    return command
