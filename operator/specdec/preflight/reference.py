"""Writes the reference pages from the data that the code uses: `python -m specdec.preflight.reference [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from specdec.preflight.capabilities import POSTS, TABLE, Capabilities
from specdec.preflight.stories import LIVE, STORIES, Story

FOLDER = Path(__file__).parents[3] / "docs" / "reference"
NOTE = "<!-- Made by `python -m specdec.preflight.reference`; `make test-lint` checks that it is current. -->"

ROWS: tuple[tuple[str, str], ...] = (
    ("layer_names", "Layer names that load"),
    ("many_layers", "Llama drafter of several layers"),
    ("counts_ids", "`fc` follows the number of ids"),
    ("mla_drafter", "MLA drafter"),
    ("kimi_captures", "Kimi-K2.5 captures"),
    ("layer_ids", "Layer ids count (deepseek_v2)"),
    ("embedding_capture", "Embedding can be captured"),
    ("counts_captures", "Too few captures are an error"),
    ("fc_norm", "`fc_norm`"),
    ("norm_output", "`norm_output`"),
    ("norm_before_fc", "`norm_before_fc`"),
    ("draft_window", "`--speculative-draft-window-size`"),
    ("reduced_capture", "Captures are reduced under TP"),
    ("fusion_switch", "Switch for all-reduce fusion"),
    ("adaptive", "Adaptive steps"),
    ("zero_steps", "0 steps (drafting off)"),
    ("plugins", "Plugin group `sglang.srt.plugins`"),
    ("accept_rate", "`spec_accept_rate` of a useless drafter"),
    ("verify_counter", "`spec_verify_calls_total`"),
    ("ready_route", "`GET /ready`"),
    ("graph_flags_renamed", "`--cuda-graph-max-bs-decode`"),
    ("served", "**Run by the operator**"),
)
SHORT = {
    "PLUS_ONE": "outputs",
    "AS_WRITTEN": "inputs (outputs if the first is 1)",
    "WITH_BONUS": "1 / draft tokens",
    "STRICT": "0",
}


def cell(row: Capabilities, field: str) -> str:
    """One capability in a table's cell."""
    value = getattr(row, field)
    if isinstance(value, bool):
        return "yes" if value else "-"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}.*`" for item in value)
    return SHORT[value.name]


def capabilities_page() -> str:
    """Make the table of versions; equal neighbours share a column."""
    groups: list[list[Capabilities]] = []
    for row in TABLE.values():
        if groups and all(cell(groups[-1][0], field) == cell(row, field) for field, _ in ROWS):
            groups[-1].append(row)
        else:
            groups.append([row])
    names = [group[0].version + (f" - {group[-1].version}" if len(group) > 1 else "") for group in groups]
    lines = [
        "# What each SGLang version does with a drafter", "", NOTE, "",
        ("Every cell was read from that version's wheel on PyPI, and `make probes` proves it again on the source"
        " (no GPU, nothing is imported). A version that is not listed is unknown: the preflight says so and checks only"
        " what holds for all."), "",
        f"Post-releases {', '.join(sorted(POSTS))} were probed too and equal their base.", "",
        "| | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(groups),
        *(f"| {title} | " + " | ".join(cell(group[0], field) for group in groups) + " |" for field, title in ROWS),
        "",
        ("Layer ids: *outputs* means id n is captured after layer n; *inputs* means before it, so that the same list is"
        " one layer apart on the two (sgl-project/sglang#25454). Targets of Llama's and Qwen3's classes count outputs"
        " in every version."),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def preflight_page() -> str:
    """Make the list of findings."""
    lines = [
        "# Findings of the preflight", "", NOTE, "",
        ("`kubectl specdec preflight --drafter D --target T --engine-version V` reads `config.json`, safetensors headers"
        " and the drafter's token map, and tells all findings at once. Errors block, warnings are said, Unknown means"
        " that something could not be judged. `--explain CODE` prints one of the entries below."), "",
    ]  # fmt: skip
    for story in STORIES.values():
        lines += entry(story)
    lines += [
        "## What no file shows",
        "",
        "| fault | what catches it |",
        "|---|---|",
        *(f"| {fault} | {layer} |" for fault, layer in LIVE),
    ]
    return "\n".join(lines) + "\n"


def entry(story: Story) -> list[str]:
    """One finding."""
    return [
        f"## {story.code}", "", f"*{story.severity.value}.* {story.what}", "",
        f"- Shows as: {story.symptom}", f"- Mend: {story.mend}", f"- Source: {story.source}", "",
    ]  # fmt: skip


PAGES = {"capabilities.md": capabilities_page, "preflight.md": preflight_page}


def publish(pages: Mapping[str, Callable[[], str]], *, check: bool) -> int:
    """Write pages, or say which is not what the code says; the exit code."""
    for name, page in pages.items():
        path = FOLDER / name
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page())
        elif not path.is_file() or path.read_text() != page():
            sys.stderr.write(f"{path} is not what the code says: run `make generate`\n")
            return 1
    return 0


def main() -> int:
    """Write the pages, or check that they are current."""
    return publish(PAGES, check=sys.argv[1:] == ["--check"])


if __name__ == "__main__":
    sys.exit(main())
