"""Norms and windows of newer trainers: flags that SGLang reads elsewhere, later or never."""

from __future__ import annotations

from specdec.preflight.capabilities import first_with
from specdec.preflight.check import check
from specdec.preflight.facts import Case, mapping, number
from specdec.preflight.finding import Fault, Severity
from specdec.preflight.layout import Layout
from specdec.preflight.wiring import flag, norm_before_fc, wiring

LLAMA = "SGLang models/llama_eagle3.py"


@check(
    symptom="Acceptance far below what training showed; no log line.",
    mend="Serve it with this project's plugin, or train with norm_before_residual off.",
    source=f"{LLAMA} (0 occurrences to 0.5.23); on by default in vllm-project/speculators",
)
def norm_before_residual(case: Case) -> Fault | None:
    """The drafter was trained with the residual taken after its norm; SGLang takes it before."""
    if case.drafter is None or not flag(case.drafter.config, "norm_before_residual"):
        return None
    if case.drafter.mla:
        return Fault("norm_before_residual: true in an MLA drafter", "false", "train without it")
    if "norm_before_residual" in case.patches and (case.engine is None or case.engine.served):
        return None
    return Fault(
        "norm_before_residual: true",
        "false: no SGLang version reads it without this project's plugin",
        "serve it on an engine with the plugin, or train without it",
    )


@check(
    symptom="input_norm is dropped, acceptance near zero.",
    mend="Use SGLang 0.5.17 or newer and a Llama drafter.",
    source=f"{LLAMA} (0.5.17), sgl-project/sglang#32226",
)
def norm_before_fc_unsupported(case: Case) -> Fault | None:
    """The drafter norms the concatenated states, which this class or version does not."""
    if case.drafter is None or not norm_before_fc(case.drafter):
        return None
    if case.drafter.mla:
        return Fault("norm_before_fc with the MLA class", "no such norm there", "train without it")
    if case.engine is None or case.engine.norm_before_fc:
        return None
    newer = first_with(lambda row: row.norm_before_fc)
    return Fault(
        f"norm_before_fc on SGLang {case.engine.version}", f"SGLang {newer} or newer", "use a newer image"
    )


@check(
    symptom="fc_norm is dropped, acceptance near zero.",
    mend="Use SGLang 0.5.12 or newer.",
    source=f"{LLAMA} (0.5.12), sgl-project/sglang#24663",
)
def fc_norm_unsupported(case: Case) -> Fault | None:
    """The drafter norms each captured state, which this version does not."""
    if case.drafter is None or case.engine is None or case.engine.fc_norm:
        return None
    if not flag(case.drafter.config, "fc_norm", "use_aux_norm"):
        return None
    newer = first_with(lambda row: row.fc_norm)
    return Fault(
        f"fc_norm on SGLang {case.engine.version}", f"SGLang {newer} or newer", "use a newer engine image"
    )


@check(
    symptom="The first draft is good, those after it are not.",
    mend="Use SGLang 0.5.12 or newer.",
    source=f"{LLAMA} (0.5.12), sgl-project/sglang#24664",
)
def norm_output_unsupported(case: Case) -> Fault | None:
    """The drafter hands its normed state to the next step, which this version does not."""
    if case.drafter is None or case.engine is None or case.engine.norm_output:
        return None
    if not flag(case.drafter.config, "norm_output"):
        return None
    newer = first_with(lambda row: row.norm_output)
    return Fault(
        f"norm_output on SGLang {case.engine.version}", f"SGLang {newer} or newer", "use a newer engine image"
    )


@check(
    symptom="Trained norms are dropped without a word.",
    mend="Set the flag at the top level of config.json.",
    source=f"{LLAMA} (flags decide which parameters exist)",
)
def norm_flag_missing(case: Case) -> Fault | None:
    """There are weights of a norm, but the flag that makes SGLang build it is not set."""
    if case.drafter is None:
        return None
    fed = wiring(case.drafter, case.engine).fed
    lacking = []
    if any(name.startswith("fc_norm.") for name in fed) and not flag(
        case.drafter.config, "fc_norm", "use_aux_norm"
    ):
        lacking.append("fc_norm")
    if "input_norm.weight" in fed and not norm_before_fc(case.drafter):
        lacking.append("norm_before_fc")
    if not lacking:
        return None
    return Fault(
        f"weights for {' and '.join(lacking)} but no flag", "the flag set to true", "set it in config.json"
    )


@check(
    severity=Severity.WARNING,
    symptom="From the second draft position on, acceptance falls.",
    mend="Remove norm_output if the drafter comes from SpecForge.",
    source="SpecForge modeling/draft/llama3_eagle.py (means: norm before lm_head)",
)
def norm_output_ambiguous(case: Case) -> Fault | None:
    """SpecForge means by norm_output something else than SGLang."""
    if case.drafter is None or case.drafter.layout is not Layout.SPECFORGE:
        return None
    if not flag(case.drafter.config, "norm_output"):
        return None
    return Fault(
        "norm_output: true in a SpecForge config",
        "no such key",
        "SpecForge recycles the state before its norm",
    )


@check(
    symptom="Acceptance is fine on short prompts and falls to 1 on long ones.",
    mend="Pass --speculative-draft-window-size with the trained window.",
    source=f"{LLAMA} (0.5.12), vllm-project/speculators#684",
)
def draft_window_missing(case: Case) -> Fault | None:
    """The drafter was trained with a sliding window, and the engine is not told so."""
    window = trained_window(case)
    if window is None or case.drafter is None or case.engine is None:
        return None
    given = case.arguments.number("--speculative-draft-window-size")
    if case.drafter.mla:
        return Fault(
            f"a window of {window} in an MLA drafter", "none: that class ignores it", "train without it"
        )
    if given == window:
        return None
    told = f"--speculative-draft-window-size {given}" if given else "no --speculative-draft-window-size"
    if not case.engine.draft_window:
        newer = first_with(lambda row: row.draft_window)
        return Fault(
            f"a window of {window} on SGLang {case.engine.version}", f"SGLang {newer} or newer", "newer image"
        )
    return Fault(
        f"trained with a window of {window}; {told}",
        str(window),
        f"pass --speculative-draft-window-size {window}",
    )


def trained_window(case: Case) -> int | None:
    """Sliding window that the drafter's layers were trained with."""
    if case.drafter is None:
        return None
    nested = mapping(case.drafter.config, "transformer_layer_config")
    config = nested or case.drafter.config
    window, kinds = number(config, "sliding_window"), config.get("layer_types")
    return window if isinstance(kinds, list) and "sliding_attention" in kinds else None


CHECKS = (
    norm_before_residual, norm_before_fc_unsupported, fc_norm_unsupported, norm_output_unsupported,
    norm_flag_missing, norm_output_ambiguous, draft_window_missing,
)  # fmt: skip
