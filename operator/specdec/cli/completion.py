"""`kubectl specdec completion`, and what kubectl itself asks for: `kubectl_complete-specdec WORDS...`."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

PROGRAM, VARIABLE = "kubectl-specdec", "_KUBECTL_SPECDEC_COMPLETE"
NO_FILES = ":4"
"""cobra's directive: no file names beside these."""

EXAMPLES = """\b
Examples:
  source <(kubectl specdec completion bash)
  kubectl specdec completion fish > ~/.config/fish/completions/kubectl-specdec.fish
"""


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell's completion of `kubectl-specdec`.

    kubectl (1.26 and newer) completes `kubectl specdec` by itself with the program kubectl_complete-specdec,
    which is installed beside this one.
    """
    from specdec.cli.main import specdec

    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"click has no completion for {shell}")
    click.echo(found(specdec, {}, PROGRAM, VARIABLE).source())


def words(arguments: list[str]) -> list[str]:
    """Complete the last of some words, as kubectl asks for it."""
    from click.shell_completion import ShellComplete

    from specdec.cli.main import specdec

    before, last = arguments[:-1], arguments[-1] if arguments else ""
    found = ShellComplete(specdec, {}, PROGRAM, VARIABLE).get_completions(before, last)
    return [
        f"{item.value}\t{item.help}" if item.help else str(item.value)
        for item in found
        if item.type == "plain"
    ]


def main() -> None:
    """Answer kubectl."""
    click.echo("\n".join([*words(sys.argv[1:]), NO_FILES]))
