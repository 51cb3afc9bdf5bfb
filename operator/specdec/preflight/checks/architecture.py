"""Whether the engine knows what kind of drafter this is."""

from __future__ import annotations

from specdec.preflight.capabilities import first_with
from specdec.preflight.check import check
from specdec.preflight.facts import Case, number
from specdec.preflight.finding import Fault, printable
from specdec.preflight.layout import LLAMA, Layout


@check(
    symptom="The engine ends at start, or loads a class that drafts nothing of use.",
    mend="Serve an EAGLE-3 drafter; other kinds need another algorithm.",
    source="SGLang models/registry.py; vllm-project/speculators",
)
def format_unsupported(case: Case) -> Fault | None:
    """The checkpoint is of a kind that EAGLE-3 in SGLang can't serve."""
    if case.drafter is None or case.drafter.layout.supported:
        return None
    name = printable(case.drafter.architecture) or "no architecture"
    kind = "nothing known" if case.drafter.layout is Layout.UNKNOWN else case.drafter.layout.value
    return Fault(f"{name}: {kind}", "an EAGLE-3 drafter", "train or export it as EAGLE-3 for this target")


@check(
    symptom="unrecognized model type, or missing config keys at start.",
    mend="Let the overlay convert the config, or run `kubectl specdec convert`.",
    source="SGLang 0.5.23 has no speculators support; vllm-project/vllm#21345",
)
def speculators_not_converted(case: Case) -> Fault | None:
    """The config is nested as speculators writes it, and SGLang reads flat ones only."""
    if case.drafter is None or not case.drafter.layout.speculators:
        return None
    if "transformer_layer_config" not in case.drafter.config and case.drafter.architecture == LLAMA:
        return None
    return Fault(
        f"a config in the format of {case.drafter.layout.value}",
        "SGLang's flat config",
        "it needs conversion: kubectl specdec convert, or allow repair",
    )


@check(
    symptom="The engine builds another class: wrong hidden states, or an error at start.",
    mend=f"Set architectures to [{LLAMA}].",
    source="SGLang models/llama_eagle3.py, sgl-project/sglang#33966",
)
def architecture_misnamed(case: Case) -> Fault | None:
    """The weights are EAGLE-3's, but the class is called as another tool calls it."""
    if (
        case.drafter is None
        or case.drafter.layout is not Layout.MISNAMED
        or case.drafter.architecture == LLAMA
    ):
        return None
    return Fault(
        f"architecture {printable(case.drafter.architecture)} with EAGLE-3 weights",
        LLAMA,
        "set architectures in config.json",
    )


@check(
    symptom="unrecognized model type kimi_k2 at start.",
    mend="Use SGLang 0.5.12 or newer.",
    source="SGLang models/kimi_k25_eagle3.py (0.5.12), sgl-project/sglang#25673",
)
def architecture_too_new(case: Case) -> Fault | None:
    """The drafter has latent attention (MLA), and this version has no class for that."""
    if case.drafter is None or case.engine is None or not case.drafter.mla or case.engine.mla_drafter:
        return None
    return Fault(
        f"{case.drafter.architecture} on SGLang {case.engine.version}",
        f"SGLang {first_with(lambda row: row.mla_drafter)} or newer",
        "use a newer engine image",
    )


@check(
    symptom="ValueError: EAGLE3 currently only supports 1 layer.",
    mend="Use a drafter of one layer, or for the Llama class SGLang 0.5.12 or newer.",
    source="SGLang models/llama_eagle3.py, models/kimi_k25_eagle3.py",
)
def too_many_layers(case: Case) -> Fault | None:
    """The drafter has more layers than its class allows in this version."""
    if case.drafter is None:
        return None
    layers = number(case.drafter.config, "num_hidden_layers")
    many = not case.drafter.mla and (case.engine is None or case.engine.many_layers)
    if layers is None or layers == 1 or (many and layers <= 8):
        return None
    return Fault(f"num_hidden_layers {layers}", "1", "a drafter has one layer; is this the target's config?")


CHECKS = (
    format_unsupported, speculators_not_converted, architecture_misnamed, architecture_too_new, too_many_layers,
)  # fmt: skip
