"""Recognising who wrote a drafter's checkpoint, and for what it was meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

LLAMA = "LlamaForCausalLMEagle3"
MLA = "Eagle3DeepseekV2ForCausalLM"
EAGLE3 = frozenset({LLAMA, MLA})
"""Architectures of EAGLE-3 drafters that SGLang knows."""
MISNAMED = frozenset({"Eagle3LlamaForCausalLM", "LlamaForCausalLM", "Eagle3Speculator", "Eagle3DraftModel"})
"""Names that other tools give to the same Llama drafter: vLLM and AngelSlim, plain exports, speculators."""


class Layout(StrEnum):
    """Formats; the value is what a person calls it."""

    SGLANG = "SGLang EAGLE-3"
    MLA = "SGLang EAGLE-3 with MLA"
    SPECFORGE = "SpecForge"
    SPECULATORS_OLD = "speculators before 0.5 (layer outputs)"
    SPECULATORS = "speculators 0.5 or newer (layer inputs)"
    MISNAMED = "EAGLE-3 under another class name"
    EAGLE12 = "EAGLE-1 or EAGLE-2"
    P_EAGLE = "P-EAGLE"
    MTP = "multi-token prediction (MTP)"
    DFLASH = "DFlash"
    DSPARK = "DSpark"
    MEDUSA = "Medusa or another head without EAGLE-3's fc"
    UNKNOWN = "unknown"

    @property
    def supported(self) -> bool:
        """Whether SGLang's EAGLE-3 can serve it, as it is or converted."""
        return self in {
            Layout.SGLANG, Layout.MLA, Layout.SPECFORGE, Layout.SPECULATORS_OLD, Layout.SPECULATORS,
            Layout.MISNAMED,
        }  # fmt: skip

    @property
    def speculators(self) -> bool:
        """Whether its config is nested as speculators writes it."""
        return self in {Layout.SPECULATORS_OLD, Layout.SPECULATORS}


SPECULATORS_TYPES = {
    "eagle": Layout.EAGLE12, "peagle": Layout.P_EAGLE, "p_eagle": Layout.P_EAGLE, "mtp": Layout.MTP,
    "dflash": Layout.DFLASH, "dspark": Layout.DSPARK,
}  # fmt: skip
BY_NAME = (
    (r"DFlash", Layout.DFLASH), (r"DSpark", Layout.DSPARK), (r"PEagle", Layout.P_EAGLE), (r"Medusa", Layout.MEDUSA),
    (r"(NextN|MTP)", Layout.MTP), (r"Eagle(?!3)|EAGLE(?!3)", Layout.EAGLE12),
)  # fmt: skip


def recognise(config: Mapping[str, Any], names: Collection[str], metadata: Mapping[str, str]) -> Layout:
    """Name the format from the config and the tensors' names."""
    kind = config.get("speculators_model_type")
    if isinstance(kind, str) or "transformer_layer_config" in config:
        if kind is not None and kind != "eagle3":
            return SPECULATORS_TYPES.get(str(kind), Layout.UNKNOWN)
        return Layout.SPECULATORS_OLD if _old_speculators(config) else Layout.SPECULATORS
    architecture = architecture_of(config)
    if architecture == MLA:
        return Layout.MLA
    if architecture == LLAMA:
        return Layout.SPECFORGE if _from_specforge(config, metadata) else Layout.SGLANG
    if architecture in MISNAMED:
        return Layout.MISNAMED if looks_like_eagle3(names) else Layout.UNKNOWN
    return next((layout for pattern, layout in BY_NAME if re.search(pattern, architecture)), Layout.UNKNOWN)


def architecture_of(config: Mapping[str, Any]) -> str:
    """First architecture; empty if there is none."""
    listed = config.get("architectures")
    return str(listed[0]) if isinstance(listed, list) and listed else ""


def looks_like_eagle3(names: Collection[str]) -> bool:
    """Whether tensors name what only an EAGLE-3 layer has: fc, and a norm for the hidden state."""
    return any(name.endswith("fc.weight") for name in names) and any("hidden_norm" in name for name in names)


def _old_speculators(config: Mapping[str, Any]) -> bool:
    """Ids came into the config with 0.5, which changed them from layers' outputs to layers' inputs."""
    version = re.match(r"(\d+)\.(\d+)", str(config.get("speculators_version", "")))
    if version:
        return (int(version[1]), int(version[2])) < (0, 5)
    return "eagle_aux_hidden_state_layer_ids" not in config


def _from_specforge(config: Mapping[str, Any], metadata: Mapping[str, str]) -> bool:
    marks = (config.get("_name_or_path"), config.get("generator"), metadata.get("producer"), *metadata.keys())
    return any("specforge" in str(mark).lower() for mark in marks)
