"""Mending what needs no change of a weight: in the overlay's config, while loading, or in the engine's arguments.

Each step looks at the case as the steps before it left it, and says what it did. What can't be mended stays
for the checks to find. Repairs while loading (names, the token map) are done by this project's plugin, so
they are offered only for versions that it runs on; `kubectl specdec convert` writes them into files instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from specdec.preflight.arguments import Arguments
from specdec.preflight.capture import captured, rendering, trained, trained_convention
from specdec.preflight.checks.context import OVERWRITE, context_length, overwrites, served_context
from specdec.preflight.checks.norms import trained_window
from specdec.preflight.facts import LAYER_IDS, Case, mapping
from specdec.preflight.finding import Repair, some
from specdec.preflight.header import Entry
from specdec.preflight.layout import LLAMA, Layout
from specdec.preflight.loading import ABSOLUTE_TO_OFFSETS, NOTHING, Overlay
from specdec.preflight.overlay import UNREAD
from specdec.preflight.wiring import borrows_head, expected, flag, norm_before_fc, wiring

WRAPPERS = ("module.", "_orig_mod.", "draft_model.", "drafter.", "eagle_module.", "eagle.", "model.")
"""Prefixes that training wrappers leave on every name."""
VERIFIER = re.compile(r"^(verifier_\w+|target_\w+)\.")
"""Copies of the target's weights that a trainer saved along."""


class Into(StrEnum):
    """Where repairs go."""

    OVERLAY = "overlay"
    FILES = "files"
    """Files are rewritten, so that every version can load them."""


@dataclass(frozen=True)
class Mended:
    """A case after its repairs."""

    case: Case
    repairs: tuple[Repair, ...] = ()
    overlay: Overlay = NOTHING
    into: Into = Into.OVERLAY

    @property
    def while_loading(self) -> bool:
        """Whether tensors may be changed between file and engine."""
        if self.into is Into.FILES:
            return True
        engine = self.case.engine
        return engine is not None and engine.served and "overlay" in self.case.patches

    def with_config(self, code: str, said: str, config: Mapping[str, Any]) -> Mended:
        """Change the config."""
        if self.case.drafter is None:
            return self
        drafter = replace(self.case.drafter, config=dict(config))
        return replace(
            self, case=replace(self.case, drafter=drafter), repairs=(*self.repairs, Repair(code, said))
        )


def mend(case: Case, into: Into = Into.OVERLAY) -> Mended:
    """Apply all repairs that this case needs and allows."""
    mended = Mended(case, into=into)
    for step in STEPS:
        if mended.case.drafter is not None:
            mended = step(mended, dict(mended.case.drafter.config))
    return mended


def _convert_speculators(mended: Mended, config: dict[str, Any]) -> Mended:
    drafter = mended.case.drafter
    if drafter is None or not drafter.layout.speculators or "transformer_layer_config" not in config:
        return mended
    inner = dict(mapping(config, "transformer_layer_config"))
    kept = ("draft_vocab_size", "norm_before_residual", "norm_before_fc", "norm_output", "fc_norm", LAYER_IDS,
            "target_hidden_size", "embed_requires_grad")  # fmt: skip
    flat = {
        **{key: value for key, value in inner.items() if key not in UNREAD},
        # A flag that is off is as good as absent, and a swap wants equal configs.
        **{key: config[key] for key in kept if config.get(key) not in (None, False)},
        "architectures": [LLAMA],
        "model_type": "llama",
        "tie_word_embeddings": False,
    }
    if config.get("num_hidden_layers") is None:
        flat.setdefault("num_hidden_layers", 1)
    return mended.with_config(
        "SpeculatorsNotConverted",
        f"the config of {drafter.layout.value} was written as SGLang reads it",
        flat,
    )


def _name_architecture(mended: Mended, config: dict[str, Any]) -> Mended:
    drafter = mended.case.drafter
    if drafter is None or drafter.layout is not Layout.MISNAMED or drafter.architecture == LLAMA:
        return mended
    said = f"architectures was set from {drafter.architecture} to {LLAMA}, which is what the weights are"
    return mended.with_config("ArchitectureMisnamed", said, config | {"architectures": [LLAMA]})


def _drop_null_width(mended: Mended, config: dict[str, Any]) -> Mended:
    if config.get("target_hidden_size", 1) is not None:
        return mended
    del config["target_hidden_size"]
    return mended.with_config(
        "TargetHiddenSizeNull", "target_hidden_size, which was null, was removed", config
    )


def _declare_vocabulary(mended: Mended, config: dict[str, Any]) -> Mended:
    drafter = mended.case.drafter
    if drafter is None or drafter.mla or "draft_vocab_size" in config or not drafter.layout.supported:
        return mended
    if flag(config, "tie_word_embeddings"):
        return mended
    head = wiring(drafter, mended.case.engine).fed.get("lm_head.weight")
    rows = head.shape[0] if head is not None and head.shape else None
    said = f"draft_vocab_size was set to {'null: the head is the target' if rows is None else rows}"
    said += "'s" if rows is None else ", the rows of lm_head.weight"
    return mended.with_config("DraftVocabularyUndeclared", said, config | {"draft_vocab_size": rows})


def _move_ids(mended: Mended, config: dict[str, Any]) -> Mended:
    drafter = mended.case.drafter
    if (
        drafter is None
        or drafter.layout.speculators
        or not drafter.top_ids
        or drafter.eagle_config.get(LAYER_IDS) is not None
    ):
        return mended
    eagle = {**drafter.eagle_config, LAYER_IDS: list(drafter.top_ids)}
    del config[LAYER_IDS]
    said = f"{LAYER_IDS} was moved into eagle_config, the only place where SGLang captures from"
    return mended.with_config("LayerIdsElsewhere", said, config | {"eagle_config": eagle})


def _render_ids(mended: Mended, config: dict[str, Any]) -> Mended:
    """Write the ids that this version reads as the trained layers, if it is known how they count."""
    case, wanted = mended.case, trained(mended.case)
    if case.drafter is None or wanted is None:
        return mended
    unseen = case.drafter.nested_ids is None and case.drafter.top_ids is not None
    if tuple(sorted(wanted)) == captured(case) and not unseen:
        return mended
    by_format = case.drafter.layout.speculators or case.drafter.layout is Layout.SPECFORGE
    if trained_convention(case) is None and not by_format:
        return mended
    ids = rendering(wanted, case)
    if ids is None or case.engine is None:
        return mended
    before = case.drafter.nested_ids or case.drafter.top_ids
    said = (
        f"layer ids {list(before) if before else '(none)'} were written as {list(ids)},"
        f" by which SGLang {case.engine.version} captures the inputs of layers {list(wanted)}"
    )
    eagle = {**case.drafter.eagle_config, LAYER_IDS: list(ids)}
    config.pop(LAYER_IDS, None)
    # The new ids are the engine's, so what a person or trainer said of the old ones holds no longer.
    written = mended.with_config("LayersDiffer", said, config | {"eagle_config": eagle})
    declared = replace(case.declared, layer_ids=None, convention=None)
    drafter = written.case.drafter
    if drafter is not None and drafter.layout.speculators:
        drafter = replace(drafter, layout=Layout.SGLANG)
    return replace(written, case=replace(written.case, declared=declared, drafter=drafter))


def _set_norm_flags(mended: Mended, config: dict[str, Any]) -> Mended:
    drafter, engine = mended.case.drafter, mended.case.engine
    if drafter is None or engine is None:
        return mended
    fed = wiring(drafter, engine).fed
    flags = []
    if engine.fc_norm and "fc_norm.0.weight" in fed and not flag(config, "fc_norm", "use_aux_norm"):
        flags.append("fc_norm")
    if (
        engine.norm_before_fc
        and not drafter.mla
        and "input_norm.weight" in fed
        and not norm_before_fc(drafter)
    ):
        flags.append("norm_before_fc")
    if not flags:
        return mended
    said = f"{' and '.join(flags)} was set: the checkpoint has weights for it"
    return mended.with_config("NormFlagMissing", said, config | dict.fromkeys(flags, True))


def _rename(mended: Mended, _config: dict[str, Any]) -> Mended:
    """Strip what wrappers left on names; only if every parameter is fed then."""
    case, shapes = mended.case, expected(mended.case)
    if case.drafter is None or shapes is None or not mended.while_loading:
        return mended
    if _unfed(case, shapes) == 0 and not wiring(case.drafter, case.engine).dropped:
        return mended
    renames = {name: new for name in case.drafter.entries if (new := _plain(name, case)) != name}
    entries = {renames.get(name, name): entry for name, entry in case.drafter.entries.items()}
    renamed = replace(case, drafter=replace(case.drafter, entries=entries))
    if not renames or len(entries) < len(case.drafter.entries) or _unfed(renamed, shapes) > 0:
        return mended
    first = next(iter(renames))
    said = f"{len(renames)} tensors are renamed, for example {first} to {renames[first]}"
    return replace(
        mended,
        case=renamed,
        repairs=(*mended.repairs, Repair("ParametersNotFed", said)),
        overlay=replace(mended.overlay, renames=renames),
    )


def _plain(name: str, case: Case) -> str:
    """Name without wrappers, as this engine's loader wants it."""
    while wrapper := next((prefix for prefix in WRAPPERS if name.startswith(prefix)), ""):
        name = name.removeprefix(wrapper)
    old = case.engine is not None and "layers.0" not in case.engine.layer_names
    return re.sub(r"^layers\.0\.", "midlayer.", name) if old else name


def _unfed(case: Case, shapes: Mapping[str, tuple[int, ...]]) -> int:
    fed = wiring(case.drafter, case.engine).fed if case.drafter else {}
    return sum(name not in fed for name in shapes)


def _offsets(mended: Mended, _config: dict[str, Any]) -> Mended:
    drafter = mended.case.drafter
    if drafter is None or not mended.while_loading or not drafter.tokens.looks_absolute:
        return mended
    name = next(name for name in drafter.entries if name.rpartition(".")[2] == "d2t")
    offsets = tuple(target - index for index, target in enumerate(drafter.tokens.d2t or ()))
    tokens = replace(drafter.tokens, d2t=offsets)
    said = f"{name} holds absolute ids; the index is subtracted from each"
    return replace(
        mended,
        case=replace(mended.case, drafter=replace(drafter, tokens=tokens)),
        repairs=(*mended.repairs, Repair("TokenMapAbsolute", said)),
        overlay=replace(mended.overlay, transforms={name: ABSOLUTE_TO_OFFSETS}),
    )


def _drop_copies(mended: Mended, _config: dict[str, Any]) -> Mended:
    """Leave out copies of the target's weights, which the drafter's loader would drop anyway."""
    drafter = mended.case.drafter
    if drafter is None or not mended.while_loading:
        return mended
    drops = tuple(name for name in drafter.entries if VERIFIER.match(name))
    drops += tuple(name for name in drafter.entries if name == "lm_head.weight" and borrows_head(drafter))
    if not drops:
        return mended
    entries: dict[str, Entry] = {name: entry for name, entry in drafter.entries.items() if name not in drops}
    said = f"{some(drops)} is left out: the drafter uses the target's"
    return replace(
        mended,
        case=replace(mended.case, drafter=replace(drafter, entries=entries)),
        repairs=(*mended.repairs, Repair("TensorsDropped", said)),
        overlay=replace(mended.overlay, drops=drops),
    )


def _pass_window(mended: Mended, _config: dict[str, Any]) -> Mended:
    case, window = mended.case, trained_window(mended.case)
    name = "--speculative-draft-window-size"
    if window is None or case.drafter is None or case.drafter.mla or case.arguments.has(name):
        return mended
    if case.engine is None or not case.engine.draft_window:
        return mended
    arguments = replace(case.arguments, values={**case.arguments.values, name: str(window)})
    return _with_arguments(mended, arguments, "DraftWindowMissing", f"{name} {window} is passed, as trained")


def _overwrite_context(mended: Mended, config: dict[str, Any]) -> Mended:
    served, own = served_context(mended.case), context_length(config)
    if served is None or own >= served or overwrites(mended.case):
        return mended
    environment = {**mended.case.arguments.environment, OVERWRITE: "1"}
    arguments = replace(mended.case.arguments, environment=environment)
    return _with_arguments(
        mended,
        arguments,
        "ContextTooShort",
        f"{OVERWRITE}=1 is set: the drafter's context of {own} is below {served}",
    )


def _with_arguments(mended: Mended, arguments: Arguments, code: str, said: str) -> Mended:
    case = replace(mended.case, arguments=arguments)
    return replace(mended, case=case, repairs=(*mended.repairs, Repair(code, said)))


STEPS: tuple[Callable[[Mended, dict[str, Any]], Mended], ...] = (
    _convert_speculators, _name_architecture, _drop_null_width, _rename, _declare_vocabulary, _drop_copies, _move_ids,
    _render_ids, _set_norm_flags, _offsets, _pass_window, _overwrite_context,
)  # fmt: skip
"""In order: later steps rely on earlier ones."""
