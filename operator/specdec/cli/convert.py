"""`kubectl specdec convert`: a mended copy for use elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from specdec.cli.layers import declared, layer_options
from specdec.cli.render import human
from specdec.cli.sources import source_of
from specdec.preflight.convert import ConvertRefusedError
from specdec.preflight.convert import convert as write
from specdec.preflight.preflight import Request, preflight
from specdec.preflight.repair import Into
from specdec.preflight.source import UnreadableError


@click.command()
@click.option("--drafter", required=True, metavar="PATH|hf://ORG/NAME@REV", help="The drafter to convert.")
@click.option("--target", required=True, metavar="PATH|hf://ORG/NAME@REV", help="The target that it is for.")
@click.option("--engine-version", required=True, metavar="VERSION", help="SGLang version that shall load it.")
@layer_options
@click.option(
    "--to",
    "destination",
    required=True,
    type=click.Path(path_type=Path),
    help="A folder that does not exist.",
)
@click.pass_context
def convert(
    ctx: click.Context,
    *,
    drafter: str,
    target: str,
    engine_version: str,
    layers: str,
    convention: str | None,
    destination: Path,
) -> None:
    """Write a drafter as an SGLang version loads it, into a new folder.

    The source is never touched and nothing is overwritten. Weights are copied as they are: only names, the token
    map and the config change. Writes nothing if something blocks that no repair mends (exits with 1) or could not be judged (2).
    """
    source = source_of(drafter)
    said = declared(layers, convention or "")
    request = Request(
        source, source_of(target), engine_version, declared=said, into=Into.FILES, patches=frozenset()
    )
    outcome = preflight(request)
    click.echo(human(outcome.report), nl=False)
    if outcome.report.exit_code:
        ctx.exit(outcome.report.exit_code)
    try:
        files = write(source, outcome.mended, destination)
    except (ConvertRefusedError, UnreadableError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"\nWrote {', '.join(path.name for path in files)} into {destination}.")
