"""The entry point; kubectl finds it as `kubectl-specdec`."""

from __future__ import annotations

import gc
import importlib

import click
from typing_extensions import override

COMMANDS = {
    "preflight": "Judge a drafter for a target and an SGLang version, by headers alone.",
    "convert": "Write a drafter as an SGLang version loads it, into a new folder.",
}
"""Command and summary; each is a module of this package with a function of the same name."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"specdec.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="specdec-operator", prog_name="kubectl specdec")
def specdec() -> None:
    """Roll out, judge and mend drafters for speculative decoding."""


def main() -> None:
    """Run the command line."""
    # A command lives for a second and makes no cycles; collecting would double its time on a large target.
    gc.disable()
    specdec(prog_name="kubectl specdec")
