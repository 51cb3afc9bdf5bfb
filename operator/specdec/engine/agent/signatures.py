"""Known ends of SGLang, each told by one line of its log: reason, likely cause, what to do.

The lines are those of SGLang 0.5.17 to 0.5.23, PyTorch 2.11 to 2.14, NCCL, transformers and uvicorn; `tests/data/agent/logs`
holds what the real ones wrote, and where a line was found that could not be provoked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from specdec.engine.agent.failures import Blame


@dataclass(frozen=True)
class Signature:
    """A line that tells the reason."""

    pattern: re.Pattern[str]
    reason: str
    blame: Blame
    cause: str
    """What most often lies behind it."""
    advice: str
    """What to do about it."""


def _signature(pattern: str, reason: str, blame: Blame, cause: str, advice: str) -> Signature:
    return Signature(re.compile(pattern), reason, blame, cause, advice)


SIGNATURES = (
    _signature(r"error: (?:unrecognized arguments|argument .*|ambiguous option).*", "ArgumentRefused", Blame.SURROUNDINGS,
               "this SGLang does not know the argument or its value", "correct the image's profile, or change engine.image"),
    _signature(r"Capture .*(?:graph|GRAPH) failed: .*", "GraphCaptureFailed", Blame.GRAPHS,
               "graphs of all batch sizes need more memory than is left", "the next start captures less"),
    _signature(r"captured \d+ (?:of|aux).*", "CaptureLayersMismatch", Blame.DRAFTER,
               "the drafter's config names layers that the target can't give", "correct its layer ids"),
    _signature(r"(?:Error while creating shared memory segment|failed to extend /dev/shm|unable to (?:allocate|open) shared memory"
               r"|out of shared memory).*", "SharedMemory", Blame.SURROUNDINGS,
               "the shared memory is too small for tensor parallelism", "raise engine.sharedMemory"),
    _signature(r"(?:\[Errno 28\]|No space left on device).*", "NoSpaceLeft", Blame.SURROUNDINGS,
               "a volume of the pod is full", "enlarge the cache volume, or clear it"),
    _signature(r"Not enough memory\. Please try to increase --mem-fraction-static.*", "KvCacheTooSmall", Blame.SURROUNDINGS,
               "the weights leave no room for the KV cache", "raise engine.memFractionStatic, or take larger or more GPUs"),
    _signature(r"(?:CUDA out of memory|CUDA error: out of memory|OutOfMemoryError: ).*", "OutOfMemory", Blame.SURROUNDINGS,
               "weights, KV cache and graphs exceed the GPU", "lower engine.memFractionStatic or engine.contextLength"),
    _signature(r"(?:can't allocate memory|Cannot allocate memory|MemoryError\b).*", "HostOutOfMemory", Blame.SURROUNDINGS,
               "the pod's memory limit is below what loading takes", "raise engine.resources.limits.memory"),
    _signature(r"(?:address already in use|Address already in use|[Pp]ort \d+ is (?:already )?in use|Port is already in use"
               r"|at \d+ is not available in \d+ seconds).*", "PortInUse", Blame.SURROUNDINGS,
               "another process of the pod holds the port", "the next start tries again"),
    _signature(r"(?:Watchdog caught collective operation timeout|NCCL.*(?:[Tt]imeout|timed out)|wait timeout after \d+ms).*",
               "NcclTimeout", Blame.SURROUNDINGS, "one rank of the tensor-parallel group hangs or has ended",
               "check the node's GPUs and their links"),
    _signature(r"(?:DistBackendError: .*|ncclSystemError.*|ncclInternalError.*|ncclUnhandledCudaError.*|ncclRemoteError.*"
               r"|ncclInvalidUsage.*|setting up NCCL communicator.*)", "NcclFailed", Blame.SURROUNDINGS,
               "the pod's GPUs can't talk to each other", "check GPU count, links and /dev/shm; set NCCL_DEBUG=WARN"),
    _signature(r"(?:NVIDIA driver on your system is too old|CUDA driver version is insufficient|no kernel image is available"
               r"|system not yet initialized|Error 80[234]:|unsupported display driver).*", "GpuUnusable", Blame.SURROUNDINGS,
               "the image's CUDA does not fit the node's driver or GPU", "update the driver, or take another image"),
    _signature(r"(?:No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device|invalid device ordinal"
               r"|libcuda\.so\.1: cannot open).*", "GpuMissing", Blame.SURROUNDINGS,
               "the container sees fewer GPUs than it uses", "set engine.tensorParallel and the GPU limit alike"),
    _signature(r"(?:uncorrectable ECC error|GPU is lost|fallen off the bus|CUDA error: unknown error).*", "GpuBroken",
               Blame.SURROUNDINGS, "the GPU itself failed", "drain the node and reset the GPU"),
    _signature(r"CUDA error: (?:device-side assert triggered|an illegal memory access).*", "GpuAccessFault", Blame.UNKNOWN,
               "an index left its tensor, as a wrong token map makes it", "look at what was swapped in last"),
    _signature(r"(?:EAGLE is not supported in (?:decode )?attention backend|backend can only be used with (?:non-)?MLA models"
               r"|Invalid attention backend|FlashAttention v3 Backend requires).*", "AttentionBackendUnsupported", Blame.DRAFTER,
               "the attention backend can't run this drafter", "name another for it in the image's profile"),
    _signature(r"(?:Unknown quantization method|Invalid quantization method|Quantization method specified in the model config"
               r"|quantization method \S+ is not supported|is not supported for quantization).*", "QuantizationUnsupported",
               Blame.SURROUNDINGS, "this SGLang or GPU lacks the checkpoint's quantisation", "take another checkpoint, or change engine.image"),
    _signature(r"(?:Please (?:set|pass) (?:the (?:option|argument) )?`?trust_remote_code=True|contains custom code which must be"
               r"|requires you to execute the).*", "RemoteCodeNeeded", Blame.SURROUNDINGS,
               "the target's config brings code of its own", "set engine.trustRemoteCode if you trust it"),
    _signature(r"context_length \(\d+\) is greater than the derived context_length.*", "DraftContextTooShort",
               Blame.DRAFTER, "the drafter was trained for a shorter context", "lower engine.contextLength, or retrain it"),
    _signature(r"(?:Model architectures .* are not supported for now|Cannot find model module|does not recognize this architecture).*",
               "ArchitectureUnsupported", Blame.UNKNOWN, "this SGLang does not know the model's class", "take a newer image"),
    _signature(r"(?:Unrecognized model in|Can't load the configuration of|does not appear to have a file named config\.json"
               r"|It looks like the config file at).*", "ConfigUnusable", Blame.UNKNOWN,
               "config.json is missing or damaged", "copy the model's folder again"),
    _signature(r"(?:SafetensorError: |Error while deserializing header|invalid load key).*", "WeightsUnreadable", Blame.UNKNOWN,
               "a weight file is damaged", "copy it again"),
    _signature(r"(?:divisible by tensor parallel size|must be divisible by .*tp|is not divisible by \d+).*",
               "TensorParallelUnfit", Blame.SURROUNDINGS, "the model's heads can't be split so", "change engine.tensorParallel"),
    _signature(r"(?:can't start new thread|pthread_create failed|fork: retry|BlockingIOError: \[Errno 11\]).*", "TooManyThreads",
               Blame.SURROUNDINGS, "the pod's limit of processes is used up", "raise the node's podPidsLimit"),
    _signature(r"(?:couldn't connect to 'https://huggingface\.co'|LocalEntryNotFoundError|offline mode is enabled).*",
               "HubUnreachable", Blame.SURROUNDINGS, "SGLang looks for a file that is not in the model's folder",
               "complete the folder: nothing is downloaded"),
    _signature(r"PermissionError: .*", "NotReadable", Blame.UNKNOWN,
               "the pod's user may not read the file", "make it readable for all, or for user or group 10001"),
    _signature(r"(?:FileNotFoundError|No such file or directory).*", "FileMissing", Blame.UNKNOWN,
               "a path is wrong or the claim is not what was meant", "check the claim and the path"),
    _signature(r"watchdog timeout .*soft=False.*", "WatchdogTimeout", Blame.UNKNOWN,
               "one batch took longer than SGLang's watchdog allows", "see the log for where it hung"),
)  # fmt: skip
"""In order: the first signature that any of the last lines bears. What names a cause stands before what follows from it."""
