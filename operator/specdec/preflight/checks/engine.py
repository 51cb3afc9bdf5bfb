"""What the engine's version can't do for this target."""

from __future__ import annotations

from specdec.preflight.capabilities import TABLE, first_with
from specdec.preflight.capture import KIMI
from specdec.preflight.check import check
from specdec.preflight.facts import Case
from specdec.preflight.finding import Fault, Severity, printable

FUSION_SWITCH = "--enforce-disable-flashinfer-allreduce-fusion"


@check(
    severity=Severity.UNKNOWN,
    symptom="Rules that depend on the version (key names, layer ids, norms) were not applied.",
    mend="Use a listed version, or run the probes on the new one and add its row.",
    source="specdec.preflight.capabilities",
)
def engine_version_unknown(case: Case) -> Fault | None:
    """The capability table has no row for this SGLang version."""
    if case.engine is not None:
        return None
    known = list(TABLE)
    return Fault(
        f"SGLang version {printable(case.version) or '(none given)'}",
        f"one of {known[0]} to {known[-1]}",
        "only what holds for every version was checked; name the image's exact version",
    )


@check(
    severity=Severity.WARNING,
    symptom="The operator refuses to start such an engine.",
    mend="Use an engine image with a newer SGLang.",
    source="SGLang srt/plugins (0.5.11), speculative/adaptive_spec_params.py (0.5.14)",
)
def engine_not_served(case: Case) -> Fault | None:
    """The version has no plugins or no way to turn drafting off, so the operator can't run it."""
    if case.engine is None or case.engine.served or not case.patches:
        return None
    oldest = first_with(lambda row: row.served)
    return Fault(f"SGLang {case.engine.version}", f"{oldest} or newer", "it can be checked, not operated")


@check(
    symptom="AttributeError at start, or accept length 1.00 with hidden states of one layer's width.",
    mend="Use SGLang 0.5.10 or newer.",
    source="SGLang models/kimi_k25.py, sgl-project/sglang#19689",
)
def target_cannot_capture(case: Case) -> Fault | None:
    """The target's class does not hand the capture of hidden states on to its language model."""
    if case.engine is None or case.target is None or case.engine.kimi_captures or not case.arguments.drafts:
        return None
    if case.target.architecture != KIMI:
        return None
    return Fault(
        f"{KIMI} on SGLang {case.engine.version}, which captures nothing for a drafter",
        f"SGLang {first_with(lambda row: row.kimi_captures)} or newer",
        "use a newer engine image",
    )


@check(
    symptom="Acceptance is low but not 1.00, only with tensor parallelism, and nothing is logged.",
    mend=f"Add {FUSION_SWITCH} (0.5.10 to 0.5.13), or use SGLang 0.5.14 or newer.",
    source="SGLang models/deepseek_v2.py, sgl-project/sglang#28343",
)
def capture_not_reduced(case: Case) -> Fault | None:
    """FlashInfer's all-reduce fusion leaves partial sums in the captured states of tensor-parallel engines."""
    engine, parallel = case.engine, case.arguments.number("--tp-size") or 1
    if engine is None or case.target is None or engine.reduced_capture or parallel < 2:
        return None
    if case.target.architecture != KIMI or case.arguments.has(FUSION_SWITCH):
        return None
    hint = f"add {FUSION_SWITCH}" if engine.fusion_switch else "this version has no switch for it"
    return Fault(
        f"SGLang {engine.version} with --tp-size {parallel}, which captures partial sums on Hopper and Blackwell",
        f"SGLang {first_with(lambda row: row.reduced_capture)} or newer",
        hint,
    )


CHECKS = (engine_version_unknown, engine_not_served, target_cannot_capture, capture_not_reduced)
