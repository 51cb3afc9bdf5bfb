"""Positions, precision and origin: whether drafter and target were made for each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specdec.preflight.check import check
from specdec.preflight.facts import Case, mapping, number
from specdec.preflight.finding import Fault, Severity, printable

OVERWRITE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def context_length(config: Mapping[str, Any]) -> int:
    """Context as SGLang derives it (utils/hf_transformers get_context_length): a stretched rope does not count twice."""
    rope = mapping(config, "rope_scaling")
    factor = rope.get("factor", 1)
    if "original_max_position_embeddings" in rope or rope.get("rope_type") == "llama3":
        factor = 1
    keys = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
    length = next((number(config, key) for key in keys if number(config, key)), 2048) or 2048
    return int(length * factor) if isinstance(factor, int | float) and 0 < factor < 1e6 else length


def served_context(case: Case) -> int | None:
    """Context that the engine will serve."""
    given = case.arguments.number("--context-length")
    return given or (context_length(case.target.text) if case.target else None)


def overwrites(case: Case) -> bool:
    """Whether the environment lets a drafter serve beyond its own context."""
    return case.arguments.environment.get(OVERWRITE, "").lower() in {"1", "true", "yes", "on"}


@check(
    symptom="ValueError at start: context_length is greater than the derived context_length.",
    mend=f"Serve a shorter context, or set {OVERWRITE}=1 and accept worse drafts beyond the trained one.",
    source="SGLang configs/model_config.py _derive_context_length; sgl-project/sglang#6783",
)
def context_too_short(case: Case) -> Fault | None:
    """The engine serves a longer context than the drafter's config has positions for."""
    served = served_context(case)
    if case.drafter is None or served is None:
        return None
    config = mapping(case.drafter.config, "transformer_layer_config") or case.drafter.config
    own = context_length(config)
    if own >= served:
        return None
    if overwrites(case):
        return Fault(
            f"draft context {own} < {served}, overwritten by {OVERWRITE}",
            f"a drafter trained to {served}",
            f"positions above {own} are untrained: watch acceptance of long prompts",
            Severity.WARNING,
        )
    return Fault(
        f"draft context {own} < {served}: the server will not start",
        f"{served} or more",
        f"serve at most {own} (context length), or set {OVERWRITE}=1",
    )


@check(
    symptom="Acceptance near zero though all shapes match.",
    mend="Use the drafter with the target that it was trained for.",
    source="sgl-project/sglang#25673 (accept rate below 0.02 with a sibling's drafter)",
    severity=Severity.WARNING,
)
def base_model_differs(case: Case) -> Fault | None:
    """The drafter says that it was trained for another target."""
    if case.drafter is None or case.target is None or not case.drafter.base_model:
        return None
    ours, theirs = _short(case.drafter.base_model), _short(case.target.name)
    family = re.match(r"[a-z]{3,}", ours)
    # A folder called "target" says nothing: only names of one family are compared.
    if (
        family is None
        or not theirs.startswith(family[0])
        or ours.startswith(theirs)
        or theirs.startswith(ours)
    ):
        return None
    return Fault(
        f"trained for {printable(case.drafter.base_model)}", printable(case.target.name), "check the pair"
    )


def _short(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.rstrip("/").rpartition("/")[2].lower())


@check(
    severity=Severity.WARNING,
    symptom="A crash while loading, or a drafter quantised that was trained in BF16.",
    mend="Pass --speculative-draft-model-quantization unquant.",
    source="SGLang arg_groups/serving_hook.py; sgl-project/sglang#28196, #34622",
)
def quantisation_inherited(case: Case) -> Fault | None:
    """The drafter is plain, and the engine would quantise it as the target."""
    if case.drafter is None or case.target is None or not case.arguments.drafts:
        return None
    method = case.arguments.text("--quantization") or case.target.quantisation
    said = case.arguments.has("--speculative-draft-model-quantization")
    if not method or said or case.drafter.config.get("quantization_config"):
        return None
    return Fault(
        f"a plain drafter beside a target in {printable(method)}",
        "the drafter's own precision said explicitly",
        "pass --speculative-draft-model-quantization unquant",
    )


CHECKS = (context_too_short, base_model_differs, quantisation_inherited)
