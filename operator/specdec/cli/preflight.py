"""`kubectl specdec preflight`: works on files and needs no cluster; with a server's name it shows what its preflight found."""

from __future__ import annotations

import shlex
from dataclasses import replace
from difflib import get_close_matches

import click

from specdec.cli.layers import declared, layer_options
from specdec.cli.render import explained, formatted
from specdec.cli.sources import source_of
from specdec.cli.where import where_options
from specdec.preflight.arguments import Arguments, parsed, rendered
from specdec.preflight.facts import PLUGIN_PATCHES
from specdec.preflight.preflight import RepairMode, Request
from specdec.preflight.preflight import preflight as judge
from specdec.preflight.source import LocalFolder
from specdec.preflight.stories import STORIES, Story

EXAMPLES = """\b
Examples:
  kubectl specdec preflight kimi -n llm          what the last preflight of the server's drafter found
  kubectl specdec preflight --drafter drafters/v2 --target kimi-k2.5 --engine-version 0.5.23
  kubectl specdec preflight --explain ParametersNotFed
"""


@click.command(epilog=EXAMPLES)
@click.argument("name", required=False)
@click.option("--drafter", metavar="PATH|hf://ORG/NAME@REV", help="The drafter's folder or repository.")
@click.option("--target", metavar="PATH|hf://ORG/NAME@REV", help="The target's folder or repository.")
@click.option(
    "--engine-version", metavar="VERSION", help="SGLang version of the engine image, such as 0.5.23."
)
@click.option(
    "--steps", type=click.IntRange(1, 16), default=3, show_default=True, help="speculation.numSteps."
)
@click.option("--engine-args", metavar="ARGS", default="", help="Further engine arguments, in one string.")
@click.option("--argv", is_flag=True, help="--engine-args is the whole command line; nothing is added to it.")
@click.option("--env", "variables", metavar="NAME=VALUE", multiple=True, help="The engine's environment.")
@click.option(
    "--compute-capability",
    type=click.FloatRange(min=5),
    help="Of the GPUs, such as 9.0 for H200 and 10.0 for B200: attention backends depend on it.",
)
@click.option("--stock", is_flag=True, help="SGLang runs without this project's plugin.")
@click.option(
    "--repair",
    type=click.Choice([mode.value for mode in RepairMode], case_sensitive=False),
    default=RepairMode.AUTO.value,
    show_default=True,
    help="Whether what needs no change of weights is mended before judging.",
)
@layer_options
@click.option(
    "--target-name", default="", help="The target's public name, to compare with the drafter's base model."
)
@click.option("--skip", metavar="CODE", multiple=True, help="A finding that does not count.")
@click.option("--digest", is_flag=True, help="Also hash the drafter (every byte) and the target (headers).")
@click.option(
    "--output", "-o", type=click.Choice(["human", "json", "yaml"]), default="human", show_default=True
)
@click.option(
    "--explain",
    metavar="CODE",
    help="Tell the story of a finding, or what a reason of an engine means, and leave.",
)
@where_options
@click.pass_context
def preflight(ctx: click.Context, /, **given: object) -> None:  # fmt: skip
    """Judge a drafter for a target and an SGLang version, by headers alone; NAME shows a live server's last result.

    Exits with 0 if it passes, 1 if something blocks, 2 if something could not be judged.
    """
    options = Options(given)
    if code := options.text("explain"):
        click.echo(of_an_engine(code) or explained(_known(code, "--explain")), nl=False)
        return
    if name := options.text("name"):
        if options.text("drafter"):
            raise click.UsageError("give NAME or --drafter, not both")
        from specdec.cli.judged import live

        where = {key: options.text(key) for key in ("namespace", "context", "kubeconfig")}
        live(**where, name=name, output=options.text("output"))
        return
    if not options.text("drafter"):
        raise click.UsageError("give --drafter (and --target), a server's NAME, or --explain CODE")
    request = options.request()
    report = judge(request).report
    if given["digest"]:
        report = replace(report, digests=_digests(request))
    click.echo(formatted(report, options.text("output")), nl=False)
    ctx.exit(report.exit_code)


class Options:
    """What click parsed, as the library wants it."""

    def __init__(self, given: dict[str, object]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        """A string option; empty if it was not given."""
        return str(self._given.get(name) or "")

    def many(self, name: str) -> tuple[str, ...]:
        """A repeated option."""
        values = self._given.get(name)
        return tuple(str(value) for value in values) if isinstance(values, tuple) else ()

    def request(self) -> Request:
        """All of them."""
        target = self.text("target")
        return Request(
            drafter=source_of(self.text("drafter")),
            target=source_of(target) if target else None,
            version=self.text("engine_version"),
            arguments=self._arguments(),
            declared=declared(self.text("layers"), self.text("convention"), self.text("target_name")),
            compute_capability=self._compute_capability(),
            patches=frozenset() if self._given["stock"] else PLUGIN_PATCHES,
            repair=RepairMode(self.text("repair")),
            skip=frozenset(_known(code, "--skip").code for code in self.many("skip")),
        )

    def _arguments(self) -> Arguments:
        try:
            words = tuple(shlex.split(self.text("engine_args")))
        except ValueError as error:
            raise click.BadParameter(
                f"it can't be split into words ({error})", param_hint="--engine-args"
            ) from error
        environment = dict(_pair(variable) for variable in self.many("variables"))
        if self._given["argv"]:
            return Arguments(parsed(words), environment)
        return rendered(words, environment, steps=int(self.text("steps")))

    def _compute_capability(self) -> int | None:
        given = self._given["compute_capability"]
        return int(given) if isinstance(given, float) else None


def _pair(variable: str) -> tuple[str, str]:
    name, equals, value = variable.partition("=")
    if not equals:
        raise click.BadParameter(f"{variable} is not NAME=VALUE", param_hint="--env")
    return name, value


def _digests(request: Request) -> dict[str, str]:
    """Every byte of a drafter, headers and sizes of a target; a repository's commit says both for nothing."""
    from specdec.preflight.checkpoint import CheckpointRefusedError
    from specdec.preflight.digest import content_digest, header_digest

    found = {}
    for name, source, hashed in (
        ("drafter", request.drafter, content_digest),
        ("target", request.target, header_digest),
    ):
        if isinstance(source, LocalFolder):
            try:
                found[name] = hashed(source.folder)
            except (CheckpointRefusedError, OSError) as error:
                found[name] = f"none ({error})"
        elif source is not None:
            found[name] = source.label
    return found


def of_an_engine(code: str) -> str:
    """Tell a reason that only engines give, whatever its case; "" for any other."""
    from specdec.engine.reasons import REASONS

    told = {reason.lower(): (reason, meaning) for reason, meaning in REASONS.items() if reason not in STORIES}
    if code.lower() not in told:
        return ""
    reason, meaning = told[code.lower()]
    return (
        f"{click.style(reason, bold=True)} (of an engine; docs/reference/conditions.md has all)\n{meaning}\n"
    )


def _known(code: str, option: str) -> Story:
    """Find a code's story, whatever the case."""
    story = next((story for story in STORIES.values() if story.code.lower() == code.lower()), None)
    if story is None:
        near = get_close_matches(code.lower(), [key.lower() for key in STORIES], 1)
        meant = next((f": is {key} meant?" for key in STORIES if key.lower() in near), "")
        lists = (
            "; docs/reference/preflight.md lists them, docs/reference/conditions.md the reasons of engines"
        )
        said = f"no finding is called {code}{meant or lists}"
        raise click.BadParameter(said, param_hint=option)
    return story
