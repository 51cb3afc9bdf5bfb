"""Whether draft tokens become the right target tokens."""

from __future__ import annotations

from itertools import pairwise

from specdec.preflight.check import check
from specdec.preflight.facts import Case, Drafter, number
from specdec.preflight.finding import Fault, Severity
from specdec.preflight.wiring import flag

OFFSETS = "SGLang models/llama_eagle3.py (hot_token_id = d2t + arange)"


@check(
    symptom="Index errors in a kernel, or near-zero acceptance.",
    mend="Use a drafter of this target.",
    source="SGLang speculative/eagle_worker_v2.py (the embedding is shared)",
)
def vocabulary_differs(case: Case) -> Fault | None:
    """Drafter and target have vocabularies of different sizes."""
    if case.drafter is None or case.target is None:
        return None
    ours, theirs = number(case.drafter.config, "vocab_size"), number(case.target.text, "vocab_size")
    if ours is None or theirs is None or ours == theirs:
        return None
    return Fault(f"vocab_size {ours}", f"the target's {theirs}", "this drafter belongs to another target")


@check(
    symptom="Drafted ids are taken as target ids: acceptance near zero.",
    mend="Add the tensor d2t that training made.",
    source=f"{OFFSETS}; NVIDIA-NeMo/Automodel#2447",
)
def token_map_missing(case: Case) -> Fault | None:
    """The draft vocabulary is smaller than the target's, and nothing says which tokens it has."""
    sizes = _sizes(case.drafter)
    if sizes is None or case.drafter is None or sizes[0] >= sizes[1] or _has(case.drafter, "d2t"):
        return None
    return Fault(
        "no tensor d2t", f"d2t, because {sizes[0]} < {sizes[1]}", "add the map from the training run"
    )


@check(
    severity=Severity.WARNING,
    symptom="None: SGLang ignores t2d. But d2t can't be cross-checked.",
    mend="Export t2d as well.",
    source=OFFSETS,
)
def token_marks_missing(case: Case) -> Fault | None:
    """There is a d2t, but no t2d to check it against."""
    sizes = _sizes(case.drafter)
    if sizes is None or case.drafter is None or sizes[0] >= sizes[1]:
        return None
    if not _has(case.drafter, "d2t") or _has(case.drafter, "t2d"):
        return None
    return Fault("no tensor t2d", "t2d beside d2t", "nothing to do; d2t was checked by itself only")


@check(
    symptom="Index errors inside a kernel.",
    mend="Export d2t and the head from the same run.",
    source=f"{OFFSETS}; mobilint/mblt-model-zoo#110",
)
def token_map_length_wrong(case: Case) -> Fault | None:
    """d2t has not one entry for each draft token."""
    sizes = _sizes(case.drafter)
    if sizes is None or case.drafter is None:
        return None
    entry = next((item for name, item in case.drafter.entries.items() if name.endswith("d2t")), None)
    if entry is None or entry.shape == (sizes[0],):
        return None
    return Fault(f"d2t {list(entry.shape)}", f"[{sizes[0]}]: draft_vocab_size", "export d2t again")


@check(
    symptom="Accept length 1.0 to 1.1: drafts are unrelated tokens.",
    mend="Let the overlay subtract the index while loading, or convert; never rewrite the file by hand.",
    source=f"{OFFSETS}; SafeAILab/EAGLE#222",
)
def token_map_absolute(case: Case) -> Fault | None:
    """d2t holds target ids, where SGLang adds the index to offsets."""
    if case.drafter is None or not case.drafter.tokens.looks_absolute:
        return None
    tokens = case.drafter.tokens
    proof = (
        "t2d[d2t[i]] is true for all i, t2d[i + d2t[i]] is not"
        if tokens.t2d is not None
        else "d2t itself rises strictly and the sums leave the vocabulary"
    )
    return Fault(
        f"d2t looks absolute: {proof}", "offsets: target id - draft id", "kubectl specdec convert mends it"
    )


@check(
    symptom="Index errors inside a kernel, or tokens of other text.",
    mend="Export d2t again.",
    source=f"{OFFSETS}; sgl-project/SpecForge#76",
)
def token_map_out_of_range(case: Case) -> Fault | None:
    """A draft token leads to a target token that does not exist."""
    sizes = _sizes(case.drafter)
    if sizes is None or case.drafter is None or case.drafter.tokens.looks_absolute:
        return None
    for index, target in enumerate(case.drafter.tokens.targets()):
        if not 0 <= target < sizes[1]:
            offset = target - index
            return Fault(
                f"d2t[{index}] = {offset} leads to {target}", f"0 to {sizes[1] - 1}", "export d2t again"
            )
    return None


@check(
    symptom="Drafts are other tokens than the head meant: near-zero acceptance.",
    mend="Export d2t and t2d from the same run.",
    source=f"{OFFSETS}; vllm-project/speculators train/vocab_mapping.py",
)
def token_map_disagrees(case: Case) -> Fault | None:
    """d2t leads to target tokens that t2d does not have."""
    tokens = case.drafter.tokens if case.drafter else None
    sizes = _sizes(case.drafter)
    if tokens is None or tokens.t2d is None or tokens.d2t is None or sizes is None or tokens.looks_absolute:
        return None
    marks = tokens.t2d
    wrong = [
        (index, target)
        for index, target in enumerate(tokens.targets())
        if 0 <= target < sizes[1] and not (target < len(marks) and marks[target])
    ]
    if not wrong:
        return None
    index, target = wrong[0]
    return Fault(
        f"{len(wrong)} draft tokens lead to tokens that t2d does not mark, first {index} to {target}",
        "d2t and t2d that agree",
        "export both again from one run",
    )


@check(
    severity=Severity.WARNING,
    symptom="Two draft tokens mean the same: a little acceptance is lost.",
    mend="Export d2t again.",
    source="vllm-project/speculators train/vocab_mapping.py (ids rise strictly)",
)
def token_map_not_rising(case: Case) -> Fault | None:
    """Target ids of draft tokens do not rise, so that two may be the same."""
    if case.drafter is None or case.drafter.tokens.looks_absolute:
        return None
    targets = case.drafter.tokens.targets()
    for index, (before, after) in enumerate(pairwise(targets)):
        if after <= before:
            return Fault(
                f"draft token {index + 1} leads to {after} after {before}", "rising ids", "export d2t again"
            )
    return None


@check(
    symptom="The head has rows of the whole vocabulary, d2t maps them a second time.",
    mend="Set tie_word_embeddings to false.",
    source="SGLang models/llama_eagle3.py (lm_head = embed_tokens)",
)
def head_tied(case: Case) -> Fault | None:
    """The head is tied to the target's embedding, but the draft vocabulary is smaller."""
    sizes = _sizes(case.drafter)
    if sizes is None or case.drafter is None or sizes[0] >= sizes[1]:
        return None
    if not flag(case.drafter.config, "tie_word_embeddings"):
        return None
    return Fault(
        f"tie_word_embeddings with draft_vocab_size {sizes[0]}",
        f"a head of its own, or {sizes[1]}",
        "untie it",
    )


def _sizes(drafter: Drafter | None) -> tuple[int, int] | None:
    """Draft and target vocabulary, as the drafter's config says."""
    if drafter is None:
        return None
    whole = number(drafter.config, "vocab_size")
    own = number(drafter.config, "draft_vocab_size") or whole
    return (own, whole) if own is not None and whole is not None else None


def _has(drafter: Drafter, table: str) -> bool:
    return any(name.rpartition(".")[2] == table for name in drafter.entries)


CHECKS = (
    vocabulary_differs, token_map_missing, token_marks_missing, token_map_length_wrong, token_map_absolute,
    token_map_out_of_range, token_map_disagrees, token_map_not_rising, head_tied,
)  # fmt: skip
