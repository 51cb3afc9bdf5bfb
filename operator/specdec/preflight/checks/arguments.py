"""The engine's arguments as a whole: each may be valid and the set still wrong."""

from __future__ import annotations

from specdec.preflight.argument_table import deprecated_arguments, known_arguments
from specdec.preflight.arguments import OWNED, Arguments
from specdec.preflight.check import check
from specdec.preflight.facts import Case, number
from specdec.preflight.finding import Fault, Severity, some
from specdec.preflight.layout import EAGLE3

HOOK = "SGLang arg_groups/speculative_hook.py (server_args.py before 0.5.20)"
TRIPLE = ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens")
BLACKWELL = 10
BLACKWELL_DEFAULT = "trtllm_mla"
ON_BLACKWELL = frozenset({"KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM"})
"""Targets whose default attention backend on Blackwell is for MLA only."""
NOT_BESIDE = ("--enable-lora", "--lora-paths", "--enable-hierarchical-cache", "--weight-cache-mode")
MLA_BACKENDS = frozenset({"trtllm_mla", "cutlass_mla", "flashmla", "cutedsl_mla", "tokenspeed_mla"})


@check(
    symptom="The operator's own value and the user's would fight.",
    mend="Remove it; the spec has a field for what the operator owns.",
    source="specdec.preflight.arguments OWNED",
)
def argument_owned(case: Case) -> Fault | None:
    """Extra arguments set what only the operator renders."""
    # SGLang's parser also takes any unambiguous beginning of a name.
    owned = [name for name in case.arguments.extra if any(own.startswith(name) for own in OWNED)]
    return (
        Fault(f"extra arguments {some(owned)}", "none that the operator owns", "remove them")
        if owned
        else None
    )


@check(
    symptom="The engine ends at start: unrecognized arguments.",
    mend="Use the name that this version knows.",
    source="specdec.preflight.argument_table, read from the wheels",
)
def argument_unknown(case: Case) -> Fault | None:
    """An argument does not exist in this SGLang version."""
    known = known_arguments(case.engine.version) if case.engine else None
    if known is None:
        return None
    # argparse takes a beginning of a name, if only one name begins so.
    wrong = [
        name
        for name in case.arguments.values
        if name not in known and sum(other.startswith(name) for other in known) != 1
    ]
    if not wrong:
        return None
    return Fault(f"{some(wrong)}", f"arguments of SGLang {case.version}", "remove or rename it")


@check(
    severity=Severity.WARNING,
    symptom="A log line today, an unknown argument in some later version.",
    mend="Use what replaces it.",
    source="SGLang server_args.py (DeprecatedStoreTrueAction)",
)
def argument_deprecated(case: Case) -> Fault | None:
    """An argument is deprecated in this SGLang version."""
    known = deprecated_arguments(case.engine.version) if case.engine else {}
    old = [name for name in case.arguments.values if name in known]
    return Fault(old[0], known[old[0]], "rename it") if old else None


@check(
    symptom="Hidden states of one layer, fc skipped, accept length 1.00 and no error.",
    mend="Use --speculative-algorithm EAGLE3.",
    source="SGLang spec_aux_hidden_state.py; sgl-project/sglang#21272 (closed unmerged)",
)
def algorithm_differs(case: Case) -> Fault | None:
    """The algorithm is not EAGLE3, but the drafter is."""
    algorithm = case.arguments.text("--speculative-algorithm").upper()
    if (
        case.drafter is None
        or not algorithm
        or case.drafter.architecture not in EAGLE3
        or algorithm == "EAGLE3"
    ):
        return None
    return Fault(
        f"--speculative-algorithm {algorithm} with {case.drafter.architecture}", "EAGLE3", "set the algorithm"
    )


@check(
    symptom="The target is loaded a second time as its own drafter, then memory runs out.",
    mend="Give the drafter.",
    source="sgl-project/sglang#36528",
)
def draft_path_missing(case: Case) -> Fault | None:
    """EAGLE3 is asked for without a drafter."""
    algorithm = case.arguments.text("--speculative-algorithm").upper()
    if algorithm != "EAGLE3" or case.arguments.text("--speculative-draft-model-path"):
        return None
    return Fault("--speculative-algorithm EAGLE3 alone", "--speculative-draft-model-path", "give the drafter")


@check(
    symptom="An assertion at start.",
    mend="Give all three, or none.",
    source=f"{HOOK}; sgl-project/sglang#5673",
)
def speculation_incomplete(case: Case) -> Fault | None:
    """Only some of steps, top-k and draft tokens are given."""
    given = [name for name in TRIPLE if case.arguments.has(name)]
    if not case.arguments.drafts or len(given) in {0, len(TRIPLE)}:
        return None
    missing = [name for name in TRIPLE if name not in given]
    return Fault(f"{some(given)} without {some(missing)}", "all three", f"add {some(missing)}")


@check(
    severity=Severity.WARNING,
    symptom="Rates computed with the number that was asked for are wrong.",
    mend="With top-k 1, give steps + 1 draft tokens.",
    source=f"{HOOK} (a warning in the engine's log only)",
)
def draft_tokens_forced(case: Case) -> Fault | None:
    """With top-k 1 SGLang sets the number of draft tokens itself."""
    steps, width, tokens = triple(case.arguments)
    if steps is None or tokens is None or width != 1 or tokens == steps + 1:
        return None
    return Fault(
        f"{tokens} draft tokens with {steps} steps and top-k 1",
        f"{steps + 1}, which is in force",
        "correct it",
    )


def triple(arguments: Arguments) -> tuple[int | None, int | None, int | None]:
    """Steps, top-k and draft tokens as given."""
    steps, width, tokens = (arguments.number(name) for name in TRIPLE)
    return steps, width, tokens


def attention_backend(case: Case) -> str:
    """The target's attention backend; empty if nobody chose and the default depends on more than is known.

    On Blackwell SGLang chooses trtllm_mla for this family (0.5.9 to 0.5.23: server_args.py, arg_groups/overrides.py,
    arg_groups/model_overrides/deepseek_v2.py).
    """
    names = ("--attention-backend", "--decode-attention-backend", "--prefill-attention-backend")
    chosen = next((text for name in names if (text := case.arguments.text(name))), "")
    family = case.target is not None and case.target.architecture in ON_BLACKWELL
    return chosen or (BLACKWELL_DEFAULT if family and case.compute_capability == BLACKWELL else "")


@check(
    symptom="ValueError: only supports topk == 1.",
    mend="Use top-k 1, or another attention backend.",
    source=f"{HOOK}; layers/attention/trtllm_mla_backend.py",
)
def tree_needs_other_backend(case: Case) -> Fault | None:
    """A tree of drafts is asked for on a backend that verifies chains only."""
    width, backend = triple(case.arguments)[1], attention_backend(case)
    if width is None or width < 2 or not backend.startswith("trtllm_"):
        return None
    return Fault(
        f"top-k {width} with {backend}", "top-k 1 there", "use top-k 1, or flashinfer, fa3 or triton"
    )


@check(
    symptom="ValueError: trtllm_mla backend can only be used with MLA models.",
    mend="Let the image's profile pass --speculative-draft-attention-backend, for example trtllm_mha.",
    source="SGLang layers/attention/attention_registry.py; sgl-project/sglang#23490",
)
def draft_backend_inherited(case: Case) -> Fault | None:
    """A Llama drafter would inherit an attention backend that is for MLA only."""
    backend = attention_backend(case)
    if case.drafter is None or case.drafter.mla or backend not in MLA_BACKENDS:
        return None
    own = case.arguments.text("--speculative-draft-attention-backend")
    if own and own not in MLA_BACKENDS:
        return None
    return Fault(
        f"the drafter is not MLA and would run on {own or backend}",
        "a backend for plain attention",
        "let the image's profile pass --speculative-draft-attention-backend trtllm_mha (or flashinfer, triton)",
    )


@check(
    symptom="An assertion in the drafter's attention at start.",
    mend="Use another tensor-parallel size.",
    source="SGLang layers/linear.py QKVParallelLinear, distributed/utils.py divide",
)
def heads_not_divisible(case: Case) -> Fault | None:
    """The drafter's heads can't be split over so many GPUs."""
    parallel = case.arguments.number("--tp-size") or 1
    if case.drafter is None or parallel < 2:
        return None
    heads = number(case.drafter.config, "num_attention_heads")
    groups = number(case.drafter.config, "num_key_value_heads") or heads
    if heads is None or groups is None:
        return None
    if heads % parallel == 0 and (case.drafter.mla or groups % parallel == 0 or parallel % groups == 0):
        return None
    return Fault(
        f"{heads} heads in {groups} groups over {parallel} GPUs", "a whole number each", "change --tp-size"
    )


@check(
    symptom="An error at start, or states of the last stage only.",
    mend="Use tensor parallelism.",
    source=f"{HOOK}; models/deepseek_v2.py (only the last stage captures)",
)
def pipeline_with_eagle3(case: Case) -> Fault | None:
    """EAGLE-3 does not work across pipeline stages."""
    stages = case.arguments.number("--pp-size") or 1
    if stages < 2 or not case.arguments.drafts:
        return None
    return Fault(f"--pp-size {stages} with a drafter", "1", "use --tp-size instead")


@check(
    severity=Severity.WARNING,
    symptom="Accept length falls (2.35 to 1.48 in a report), adaptive steps are switched off.",
    mend="Serve replicas instead.",
    source="sgl-project/sglang#16274; speculative/adaptive_spec_params.py",
)
def attention_data_parallel(case: Case) -> Fault | None:
    """Attention is data-parallel, under which drafting can't be switched."""
    ranks = case.arguments.number("--attn-dp-size") or 1
    old = case.arguments.has("--enable-dp-attention")
    if not case.arguments.drafts or not (ranks > 1 or old):
        return None
    # With the plugin drafting must be switched on all ranks at once, which these can't.
    severity = Severity.ERROR if case.patches else None
    found = f"--attn-dp-size {ranks}" if ranks > 1 else "--enable-dp-attention"
    return Fault(
        f"{found} (data-parallel attention) with a drafter", "none", "use replicas instead", severity
    )


@check(
    severity=Severity.WARNING,
    symptom="Hidden states do not reach the decoding engine.",
    mend="Serve prefill and decode in one engine.",
    source="sgl-project/sglang#9976, #10059, #13590",
)
def disaggregated(case: Case) -> Fault | None:
    """Prefill and decode run in different engines."""
    mode = case.arguments.text("--disaggregation-mode")
    if mode in {"", "null"} or not case.arguments.drafts:
        return None
    severity = Severity.ERROR if case.patches else None
    return Fault(
        f"--disaggregation-mode {mode} with a drafter",
        "one engine for both",
        "it is not supported here",
        severity,
    )


@check(
    symptom="No drafter can be swapped in or switched off; with the operator's plugin the engine does not start.",
    mend="Remove the argument, or serve without a drafter.",
    source="specdec.engine.plugin.startup UNSUPPORTED",
)
def not_beside_a_drafter(case: Case) -> Fault | None:
    """LoRA, the hierarchical cache or a weight cache is asked for beside a drafter that the operator should swap."""
    if not case.arguments.drafts or not case.patches:
        return None
    off = {"--weight-cache-mode": "off"}
    used = [
        name for name in NOT_BESIDE if case.arguments.has(name) and case.arguments.text(name) != off.get(name)
    ]
    return Fault(f"{some(used)} with a drafter", "none of them", "remove it") if used else None


@check(
    symptom="ValueError at start: rejection sampling needs equal vocabularies.",
    mend="Remove the flag, or use a drafter with the whole vocabulary.",
    source="SGLang speculative/eagle_worker_v2.py (alloc_memory_pool)",
)
def rejection_sampling_needs_whole_vocabulary(case: Case) -> Fault | None:
    """Rejection sampling compares distributions, which a smaller draft vocabulary does not have."""
    if case.drafter is None or not case.arguments.has("--speculative-use-rejection-sampling"):
        return None
    own, whole = number(case.drafter.config, "draft_vocab_size"), number(case.drafter.config, "vocab_size")
    if own is None or whole is None or own == whole:
        return None
    return Fault(f"rejection sampling with {own} draft tokens", f"{whole}", "remove the flag")


@check(
    symptom="Every acceptance figure is made up.",
    mend="Remove the variable.",
    source="SGLang speculative/spec_utils.py (SGLANG_SIMULATE_ACC_LEN)",
)
def acceptance_simulated(case: Case) -> Fault | None:
    """The environment makes SGLang invent accept lengths."""
    names = [name for name in case.arguments.environment if name.startswith("SGLANG_SIMULATE_ACC_")]
    on = case.arguments.environment.get("SGLANG_SIMULATE_ACC_LEN", "-1") not in {"", "-1"}
    return Fault(f"{some(names)} is set", "real acceptance", "remove it") if on else None


@check(
    severity=Severity.WARNING,
    symptom="Drafting is slower than none: each draft step pays for launching its kernels.",
    mend="Leave CUDA graphs on.",
    source="SGLang server_args.py (--disable-cuda-graph also turns off the draft graphs)",
)
def graphs_switched_off(case: Case) -> Fault | None:
    """CUDA graphs are off, for the drafter too."""
    off = [
        name for name in ("--disable-cuda-graph", "--disable-decode-cuda-graph") if case.arguments.has(name)
    ]
    return Fault(off[0], "CUDA graphs on", "remove it, unless starting fails without") if off else None


@check(
    symptom="The engine ends at start, or serves no request.",
    mend="Give a share between 0 and 1.",
    source="SGLang server_args.py",
)
def memory_fraction_wrong(case: Case) -> Fault | None:
    """The share of memory is not between 0 and 1."""
    text = case.arguments.text("--mem-fraction-static")
    try:
        share = float(text) if text else 0.5
    except ValueError:
        share = -1.0
    return None if 0 < share < 1 else Fault(f"--mem-fraction-static {text}", "above 0, below 1", "correct it")


CHECKS = (
    argument_owned, argument_unknown, argument_deprecated, algorithm_differs, draft_path_missing,
    speculation_incomplete, draft_tokens_forced, tree_needs_other_backend, draft_backend_inherited,
    heads_not_divisible, pipeline_with_eagle3, attention_data_parallel, disaggregated, not_beside_a_drafter,
    rejection_sampling_needs_whole_vocabulary, acceptance_simulated, graphs_switched_off, memory_fraction_wrong,
)  # fmt: skip
