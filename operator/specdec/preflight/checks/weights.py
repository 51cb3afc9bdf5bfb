"""Whether every parameter gets a tensor of its shape, and every tensor a parameter."""

from __future__ import annotations

import re

from specdec.preflight.check import check
from specdec.preflight.facts import Case, number
from specdec.preflight.finding import Fault, Severity, some
from specdec.preflight.header import Entry
from specdec.preflight.wiring import HARMLESS, as_engine_names, borrows_head, expected, flag, states, wiring

LOADER = "SGLang models/llama_eagle3.py and kimi_k25_eagle3.py, load_weights"
OWN_CHECKS = frozenset({"fc.weight", "lm_head.weight"})
"""Parameters with checks of their own."""
MATTERS = re.compile(r"(q_norm|k_norm|\.bias$|input_norm|fc_norm|\bexperts\b|layers\.[1-9])")
"""Tensors without which the drafter computes something else than it was trained to."""
FLOATS = frozenset({"BF16", "F16", "F32"})


@check(
    symptom="The engine ends at start with an AttributeError.",
    mend="Complete config.json.",
    source="SGLang models/llama_eagle3.py, configs of transformers",
)
def config_incomplete(case: Case) -> Fault | None:
    """The config lacks sizes that the drafter's class is built from."""
    if case.drafter is None or not case.drafter.layout.supported or expected(case) is not None:
        return None
    if "transformer_layer_config" in case.drafter.config:
        return None
    keys = ["hidden_size", "intermediate_size", "num_attention_heads"]
    if case.drafter.mla:
        keys += ["q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"]
    missing = [key for key in keys if number(case.drafter.config, key) is None]
    return Fault(f"no usable {some(missing or keys)}", "whole numbers above 0", "complete config.json")


@check(
    symptom="Accept length 1.00 in every log line, the server healthy: parameters keep random values.",
    mend="Rename the tensors, or add the missing ones.",
    source=f"{LOADER}; vllm-project/speculators#358, sgl-project/sglang#27829",
)
def parameters_not_fed(case: Case) -> Fault | None:
    """A parameter of the drafter gets no tensor and stays as memory held it."""
    shapes = expected(case)
    if shapes is None or case.drafter is None:
        return None
    load = wiring(case.drafter, case.engine)
    unfed = [name for name in shapes if name not in load.fed and name not in OWN_CHECKS - {"fc.weight"}]
    if not unfed:
        return None
    hint = "the checkpoint lacks them: export it again"
    if any(re.match(r"(model\.)?layers\.0\.", name) for name in load.dropped):
        hint = "rename layers.0.* to midlayer.* (kubectl specdec convert), or use SGLang 0.5.12 or newer"
    elif load.dropped or set(load.fed) - set(shapes):
        hint = "tensors of other names were dropped: rename them (kubectl specdec convert knows common ones)"
    names = [as_engine_names(name, case.engine) for name in unfed]
    return Fault(f"no tensor for {len(names)} parameters: {some(names, 3)}", "one for each", hint)


@check(
    severity=Severity.WARNING,
    symptom="Nothing is logged; what these tensors were trained for is not computed.",
    mend="Rename or remove them.",
    source=LOADER,
)
def tensors_dropped(case: Case) -> Fault | None:
    """Tensors have names that the loader drops without a word."""
    shapes = expected(case)
    if shapes is None or case.drafter is None:
        return None
    load = wiring(case.drafter, case.engine)
    strange = [name for name in load.fed if name not in shapes and not HARMLESS.search(name)]
    if borrows_head(case.drafter):
        strange = [name for name in strange if name != "lm_head.weight"]
    dropped = [*load.dropped, *strange]
    if not dropped:
        return None
    counts = "strict_load" in case.patches or any(MATTERS.search(name) for name in strange)
    return Fault(
        f"{len(dropped)} tensors that SGLang drops: {some(dropped)}",
        "names that its loader knows",
        "rename them, or remove them if they are not the drafter's",
        Severity.ERROR if counts else None,
    )


@check(
    symptom="RuntimeError in weight_loader at start.",
    mend="Make config.json and weights belong together.",
    source=LOADER,
)
def shapes_differ(case: Case) -> Fault | None:
    """A tensor has another shape than the config gives its parameter."""
    shapes = expected(case)
    if shapes is None or case.drafter is None:
        return None
    fed = wiring(case.drafter, case.engine).fed
    wrong = [
        name
        for name, shape in shapes.items()
        if name in fed and name not in OWN_CHECKS and fed[name].shape != shape
    ]
    if not wrong:
        return None
    first = wrong[0]
    return Fault(
        f"{len(wrong)} tensors of another shape: {some(wrong)}; {first} is {list(fed[first].shape)}",
        f"{list(shapes[first])} by config.json",
        "config.json and weights are of different drafters: copy both from one export",
    )


@check(
    symptom="A shape error at start; or fc is skipped and accept length is 1.00.",
    mend="Name as many layers in eagle_config as fc was trained on, and the right target.",
    source="SGLang models/llama_eagle3.py (fc; always three states before 0.5.12)",
)
def fc_width_wrong(case: Case) -> Fault | None:
    """The layer that fuses the captured states has not the width of the states that this engine gives it."""
    shapes = expected(case)
    if shapes is None or case.drafter is None:
        return None
    fc = wiring(case.drafter, case.engine).fed.get("fc.weight")
    if fc is None or fc.shape == shapes["fc.weight"]:
        return None
    hidden = (
        number(case.drafter.config, "target_hidden_size") or number(case.drafter.config, "hidden_size") or 1
    )
    count = states(case.drafter, case.engine)
    trained = f" ({fc.shape[1] / hidden:g} states of {hidden})" if len(fc.shape) == 2 else ""
    return Fault(
        f"fc.weight {list(fc.shape)}{trained}",
        f"{list(shapes['fc.weight'])}: {count} states of {hidden}",
        "name the trained layers in eagle_config.eagle_aux_hidden_state_layer_ids; check the target",
    )


@check(
    symptom="HTTP 200, graphs captured, every log line says accept length 1.00.",
    mend="Add lm_head.weight, or set draft_vocab_size to null so that the target's head is borrowed.",
    source="SGLang models/llama_eagle3.py, sgl-project/sglang#27829, #27908 (closed unmerged)",
)
def head_missing(case: Case) -> Fault | None:
    """The config declares a head of the drafter's own, but there is none: it stays random."""
    shapes = expected(case)
    if shapes is None or case.drafter is None or "lm_head.weight" not in shapes:
        return None
    if "lm_head.weight" in wiring(case.drafter, case.engine).fed:
        return None
    return Fault(
        f"no lm_head.weight, while draft_vocab_size is {case.drafter.config['draft_vocab_size']}",
        "the head, or no draft_vocab_size",
        "add the tensor, or set draft_vocab_size to null: only then the target's head is borrowed",
    )


@check(
    symptom="AttributeError: no attribute draft_vocab_size, at start.",
    mend="Add draft_vocab_size: the head's rows, or null to borrow the target's head.",
    source="SGLang models/llama_eagle3.py (config.draft_vocab_size)",
)
def draft_vocabulary_undeclared(case: Case) -> Fault | None:
    """The Llama drafter's class reads draft_vocab_size, which the config does not have."""
    if case.drafter is None or case.drafter.mla or not case.drafter.layout.supported:
        return None
    if "draft_vocab_size" in case.drafter.config or flag(case.drafter.config, "tie_word_embeddings"):
        return None
    return Fault("no draft_vocab_size in config.json", "the head's rows, or null", "add the key")


@check(
    symptom="Index errors, or a head of random rows.",
    mend="Make draft_vocab_size equal to the rows of lm_head.weight.",
    source="SGLang models/llama_eagle3.py (ParallelLMHead)",
)
def head_rows_wrong(case: Case) -> Fault | None:
    """The head has another shape than draft_vocab_size and hidden_size say."""
    shapes = expected(case)
    if shapes is None or case.drafter is None or "lm_head.weight" not in shapes:
        return None
    head = wiring(case.drafter, case.engine).fed.get("lm_head.weight")
    if head is None or head.shape == shapes["lm_head.weight"]:
        return None
    return Fault(
        f"lm_head.weight {list(head.shape)}", f"{list(shapes['lm_head.weight'])}", "correct draft_vocab_size"
    )


@check(
    symptom="The engine ends in load_weights (kv_b_proj), or drafts noise.",
    mend="Export the drafter in BF16.",
    source="SGLang models/kimi_k25_eagle3.py (post_load_weights)",
)
def weights_not_float(case: Case) -> Fault | None:
    """Weights are stored quantised, but the config does not say how."""
    shapes = expected(case)
    if shapes is None or case.drafter is None or case.drafter.config.get("quantization_config"):
        return None
    fed = wiring(case.drafter, case.engine).fed
    wrong = [name for name in shapes if name in fed and fed[name].dtype not in FLOATS]
    return Fault(f"{fed[wrong[0]].dtype} in {some(wrong)}", "BF16", "export in BF16") if wrong else None


@check(
    severity=Severity.WARNING,
    symptom="More memory, or a cast that nobody asked for.",
    mend="Export all weights in one type.",
    source="SGLang model_loader (weights are cast to the drafter's type)",
)
def precision_mixed(case: Case) -> Fault | None:
    """Large tensors have different float types."""
    if case.drafter is None:
        return None
    large = [
        entry for entry in case.drafter.entries.values() if len(entry.shape) == 2 and entry.dtype in FLOATS
    ]
    types = sorted({entry.dtype for entry in large})
    if len(types) < 2:
        return None
    odd = [entry.name for entry in large if entry.dtype != _commonest(large)]
    return Fault(f"{' and '.join(types)}: {some(odd)} differ", "one type", "export all in BF16")


def _commonest(entries: list[Entry]) -> str:
    types = [entry.dtype for entry in entries]
    return max(sorted(set(types)), key=types.count)


@check(
    severity=Severity.WARNING,
    symptom="Acceptance below what training showed.",
    mend="Train with the target's embedding frozen.",
    source="SGLang speculative/eagle_worker_v2.py (set_embed)",
)
def embedding_replaced(case: Case) -> Fault | None:
    """The drafter trained an embedding of its own, which SGLang replaces by the target's."""
    if case.drafter is None or not flag(case.drafter.config, "embed_requires_grad"):
        return None
    return Fault("embed_requires_grad: true", "the target's embedding", "train with the embedding frozen")


CHECKS = (
    config_incomplete, parameters_not_fed, tensors_dropped, shapes_differ, fc_width_wrong, head_missing,
    draft_vocabulary_undeclared, head_rows_wrong, weights_not_float, precision_mixed, embedding_replaced,
)  # fmt: skip
