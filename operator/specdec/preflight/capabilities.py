"""What each SGLang version can do with a drafter: the table that keys the checks.

Every row was read from that version's wheel, and `python -m specdec.preflight.probes` proves it again on the
wheel's source. A version that is not listed is unknown: nothing is inferred from its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum


class LayerIdRule(StrEnum):
    """How deepseek_v2 reads `eagle_aux_hidden_state_layer_ids` (other targets add one in every version)."""

    PLUS_ONE = "every id is a layer's output: captured at id + 1"
    AS_WRITTEN = "every id is a layer's input, unless the first is 1: then all are outputs"


class RateMeaning(StrEnum):
    """What the gauge `sglang:spec_accept_rate` divides by what."""

    WITH_BONUS = "accept length / draft tokens: 1 / draft tokens means nothing accepted"
    STRICT = "(accept length - 1) / (draft tokens - 1): 0 means nothing accepted"


@dataclass(frozen=True)
class Capabilities:
    """One SGLang version."""

    version: str
    layer_names: tuple[str, ...]
    """Prefixes of the Llama drafter's first layer that its loader knows; all other names are dropped silently."""
    many_layers: bool
    """The Llama drafter may have more than one layer."""
    counts_ids: bool
    """`fc` is built for as many states as there are ids; else always for three."""
    mla_drafter: bool
    """Eagle3DeepseekV2ForCausalLM is known."""
    kimi_captures: bool
    """KimiK25ForConditionalGeneration hands the capture on to its language model."""
    layer_ids: LayerIdRule
    embedding_capture: bool
    """Boundary 0, the embedding's output, can be captured by deepseek_v2 as it is."""
    counts_captures: bool
    """A capture that yields fewer states than asked for is an error, not a narrower hidden state."""
    fc_norm: bool
    norm_output: bool
    norm_before_fc: bool
    draft_window: bool
    """--speculative-draft-window-size is known."""
    reduced_capture: bool
    """With tensor parallelism the captured states are all-reduced (else FlashInfer's fusion leaves partial sums)."""
    fusion_switch: bool
    """--enforce-disable-flashinfer-allreduce-fusion is known."""
    adaptive: bool
    zero_steps: bool
    """Adaptive steps may be 0, which is drafting off."""
    plugins: bool
    """The entry point group sglang.srt.plugins is loaded."""
    accept_rate: RateMeaning
    verify_counter: bool
    """sglang:spec_verify_calls_total exists."""
    ready_route: bool
    """GET /ready exists."""
    graph_flags_renamed: bool
    """--cuda-graph-max-bs-decode and its like are known."""

    @property
    def served(self) -> bool:
        """Whether the operator runs this version: it needs plugins and 0 steps."""
        return self.plugins and self.zero_steps


_OLDEST = Capabilities(
    version="0.5.9",
    layer_names=("midlayer",),
    many_layers=False,
    counts_ids=False,
    mla_drafter=False,
    kimi_captures=False,
    layer_ids=LayerIdRule.PLUS_ONE,
    embedding_capture=False,
    counts_captures=False,
    fc_norm=False,
    norm_output=False,
    norm_before_fc=False,
    draft_window=False,
    reduced_capture=False,
    fusion_switch=False,
    adaptive=False,
    zero_steps=False,
    plugins=False,
    accept_rate=RateMeaning.WITH_BONUS,
    verify_counter=False,
    ready_route=False,
    graph_flags_renamed=False,
)
_10 = replace(_OLDEST, version="0.5.10", kimi_captures=True, fusion_switch=True)
_11 = replace(_10, version="0.5.11", adaptive=True, plugins=True, accept_rate=RateMeaning.STRICT)
_12 = replace(
    _11, version="0.5.12", layer_names=("midlayer", "layers.0"), many_layers=True, counts_ids=True,
    mla_drafter=True, fc_norm=True, norm_output=True, draft_window=True,
)  # fmt: skip
_13 = replace(_12, version="0.5.13", layer_ids=LayerIdRule.AS_WRITTEN, verify_counter=True)
_14 = replace(
    _13, version="0.5.14", embedding_capture=True, reduced_capture=True, zero_steps=True, graph_flags_renamed=True
)  # fmt: skip
_17 = replace(_14, version="0.5.17", counts_captures=True, norm_before_fc=True)
_20 = replace(_17, version="0.5.20", ready_route=True)

TABLE: dict[str, Capabilities] = {
    row.version: row
    for row in (
        _OLDEST, _10, _11, _12, _13,
        _14, replace(_14, version="0.5.15"), replace(_14, version="0.5.16"),
        _17, replace(_17, version="0.5.18"), replace(_17, version="0.5.19"),
        _20, *(replace(_20, version=f"0.5.{minor}") for minor in (21, 22, 23)),
    )
}  # fmt: skip
"""Known versions, oldest first."""

POSTS = {"0.5.10.post1", "0.5.12.post1", "0.5.13.post1", "0.5.15.post1"}
"""Post-releases whose wheels were probed as well: they equal their base."""


def normalised_version(version: str) -> str:
    """Strip what images and builds add: a leading v, a local label such as +cu129, a suffix such as -cu130."""
    return re.sub(r"^v|[+-].*$", "", version.strip())


def capabilities(version: str) -> Capabilities | None:
    """Row of a version, None if it is unknown."""
    plain = normalised_version(version)
    if plain in POSTS:
        return replace(TABLE[plain.partition(".post")[0]], version=plain)
    return TABLE.get(plain)


def first_with(can: Callable[[Capabilities], bool]) -> str:
    """Oldest known version that can do something."""
    return next(row.version for row in TABLE.values() if can(row))
