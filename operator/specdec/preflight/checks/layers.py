"""Whether the drafter gets the hidden states that it was trained on."""

from __future__ import annotations

from specdec.preflight.capabilities import first_with
from specdec.preflight.capture import (
    EMBEDDING_PATCH,
    captured,
    default_boundaries,
    rendering,
    target_layers,
    trained,
)
from specdec.preflight.check import check
from specdec.preflight.facts import LAYER_IDS, Case, number, numbers
from specdec.preflight.finding import Fault, Severity
from specdec.preflight.layout import EAGLE3, Layout
from specdec.preflight.wiring import states

CAPTURE = "SGLang models/deepseek_v2.py set_eagle3_layers_to_capture"
NESTED = "SGLang model_runner_components/spec_aux_hidden_state.py (reads eagle_config only)"
NAMED = f"eagle_config.{LAYER_IDS}"
DECLARED = "spec.drafter.layers, or --layers and --convention"


@check(
    symptom="Half the acceptance or none: other layers are captured, and nothing is logged.",
    mend=f"Copy the ids into {NAMED}.",
    source=f"{NESTED}; vllm-project/vllm#54526",
)
def layer_ids_elsewhere(case: Case) -> Fault | None:
    """The ids of the captured layers are where SGLang does not look, so that it captures its default."""
    if case.drafter is None or case.drafter.layout.speculators:
        return None
    top = case.drafter.top_ids
    if not top or case.drafter.eagle_config.get(LAYER_IDS) is not None:
        return None
    layers = target_layers(case)
    default = f"; it would capture {list(default_boundaries(layers))}" if layers else ""
    return Fault(
        f"ids {list(top)} at the top level would be ignored{default}", f"them in {NAMED}", "copy them there"
    )


@check(
    severity=Severity.WARNING,
    symptom="Tools disagree on what the drafter was trained on.",
    mend="Remove the wrong one.",
    source=NESTED,
)
def layer_ids_disagree(case: Case) -> Fault | None:
    """The config names layers in two places, and they differ."""
    if case.drafter is None or not case.drafter.top_ids or case.drafter.nested_ids is None:
        return None
    if case.drafter.top_ids == case.drafter.nested_ids:
        return None
    top, nested = list(case.drafter.top_ids), list(case.drafter.nested_ids)
    return Fault(
        f"{top} at the top level and {nested} in eagle_config", "one list", "SGLang takes the latter"
    )


@check(
    severity=Severity.WARNING,
    symptom="If the guess is wrong, accept length 1.0 to 1.4.",
    mend=f"Write the trained layers into {NAMED}, or declare them ({DECLARED}).",
    source=f"{CAPTURE}; sgl-project/sglang#21274, vllm-project/vllm#50170",
)
def layer_ids_absent(case: Case) -> Fault | None:
    """Nothing says which layers the drafter was trained on, so SGLang captures its default."""
    if case.drafter is None or case.declared.layer_ids is not None or not case.drafter.layout.supported:
        return None
    if case.drafter.layout in {Layout.SPECULATORS_OLD, Layout.SPECFORGE} or case.drafter.top_ids is not None:
        return None
    if case.drafter.eagle_config.get(LAYER_IDS) is not None:
        return None
    layers = target_layers(case)
    guess = str(list(default_boundaries(layers))) if layers else "its default"
    return Fault(
        f"no {NAMED}; the engine captures {guess}",
        "the trained layers",
        f"declare them if you know them: {DECLARED}",
    )


@check(
    symptom="An error at start, or states in another order than fc was trained on.",
    mend="Write a rising list of whole numbers.",
    source=f"{CAPTURE} (captures in the layers' order, whatever the list's)",
)
def layer_ids_malformed(case: Case) -> Fault | None:
    """The ids are no rising list of different whole numbers."""
    if case.drafter is None:
        return None
    value = case.drafter.eagle_config.get(LAYER_IDS)
    value = case.drafter.config.get(LAYER_IDS) if value is None else value
    if value is None:
        return None
    ids = (
        case.drafter.nested_ids
        if case.drafter.nested_ids is not None
        else numbers(case.drafter.config, LAYER_IDS)
    )
    # A trailing 1 is how boundary 1 is written for SGLang 0.5.13 and newer, which reads a leading 1 otherwise.
    rising = ids is not None and (sorted(set(ids)) == list(ids) or (ids[-1] == 1 and _rises(ids[:-1])))
    if ids and rising:
        return None
    return Fault(
        f"{LAYER_IDS} is {str(value)[:80]}", "a rising list of different whole numbers", "correct the list"
    )


def _rises(ids: tuple[int, ...]) -> bool:
    return sorted(set(ids)) == list(ids) and 1 not in ids


@check(
    symptom="RuntimeError at the first forward: captured 2 of 3 (0.5.17 and newer); before, silence and 1.00.",
    mend="Use ids that the target has.",
    source=CAPTURE,
)
def layer_ids_out_of_range(case: Case) -> Fault | None:
    """A layer is asked for that the target does not have, or whose output is its last."""
    layers, boundaries = target_layers(case), captured(case)
    if layers is None or boundaries is None or case.drafter is None:
        return None
    wrong = [value for value in boundaries if value < -1 or value >= layers]
    if not wrong:
        return None
    ids = case.drafter.nested_ids
    return Fault(
        f"ids {list(ids) if ids else 'by default'} lead to the input of layer {wrong[0]}",
        f"0 to {layers - 1}",
        "the drafter belongs to another target, or the ids follow another convention",
    )


@check(
    symptom="Only two of three states arrive: RuntimeError, or accept length 1.00.",
    mend=f"Say how the ids count ({DECLARED}), so that they can be rewritten; or run the plugin.",
    source=f"{CAPTURE}; layer_boundary since 0.5.14",
)
def embedding_not_captured(case: Case) -> Fault | None:
    """The drafter was trained on the embedding's output, which this engine can't capture as the ids ask for it."""
    boundaries = captured(case)
    if case.drafter is None or not boundaries or case.engine is None:
        return None
    asked = case.drafter.nested_ids or ()
    if boundaries[0] == 0 and not case.engine.embedding_capture:
        return Fault(
            f"ids {list(asked)} on SGLang {case.engine.version}, which can't capture the embedding's output",
            f"SGLang {first_with(lambda row: row.embedding_capture)} or newer",
            "use a newer engine image",
        )
    if boundaries[0] != -1:
        return None
    return Fault(
        f"layer id -1 in {list(asked)}, which needs the patch {EMBEDDING_PATCH}; this engine does not declare it",
        "0 for the embedding's output",
        "declare the convention to have the list rewritten, or use an engine image with the patch",
    )


@check(
    symptom="Accept length 1.05 to 1.4 where training promised 2 to 3.",
    mend=f"Write the ids that this version reads as the trained layers into {NAMED}.",
    source=f"{CAPTURE}; sgl-project/sglang#25454",
)
def layers_differ(case: Case) -> Fault | None:
    """The engine will capture other layers than the drafter was trained on."""
    wanted, got = trained(case), captured(case)
    if wanted is None or got is None or tuple(sorted(wanted)) == got:
        return None
    write, layers = rendering(tuple(sorted(wanted)), case), target_layers(case)
    hint = f"write {list(write)} into {NAMED}" if write else "use an engine version that can capture them"
    if layers is not None and not 0 <= min(wanted) <= max(wanted) < layers:
        hint = f"name inputs of layers that the target has, 0 to {layers - 1}, or outputs, -1 to {layers - 2}"
    return Fault(
        f"the engine will capture the inputs of layers {list(got)}",
        f"{list(wanted)}, which the drafter was trained on",
        hint,
    )


@check(
    symptom="fc is skipped, accept length 1.00.",
    mend="Remove use_aux_hidden_state or set it to true.",
    source="SGLang models/llama_eagle3.py (fc is bypassed at equal widths)",
)
def capture_switched_off(case: Case) -> Fault | None:
    """The config turns the capture of intermediate layers off."""
    if case.drafter is None or case.drafter.eagle_config.get("use_aux_hidden_state", True):
        return None
    return Fault(
        "eagle_config.use_aux_hidden_state: false", "true", "correct the config: fc needs the states"
    )


@check(
    symptom="A shape error at the first forward.",
    mend="Remove num_aux_hidden_states, or make it the number of ids.",
    source="SGLang models/llama_eagle3.py, speculative/eagle_utils.py",
)
def capture_count_wrong(case: Case) -> Fault | None:
    """Fc is built for another number of states than layers are captured."""
    if case.drafter is None or case.drafter.architecture not in EAGLE3:
        return None
    ids = case.drafter.nested_ids
    if ids is None and number(case.drafter.config, "num_aux_hidden_states") is None:
        return None
    count, given = states(case.drafter, case.engine), len(ids) if ids else 3
    if count == given:
        return None
    return Fault(f"fc built for {count} states, {given} captured", "the same number", "correct eagle_config")


@check(
    symptom="A shape error at start, or near-zero acceptance.",
    mend="Use a drafter of this target.",
    source="SGLang models/llama_eagle3.py (target_hidden_size)",
)
def hidden_size_differs(case: Case) -> Fault | None:
    """The drafter expects hidden states of another width than the target's."""
    if case.drafter is None or case.target is None:
        return None
    config = case.drafter.config
    ours = number(config, "target_hidden_size") or number(config, "hidden_size")
    theirs = number(case.target.text, "hidden_size")
    if ours is None or theirs is None or ours == theirs:
        return None
    return Fault(
        f"states of width {ours}", f"the target's {theirs}", "this drafter belongs to another target"
    )


@check(
    symptom="TypeError at start.",
    mend="Remove target_hidden_size.",
    source="SGLang models/llama_eagle3.py (hasattr, so that null counts)",
)
def target_hidden_size_null(case: Case) -> Fault | None:
    """target_hidden_size is there but null, and SGLang multiplies by it."""
    if (
        case.drafter is None
        or case.drafter.mla
        or case.drafter.config.get("target_hidden_size", 1) is not None
    ):
        return None
    return Fault("target_hidden_size: null", "a number, or no such key", "remove the key")


CHECKS = (
    layer_ids_elsewhere, layer_ids_disagree, layer_ids_absent, layer_ids_malformed, layer_ids_out_of_range,
    embedding_not_captured, layers_differ, capture_switched_off, capture_count_wrong, hidden_size_differs,
    target_hidden_size_null,
)  # fmt: skip
