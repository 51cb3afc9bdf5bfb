"""The story of every code: what the fault is, how it shows, how it is mended, where the rule comes from.

`--explain` and the reference page are made of it. Codes of checks carry theirs; those of reading are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specdec.preflight.checks import CHECKS
from specdec.preflight.finding import Severity


@dataclass(frozen=True)
class Story:
    """One code, told."""

    code: str
    severity: Severity
    what: str
    symptom: str
    mend: str
    source: str


def _file(code: str, what: str, mend: str, symptom: str = "", severity: Severity = Severity.ERROR) -> Story:
    shown = symptom or "The engine ends while loading, or loads something else than was meant."
    return Story(code, severity, what, shown, mend, "huggingface/safetensors (format), SGLang model_loader")


READING = (
    _file("FileMissing", "The folder or a file does not exist.", "Check the path and the claim."),
    _file("NotReadable", "A file can't be read by this user.", "Make it readable for all; for a pod, or for user or group 10001."),
    _file("ConfigMissing", "The folder has no config.json.", "Name the model's own folder."),
    _file("ConfigMalformed", "config.json is not one JSON object with every key once.", "Copy or export it again."),
    _file("ConfigTooLarge", "config.json is far larger or deeper than any config.", "Name the model's own folder."),
    _file("RemoteCode", "The drafter's config runs Python code from its folder.", "Remove auto_map.",
          "Whoever wrote the drafter runs code in the engine."),
    _file("NoWeights", "The folder has no safetensors file.", "Check the path."),
    _file("PickleOnly", "The weights are pickles, which run code when they are read.", "Convert them to safetensors.",
          "Whoever wrote the drafter runs code in the engine."),
    _file("IndexMalformed", "model.safetensors.index.json has no weight_map.", "Export it again."),
    _file("IndexTooLarge", "The index is larger or deeper than any index.", "Export it again."),
    _file("IndexWrong", "The index and a file's header disagree on which tensors it has.", "Export the index again."),
    _file("ShardMissing", "The index names a file that is not there.", "Copy the folder again."),
    _file("ShardNotIndexed", "A file is not in the index, so its tensors are never loaded.", "Remove it, or list it.",
          severity=Severity.WARNING),
    _file("LinkOutsideFolder", "A link or the index leads out of the model's folder.", "Copy the file into it."),
    _file("HeaderMalformed", "A header is not what the safetensors format allows.", "Copy the file again."),
    _file("HeaderTooLarge", "A header is longer, or has more tensors, than any real one.", "Export the file again.",
          "A parser that believes it takes gigabytes."),
    _file("FileTruncated", "A file is shorter than its header says: a copy broke off.", "Copy it again."),
    _file("TensorOutOfBounds", "A tensor's end lies before its beginning.", "Export the file again."),
    _file("TensorSizeWrong", "A tensor has not as many bytes as its type and shape need.", "Export the file again."),
    _file("TensorsMisplaced", "Tensors overlap, or bytes between or after them belong to none.",
          "Export the file again.", "Loaders differ on what they make of it."),
    _file("TensorRepeated", "A name occurs twice, in one file or in two.", "Remove the file of another export.",
          "Which of them counts differs between loaders."),
    _file("PathOutsideModels", "The folder is not below a mounted claim.", "Name a folder of a claim."),
    _file("TargetNotFound", "The target's folder, or a file in it, isn't in its claim.", "Check the claim and the path."),
    _file("NotJudged", "The preflight itself failed.", "Report it; the engine still refuses what it can't load.",
          "The drafter is served unjudged.", severity=Severity.UNKNOWN),
    _file("HubUnreachable", "The hub did not answer, or offline mode forbids to ask it.",
          "Check the network, HF_ENDPOINT and HF_HUB_OFFLINE, or name a local folder.",
          "Nothing could be judged.", severity=Severity.UNKNOWN),
    _file("DtypeUnknown", "A tensor has a type that the format does not know.", "Export the file again."),
)  # fmt: skip

STORIES: Mapping[str, Story] = {
    **{story.code: story for story in READING},
    **{
        check.code: Story(check.code, check.severity, check.story, check.symptom, check.mend, check.source)
        for check in CHECKS
    },
}

LIVE = (
    ("Names, shapes and norms that load but mean something else", "the plugin's strict load; the probe after a swap"),
    ("Draft weights lost by release or resume of memory (sgl-project/sglang#31674)", "the probe, then live acceptance"),
    ("A stale drafter after a distributed weight update (#28257, #27718)", "routes for updates are closed; live acceptance"),
    ("Another chat template or reasoning mode than in training", "live acceptance against the active drafter"),
    ("A domain that training left out", "live acceptance by stratum; the user's floor"),
    ("Acceptance that falls with the prefix cache (vllm-project/vllm#41838)", "live acceptance over time"),
    ("A gauge that counts the bonus token, or keeps its last value without traffic", "the plugin's own counters"),
    ("Right shapes, wrong weights", "the probe after a swap, before users' requests"),
)  # fmt: skip
"""What no file shows, and what catches it."""
