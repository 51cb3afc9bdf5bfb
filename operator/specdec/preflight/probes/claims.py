"""One probe per claim of the capability table: what a version's source says, found by small patterns."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from specdec.preflight.capabilities import LayerIdRule, RateMeaning
from specdec.preflight.probes.arguments import argument_names
from specdec.preflight.probes.wheel import Wheel

LLAMA = "models/llama_eagle3.py"
MLA = "models/kimi_k25_eagle3.py"
TARGET = "models/kimi_k25.py"
DEEPSEEK = "models/deepseek_v2.py"
ADAPTIVE = "speculative/adaptive_spec_params.py"
SET_LAYERS = "set_eagle3_layers_to_capture"


@dataclass(frozen=True)
class Claim:
    """A field of the table and how a wheel is asked about it."""

    field: str
    place: str
    ask: Callable[[Wheel], object]


def layer_names(wheel: Wheel) -> tuple[str, ...]:
    """The module is called midlayer, or layers with the old name mapped onto it."""
    text = wheel.source(LLAMA)
    if "self.midlayer = LlamaDecoderLayer(" in text:
        return ("midlayer",)
    mapped = '"midlayer": "layers.0"' in wheel.function(LLAMA, "load_weights")
    return ("midlayer", "layers.0") if "self.layers = nn.ModuleList(" in text and mapped else ()


def many_layers(wheel: Wheel) -> bool:
    """Old versions raise for more than one layer."""
    return "num_hidden_layers != 1" not in wheel.source(LLAMA)


def counts_ids(wheel: Wheel) -> bool:
    """The width of fc is a fixed multiple, or follows the ids of eagle_config."""
    text = wheel.source(LLAMA)
    return (
        "self.hidden_size_in * self.num_aux_hidden_states" in text and "self.hidden_size_in * 3" not in text
    )


def layer_ids(wheel: Wheel) -> LayerIdRule | None:
    """The capture hook adds one always, or only if the first id is 1."""
    text = wheel.function(DEEPSEEK, SET_LAYERS)
    if "layer_ids[0] == 1" in text and "list(layer_ids)" in text:
        return LayerIdRule.AS_WRITTEN
    return LayerIdRule.PLUS_ONE if "[val + 1 for val in layer_ids]" in text else None


def default_layers(wheel: Wheel) -> str:
    """What is captured without ids; the checks rely on one formula for all versions."""
    text = wheel.function(DEEPSEEK, SET_LAYERS)
    found = re.search(r"layers_to_capture = \[(2, num_layers // 2, num_layers - 3)\]", text)
    return found[1] if found else ""


def embedding_capture(wheel: Wheel) -> bool:
    """Captured inside the layer's boundary, or by adding a residual that layer 0 does not have yet."""
    text = wheel.source(DEEPSEEK)
    return "captured_last_layer_outputs" in text and "hidden_states + residual)" not in text


def blackwell_default(wheel: Wheel) -> bool:
    """The family's default attention backend on SM100; the code moved twice."""
    places = ("server_args.py", "arg_groups/overrides.py", "arg_groups/model_overrides/deepseek_v2.py")
    said = "Use trtllm_mla as attention backend on sm100 for DeepseekV3ForCausalLM"
    return any(
        said in text and "KimiK25ForConditionalGeneration" in text
        for text in (wheel.source(place) for place in places)
    )


def token_map_offsets(wheel: Wheel) -> bool:
    """The target id is d2t[i] + i."""
    return "loaded_weight + torch.arange(loaded_weight.shape[0])" in wheel.function(LLAMA, "load_weights")


def drops_unknown_names(wheel: Wheel) -> bool:
    """Unknown tensor names are dropped without a word."""
    text = wheel.function(LLAMA, "load_weights")
    return "if param_name in params_dict:" in text and "logger" not in text


def others_add_one(wheel: Wheel) -> bool:
    """Targets of other classes read every id as a layer's output."""
    files = ("models/llama.py", "models/qwen3.py", "models/qwen3_moe.py")
    return all("[val + 1 for val in layer_ids]" in wheel.function(file, SET_LAYERS) for file in files)


def norm_before_residual(wheel: Wheel) -> bool:
    """The flag that speculators' training sets by default."""
    return "norm_before_residual" in wheel.source(LLAMA) + wheel.source(MLA)


def accept_rate(wheel: Wheel) -> RateMeaning | None:
    """What the gauge's formula divides by."""
    paths = (
        "managers/scheduler_components/metrics_reporter.py",
        "observability/scheduler_metrics_mixin.py",
        "managers/scheduler_metrics_mixin.py",
    )
    text = "".join(wheel.source(path) for path in paths)
    assigned = re.search(r"spec_accept_rate = \((.{0,160}?)\n {12}\)", text, re.DOTALL)
    before = text[: assigned.start()][-700:] if assigned else ""
    if not assigned:
        return None
    strict = re.search(r"num_correct_drafts|accepted_drafts", assigned[1]) and "- 1" in before
    return RateMeaning.STRICT if strict else RateMeaning.WITH_BONUS


def has(path: str, text: str) -> Callable[[Wheel], object]:
    """Probe whether a file contains a text."""
    return lambda wheel: text in wheel.source(path)


def argument(name: str) -> Callable[[Wheel], object]:
    """Probe whether the command line knows an argument."""
    return lambda wheel: name in argument_names(wheel)


CLAIMS = (
    Claim("layer_names", LLAMA, layer_names),
    Claim("many_layers", LLAMA, many_layers),
    Claim("counts_ids", LLAMA, counts_ids),
    Claim("mla_drafter", MLA, has(MLA, "class Eagle3DeepseekV2ForCausalLM")),
    Claim("kimi_captures", TARGET, has(TARGET, f"def {SET_LAYERS}")),
    Claim("layer_ids", DEEPSEEK, layer_ids),
    Claim("embedding_capture", DEEPSEEK, embedding_capture),
    Claim("counts_captures", DEEPSEEK, has(DEEPSEEK, "AuxHiddenStatePacker(len(self.layers_to_capture))")),
    Claim("fc_norm", LLAMA, has(LLAMA, 'getattr(config, "fc_norm", None)')),
    Claim("norm_output", LLAMA, has(LLAMA, 'getattr(config, "norm_output", False)')),
    Claim("norm_before_fc", LLAMA, has(LLAMA, "self.norm_before_fc")),
    Claim("draft_window", "server_args.py", argument("--speculative-draft-window-size")),
    Claim("reduced_capture", DEEPSEEK, embedding_capture),
    Claim("fusion_switch", "server_args.py", argument("--enforce-disable-flashinfer-allreduce-fusion")),
    Claim("adaptive", "server_args.py", argument("--speculative-adaptive")),
    Claim("zero_steps", ADAPTIVE, has(ADAPTIVE, "must be a list of non-negative ints")),
    Claim("plugins", "plugins/__init__.py", has("plugins/__init__.py", '"sglang.srt.plugins"')),
    Claim("accept_rate", "metrics reporter", accept_rate),
    Claim(
        "verify_counter", "observability/metrics_collector.py",
        has("observability/metrics_collector.py", "sglang:spec_verify_calls_total"),
    ),
    Claim("ready_route", "entrypoints/http_server.py", has("entrypoints/http_server.py", '@app.get("/ready")')),
    Claim("graph_flags_renamed", "server_args.py", argument("--cuda-graph-max-bs-decode")),
)  # fmt: skip
"""The table's fields."""

ALWAYS = (
    Claim("captured without ids", DEEPSEEK, lambda wheel: default_layers(wheel) == "2, num_layers // 2, num_layers - 3"),
    Claim("Llama and Qwen3 targets count outputs", "models/llama.py, qwen3.py", others_add_one),
    Claim("Kimi-K2.5 on Blackwell runs on trtllm_mla", "server_args.py, arg_groups", blackwell_default),
    Claim("d2t holds offsets", LLAMA, token_map_offsets),
    Claim("unknown names are dropped silently", LLAMA, drops_unknown_names),
    Claim("norm_before_residual is not read", LLAMA, lambda wheel: not norm_before_residual(wheel)),
    Claim("head borrowed only without draft_vocab_size", LLAMA, has(LLAMA, "if config.draft_vocab_size is None:")),
    Claim("fc bypassed at equal widths", LLAMA, has(LLAMA, "if hidden_states.shape[-1] != embeds.shape[-1]:")),
)  # fmt: skip
"""What the checks take for granted of every listed version."""
