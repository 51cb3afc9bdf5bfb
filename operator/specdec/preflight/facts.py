"""What the checks judge: a drafter, a target, an engine and its arguments, all frozen and typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from specdec.preflight.arguments import Arguments
from specdec.preflight.capabilities import Capabilities
from specdec.preflight.header import Entry
from specdec.preflight.layout import MLA, Layout, architecture_of, recognise
from specdec.preflight.reading import Reading
from specdec.preflight.source import UnreadableError
from specdec.preflight.tokens import TokenMap, read_token_map

LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
PLUGIN_PATCHES = frozenset({"strict_load", "embedding_capture", "overlay", "norm_before_residual"})
"""What this project's plugin adds to SGLang that changes a finding."""
DEEPSEEK_TARGETS = frozenset({
    "KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM",
})  # fmt: skip
"""Targets whose capture is deepseek_v2's."""
PLUS_ONE_TARGETS = frozenset({"LlamaForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM"})
"""Targets whose capture adds one to every id in every listed version."""


class Convention(StrEnum):
    """What a trainer's layer ids count."""

    OUTPUT = "Output"
    """id n is the output of layer n; the embedding's output is -1."""
    BOUNDARY = "Boundary"
    """id n is the input of layer n; the embedding's output is 0."""


@dataclass(frozen=True)
class Declared:
    """What a person says of a drafter that its files don't."""

    layer_ids: tuple[int, ...] | None = None
    convention: Convention | None = None
    target_name: str = ""


@dataclass(frozen=True)
class Drafter:
    """The small model, as its files describe it or as the overlay will."""

    label: str
    config: Mapping[str, Any]
    layout: Layout
    entries: Mapping[str, Entry]
    tokens: TokenMap = field(default_factory=lambda: TokenMap(None, None))
    base_model: str = ""
    """The target that it says it was trained for."""

    @property
    def architecture(self) -> str:
        """Name of its class."""
        return architecture_of(self.config)

    @property
    def mla(self) -> bool:
        """Whether it has DeepSeek's latent attention."""
        return self.architecture == MLA

    @property
    def eagle_config(self) -> Mapping[str, Any]:
        """The nested part that SGLang reads capture layers from."""
        return mapping(self.config, "eagle_config")

    @property
    def nested_ids(self) -> tuple[int, ...] | None:
        """Capture layers where SGLang looks for them; None if there are none, or no list of numbers."""
        return numbers(self.eagle_config, LAYER_IDS)

    @property
    def top_ids(self) -> tuple[int, ...] | None:
        """Capture layers where SGLang does not look for them."""
        return numbers(self.config, LAYER_IDS)


@dataclass(frozen=True)
class Target:
    """The large model."""

    label: str
    name: str
    """How its makers call it; empty if nothing says."""
    config: Mapping[str, Any]
    files: int = 0
    tensors: int | None = None
    """None if its headers were not read."""
    size: int = 0

    @property
    def text(self) -> Mapping[str, Any]:
        """Config of the language model."""
        return mapping(self.config, "text_config") or self.config

    @property
    def architecture(self) -> str:
        """Name of its class."""
        return architecture_of(self.config)

    @property
    def quantisation(self) -> str:
        """How its weights are quantised; empty if they are not."""
        return quantisation(self.config) or quantisation(self.text)


@dataclass(frozen=True)
class Case:
    """All that a preflight judges at once; what is None is not known."""

    drafter: Drafter | None
    target: Target | None
    engine: Capabilities | None
    version: str
    """The version as asked for; `engine` is None if it is unknown."""
    arguments: Arguments = field(default_factory=Arguments)
    declared: Declared = Declared()
    patches: frozenset[str] = PLUGIN_PATCHES
    compute_capability: int | None = None
    """Generation of the GPUs, as CUDA counts: 9 is Hopper, 10 is Blackwell (B200, B300)."""


def drafter_of(reading: Reading) -> Drafter | None:
    """Facts of a drafter's folder; None if its config can't be read."""
    if reading.config is None:
        return None
    try:
        tokens = read_token_map(reading.source, reading.entries, _vocabulary(reading.config))
    except UnreadableError as error:
        reading.blame(error)
        tokens = TokenMap(None, None)
    return Drafter(
        label=reading.source.label,
        config=reading.config,
        layout=recognise(reading.config, reading.entries, reading.metadata),
        entries=reading.entries,
        tokens=tokens,
        base_model=base_model(reading),
    )


def _vocabulary(config: Mapping[str, Any]) -> int | None:
    return number(config, "vocab_size") or number(mapping(config, "transformer_layer_config"), "vocab_size")


def target_of(reading: Reading, name: str = "") -> Target | None:
    """Facts of a target's folder; None if its config can't be read."""
    if reading.config is None:
        return None
    origin = reading.config.get("_name_or_path")
    sizes = [size for file, size in reading.files.items() if file.endswith(".safetensors")]
    return Target(
        label=reading.source.label,
        name=name or (origin if isinstance(origin, str) else "") or reading.source.label.rstrip("/"),
        config=reading.config,
        files=len(sizes),
        tensors=reading.tensors,
        size=sum(sizes),
    )


def base_model(reading: Reading) -> str:
    """Target that a drafter names in its header's metadata, its config or its model card's front matter."""
    config = reading.config or {}
    verifier = mapping(mapping(config, "speculators_config"), "verifier").get("name_or_path")
    front = re.match(r"---\n(.*?)\n---", reading.card, re.DOTALL)
    listed = re.search(
        r"^base_model:\s*(?:\n\s*-\s*)?[\"']?([^\s\"']+)", front[1] if front else "", re.MULTILINE
    )
    for name in (reading.metadata.get("base_model"), verifier, listed[1] if listed else None):
        if isinstance(name, str) and name:
            return name
    return ""


def mapping(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Nested object; empty if it is absent or something else."""
    value = config.get(key)
    return value if isinstance(value, dict) else {}


def quantisation(config: Mapping[str, Any]) -> str:
    """Method by which a config says that weights are quantised; empty if it says none."""
    quantised = mapping(config, "quantization_config")
    return str(quantised.get("quant_method") or quantised.get("quant_algo") or "yes") if quantised else ""


MOST = 1 << 40
"""No size of a model is larger; products of larger ones would be work for an attacker."""


def number(config: Mapping[str, Any], key: str) -> int | None:
    """Whole number above 0; None if it is absent or something else."""
    value = config.get(key)
    return value if type(value) is int and 0 < value < MOST else None


def numbers(config: Mapping[str, Any], key: str) -> tuple[int, ...] | None:
    """List of whole numbers; None if it is absent or something else."""
    value = config.get(key)
    if not isinstance(value, list) or not all(type(item) is int and abs(item) < MOST for item in value):
        return None
    return tuple(value)
