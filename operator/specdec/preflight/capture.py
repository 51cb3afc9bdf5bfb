"""Which of the target's hidden states a drafter gets, and which it was trained on.

Both are counted as *boundaries*: boundary n is the input of layer n, which is the output of layer n - 1;
boundary 0 is the embedding's output. What a list of ids means depends on the trainer and, since SGLang
0.5.13 (sgl-project/sglang#25454), on the engine's version: that is why the same file can be right on one
image and one layer off on the next, without any error.
"""

from __future__ import annotations

from specdec.preflight.capabilities import LayerIdRule
from specdec.preflight.facts import DEEPSEEK_TARGETS, PLUS_ONE_TARGETS, Case, Convention, number
from specdec.preflight.layout import Layout

EMBEDDING_PATCH = "embedding_capture"
KIMI = "KimiK25ForConditionalGeneration"


def target_layers(case: Case) -> int | None:
    """Number of the target's layers."""
    return number(case.target.text, "num_hidden_layers") if case.target else None


def default_boundaries(layers: int) -> tuple[int, ...]:
    """What SGLang captures without ids (models/deepseek_v2.py and llama.py, all listed versions)."""
    return (2, layers // 2, layers - 3)


def id_rule(case: Case) -> LayerIdRule | None:
    """How this engine reads ids for this target; None if either is unknown."""
    if case.target is None:
        return None
    if case.target.architecture in PLUS_ONE_TARGETS:
        return LayerIdRule.PLUS_ONE
    if case.target.architecture in DEEPSEEK_TARGETS and case.engine is not None:
        return case.engine.layer_ids
    return None


def captured(case: Case) -> tuple[int, ...] | None:
    """Boundaries that the engine will capture, in the order that `fc` gets them; None if that is not known."""
    if case.drafter is None:
        return None
    if case.engine and case.target and not case.engine.kimi_captures and case.target.architecture == KIMI:
        return None
    ids = case.drafter.nested_ids
    if ids is None:
        layers = target_layers(case)
        known = case.target is not None and case.target.architecture in DEEPSEEK_TARGETS | PLUS_ONE_TARGETS
        return default_boundaries(layers) if layers and known else None
    rule = id_rule(case)
    return None if rule is None else tuple(sorted(_read(ids, rule, case)))


def _read(ids: tuple[int, ...], rule: LayerIdRule, case: Case) -> tuple[int, ...]:
    """Boundaries that ids lead to; the plugin's patch answers -1 with the embedding and leaves others to SGLang."""
    asks_embedding = -1 in ids and EMBEDDING_PATCH in case.patches and rule is LayerIdRule.AS_WRITTEN
    others = tuple(value for value in ids if value != -1) if asks_embedding else ids
    shift = rule is LayerIdRule.PLUS_ONE or others[:1] == (1,)
    read = tuple(value + 1 if shift else value for value in others)
    return (0, *read) if asks_embedding else read


def trained_convention(case: Case) -> Convention | None:
    """What the ids in the drafter's config count, if a person or the format says so."""
    if case.declared.convention is not None:
        return case.declared.convention
    layout = case.drafter.layout if case.drafter else Layout.UNKNOWN
    return {Layout.SPECULATORS_OLD: Convention.OUTPUT, Layout.SPECULATORS: Convention.BOUNDARY}.get(layout)


def trained(case: Case) -> tuple[int, ...] | None:
    """Boundaries that the drafter was trained on; None if nobody says."""
    if case.drafter is None:
        return None
    convention = trained_convention(case)
    declared = case.declared.layer_ids
    if declared is not None:
        if convention is not None:
            return in_boundaries(declared, convention)
        rule = id_rule(case)
        return None if rule is None else tuple(sorted(_read(declared, rule, case)))
    ids = case.drafter.nested_ids or case.drafter.top_ids
    if ids is None:
        return _by_trainers_default(case)
    return None if convention is None else in_boundaries(ids, convention)


def _by_trainers_default(case: Case) -> tuple[int, ...] | None:
    """What trainers capture when nobody chose: only they know, so only for formats that name their trainer."""
    layers, layout = target_layers(case), case.drafter.layout if case.drafter else None
    if layers is None:
        return None
    if layout is Layout.SPECULATORS_OLD:
        # speculators 0.3 data_generation/custom_worker.py: outputs of 2, n // 2, n - 3.
        return in_boundaries(default_boundaries(layers), Convention.OUTPUT)
    # speculators 0.5 counts inputs; SpecForge captures outputs 1, n // 2 - 1, n - 4, which is the same.
    return default_boundaries(layers) if layout in {Layout.SPECULATORS, Layout.SPECFORGE} else None


def in_boundaries(ids: tuple[int, ...], convention: Convention) -> tuple[int, ...]:
    """Count a trainer's ids as boundaries."""
    return tuple(value + 1 for value in ids) if convention is Convention.OUTPUT else ids


def rendering(boundaries: tuple[int, ...], case: Case) -> tuple[int, ...] | None:
    """Ids to write so that this engine captures these boundaries; None if it can't, or is unknown."""
    rule, layers = id_rule(case), target_layers(case)
    if rule is None or layers is None or list(boundaries) != sorted(set(boundaries)):
        return None
    if boundaries[0] < 0 or boundaries[-1] >= layers:
        return None
    if rule is LayerIdRule.PLUS_ONE:
        return tuple(value - 1 for value in boundaries) if boundaries[0] > 0 else None
    if boundaries[0] == 0 and not (case.engine and case.engine.embedding_capture):
        return None
    # A list that begins with 1 is read as outputs; the order of the others does not matter.
    return (*boundaries[1:], 1) if boundaries[0] == 1 and len(boundaries) > 1 else boundaries
