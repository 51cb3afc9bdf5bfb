"""The entry point; kubectl finds it as `kubectl-specdec`."""

from __future__ import annotations

import gc
import importlib

import click
from typing_extensions import override

SECTIONS: dict[str, dict[str, str]] = {
    "See": {
        "status": "Say how a server stands: revisions, acceptance against its limit, last events.",
        "watch": "Show the status as it changes.",
        "history": "List a server's revisions and what became of each.",
        "diff": "Show how two revisions differ.",
        "plan": "Say what would happen if a file were applied.",
        "report": "Draw a server's rollouts into a picture.",
    },
    "Decide": {
        "undo": "Return to an earlier revision.",
        "promote": "Make the candidate the active revision now.",
        "abort": "Take the candidate back.",
        "retry": "Give a rejected revision another trial.",
        "pause": "Hold the rollout where it is.",
        "resume": "Let a held rollout go on.",
        "pin": "Serve one revision whatever the spec's drafter is.",
        "unpin": "Serve what the spec's drafter says again.",
        "drafting": "Switch drafting off or on.",
    },
    "Work on files": {
        "preflight": "Judge a drafter for a target and an SGLang version, by headers alone.",
        "convert": "Write a drafter as an SGLang version loads it, into a new folder.",
        "completion": "Print a shell's completion.",
    },
}
"""Commands and summaries as --help lists them; each is a function of the same name."""

COMMANDS = {name: summary for section in SECTIONS.values() for name, summary in section.items()}

MODULES = {
    "diff": "history",
    **dict.fromkeys(("undo", "promote", "abort", "retry"), "requests"),
    **dict.fromkeys(("pause", "resume", "pin", "unpin", "drafting"), "wishes"),
}
"""Modules of this package that are not named after their command."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"specdec.cli.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


EXAMPLES = """\b
Examples:
  kubectl specdec status kimi -n llm
  kubectl specdec plan -f kimi.yaml && kubectl apply -f kimi.yaml && kubectl specdec watch kimi
  kubectl specdec undo kimi
\b
Exit codes: 0 yes or done; 1 no: refused, different, not found, not in time; 2 it could not be asked or judged.
"""


@click.group(cls=LazyGroup, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="specdec-operator", prog_name="kubectl specdec")
def specdec() -> None:
    """See, decide and judge what the operator does with drafters for speculative decoding."""


def main() -> None:
    """Run the command line."""
    # A command lives for a second and makes no cycles; collecting would double its time on a large target.
    gc.disable()
    specdec(prog_name="kubectl specdec")
