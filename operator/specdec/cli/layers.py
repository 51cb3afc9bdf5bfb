"""What a person says of the layers that a drafter was trained on: two options of two commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from specdec.preflight.facts import Convention, Declared

Command = TypeVar("Command", bound=Callable[..., object])


def layer_options(command: Command) -> Command:
    """Add --layers and --convention; the spec has both as drafter.layers."""
    ids = click.option(
        "--layers", metavar="N,N,N", default="",
        help="Layers that the drafter was trained on, if its config is silent or wrong (drafter.layers.ids).",
    )  # fmt: skip
    convention = click.option(
        "--convention",
        type=click.Choice([one.value for one in Convention], case_sensitive=False),
        help="What layer ids count: outputs of layers, or their inputs (drafter.layers.convention).",
    )
    return ids(convention(command))


def declared(layers: str, convention: str, target_name: str = "") -> Declared:
    """Read the options.

    Raises
    ------
    BadParameter
        The layers are no rising list of numbers.
    """
    try:
        ids = tuple(int(layer) for layer in layers.split(",")) if layers else None
    except ValueError as error:
        raise click.BadParameter(f"{layers} is no list such as 2,30,58", param_hint="--layers") from error
    if ids is not None and list(ids) != sorted(set(ids)):
        raise click.BadParameter(f"{layers} does not rise, as 2,30,58 does", param_hint="--layers")
    return Declared(ids, Convention(convention) if convention else None, target_name)
