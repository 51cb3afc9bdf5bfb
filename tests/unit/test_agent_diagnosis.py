"""What a log's last lines say of an end; `tests/data/agent/logs` holds what real processes wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.engine.agent.board import MESSAGE_CHARACTERS
from specdec.engine.agent.diagnosis import LINE_CHARACTERS, MOST_LINES, diagnose, telling
from specdec.engine.agent.failures import Blame, Failure, blamed
from specdec.engine.agent.signatures import SIGNATURES
from specdec.engine.agent.termination import leave, message
from specdec.engine.loopback import StartReport
from specdec.preflight.report import TERMINATION_BYTES

LOGS = Path(__file__).parents[1] / "data" / "agent" / "logs"
AROUND, DRAFTER, UNKNOWN = Blame.SURROUNDINGS, Blame.DRAFTER, Blame.UNKNOWN
RECORDED = {
    "architecture-unknown": (1, "ArchitectureUnsupported", UNKNOWN),
    "argument-unknown": (2, "ArgumentRefused", AROUND),
    "config-damaged": (1, "ConfigUnusable", UNKNOWN),
    "config-missing": (1, "ConfigUnusable", UNKNOWN),
    "port-taken": (1, "PortInUse", AROUND),
    "quantization-unknown": (1, "QuantizationUnsupported", AROUND),
    "weights-truncated": (-9, "WeightsUnreadable", UNKNOWN),
    "cuda-out-of-memory": (1, "OutOfMemory", AROUND),
    "gpu-assert": (1, "GpuAccessFault", UNKNOWN),
    "gpu-none": (1, "GpuMissing", AROUND),
    "gpu-ordinal": (1, "GpuMissing", AROUND),
    "nccl-duplicate-gpu": (1, "NcclFailed", AROUND),
    "nccl-timeout": (-6, "NcclTimeout", AROUND),
    "scheduler-killed": (-9, "Killed", AROUND),
    "store-port": (1, "PortInUse", AROUND),
}
"""By name of the file: exit code, reason, blame."""


def recorded(name: str) -> tuple[str, ...]:
    return tuple((LOGS / f"{name}.log").read_text().splitlines())


def test_every_recorded_end_is_in_the_table():
    assert {path.stem for path in LOGS.glob("*.log")} == RECORDED.keys()


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_end_is_named(name):
    code, reason, blame = RECORDED[name]
    found = diagnose(recorded(name), code, None)
    assert (found.reason, found.blame) == (reason, blame), found.message
    assert found.ended == (f"signal {-code}" if code < 0 else f"exit code {code}")
    assert 1 <= len(found.lines) <= MOST_LINES


@pytest.mark.parametrize("known", SIGNATURES, ids=lambda known: known.reason)
def test_a_sentence_has_room_for_cause_and_advice(known):
    assert len(known.cause) + len(known.advice) <= MESSAGE_CHARACTERS - 100 - len("; : ")


@pytest.mark.parametrize(
    ("line", "code", "reason", "blame"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            1,
            "OutOfMemory",
            Blame.SURROUNDINGS,
        ),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            1,
            "KvCacheTooSmall",
            Blame.SURROUNDINGS,
        ),
        (
            "Exception: Capture cuda graph failed: CUDA error: out of memory",
            1,
            "GraphCaptureFailed",
            Blame.GRAPHS,
        ),
        (
            "ERROR: [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use",
            1,
            "PortInUse",
            Blame.SURROUNDINGS,
        ),
        (
            "[rank0]:[E] [PG ID 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
            -6,
            "NcclTimeout",
            Blame.SURROUNDINGS,
        ),
        (
            "ValueError: EAGLE is not supported in decode attention backend torch_native",
            1,
            "AttentionBackendUnsupported",
            Blame.DRAFTER,
        ),
        (
            "ValueError: trtllm_mla backend can only be used with MLA models.",
            1,
            "AttentionBackendUnsupported",
            Blame.DRAFTER,
        ),
        (
            "RuntimeError: captured 2 of 3 aux hidden states",
            -9,
            "CaptureLayersMismatch",
            Blame.DRAFTER,
        ),
        (
            "launch_server.py: error: unrecognized arguments: --cuda-graph-max-bs 8",
            2,
            "ArgumentRefused",
            Blame.SURROUNDINGS,
        ),
        (
            "PermissionError: [Errno 13] Permission denied: '/models/m/t/model.safetensors'",
            1,
            "NotReadable",
            Blame.UNKNOWN,
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/models/m/t'",
            1,
            "FileMissing",
            Blame.UNKNOWN,
        ),
        (
            "[2026-11-29 18:09:33] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            -9,
            "WatchdogTimeout",
            Blame.UNKNOWN,
        ),
        # NVIDIA/nccl issue 525, pytorch/ci-infra pull request 490
        (
            "[3] misc/shmutils.cc:132 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-WU88OE (size 9637888), error: No space left on device (28)",
            1,
            "SharedMemory",
            Blame.SURROUNDINGS,
        ),
        # pytorch/pytorch, torch/cuda/__init__.py
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver",
            1,
            "GpuUnusable",
            Blame.SURROUNDINGS,
        ),
        (
            "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
            1,
            "GpuUnusable",
            Blame.SURROUNDINGS,
        ),
        # sgl-project/sglang, model_loader/loader.py
        (
            "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89. Current capability: 80.",
            1,
            "QuantizationUnsupported",
            Blame.SURROUNDINGS,
        ),
        (
            "OSError: [Errno 28] No space left on device: '/cache/triton/tmp'",
            1,
            "NoSpaceLeft",
            Blame.SURROUNDINGS,
        ),
        (
            "ValueError: http_server port at 30000 is not available in 60 seconds. http_server port at 30000 is not available",
            1,
            "PortInUse",
            Blame.SURROUNDINGS,
        ),
        (
            "[rank1]: RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store",
            1,
            "NcclFailed",
            Blame.SURROUNDINGS,
        ),
        # sgl-project/sglang, entrypoints/engine.py and utils/watchdog.py: another process was killed, not this one
        (
            "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer.",
            -9,
            "Killed",
            Blame.SURROUNDINGS,
        ),
        (
            "Subprocess scheduler_0 (pid=77) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
            -9,
            "Killed",
            Blame.SURROUNDINGS,
        ),
        # SGLang ends its own tree by SIGKILL after an exception: no sign of the kernel
        (
            "[2026-11-29 18:09:33] Scheduler hit an exception: Traceback (most recent call last):",
            -9,
            "EngineExited",
            Blame.UNKNOWN,
        ),
        ("nothing to see", -9, "Killed", Blame.SURROUNDINGS),
        (
            "IndexError: index 300 is out of bounds for dimension 0 with size 256",
            1,
            "EngineExited",
            Blame.UNKNOWN,
        ),
        ("", -11, "EngineExited", Blame.UNKNOWN),
    ],
)
def test_names_why_a_process_ended(line, code, reason, blame):
    found = diagnose(("[2026-11-29] server_args=...", line, "Killed process tree"), code, None)
    assert (found.reason, found.blame) == (reason, blame)
    assert ": " in found.message or ";" in found.message


@pytest.mark.parametrize(
    ("reason", "blame"),
    [
        ("LoadFailed", Blame.DRAFTER),
        ("TensorsNotConsumed", Blame.DRAFTER),
        ("NotReadable", Blame.UNKNOWN),
        ("FileMissing", Blame.UNKNOWN),
        ("PatchNotApplicable", Blame.SURROUNDINGS),
    ],
)
def test_a_volume_that_fails_under_a_load_does_not_condemn_the_drafter(reason, blame):
    assert diagnose((), 1, StartReport(reason=reason, message="no")).blame is blame


@pytest.mark.parametrize(
    ("reason", "blame"),
    [
        ("HeaderMalformed", Blame.DRAFTER),
        ("DigestChanged", Blame.DRAFTER),
        ("VolumeHangs", Blame.UNKNOWN),
        ("NotReadable", Blame.UNKNOWN),
        ("NoWeights", Blame.UNKNOWN),
        ("ChangedWhileStaged", Blame.SURROUNDINGS),
    ],
)
def test_a_drafter_is_blamed_only_for_what_is_in_its_files(reason, blame):
    assert blamed(reason) is blame


def test_the_plugins_refusal_comes_first():
    report = StartReport(reason="ParametersNotFed", message="lm_head.weight gets no tensor")
    line = "torch.OutOfMemoryError: CUDA out of memory"
    found = diagnose((line,), 1, report, oom_killed=True)
    assert found == Failure(
        "ParametersNotFed", "lm_head.weight gets no tensor", Blame.DRAFTER, "exit code 1", (line,)
    )


def test_the_kernels_own_count_is_believed_before_any_line():
    found = diagnose(("torch.OutOfMemoryError: CUDA out of memory",), -9, None, oom_killed=True)
    assert (found.reason, found.blame, found.ended) == ("HostOutOfMemory", Blame.SURROUNDINGS, "signal 9")


def test_the_source_that_a_traceback_shows_is_no_sign():
    tail = (
        "Traceback (most recent call last):",
        '    raise OSError("No space left on device")',
        "ValueError: something else",
    )
    assert diagnose(tail, 1, None).reason == "EngineExited"


def test_telling_lines_are_errors_without_their_frames_each_once():
    tail = (
        "server_args=ServerArgs(Error)",
        "Traceback (most recent call last):",
        '  File "x.py", line 3, in load',
        "    raise ValueError",
        "\x1b[31mValueError: one\x1b[0m",
        "ValueError: one",
        "a line that says nothing",
    )
    assert telling(tail) == ("ValueError: one",)
    assert telling(("nothing", "to see")) == ("nothing", "to see")
    many = tuple(f"Error: {number}" for number in range(50))
    assert telling(many, many[0]) == (many[0], *many[-MOST_LINES + 1 :])


@given(st.lists(st.text()), st.integers(-64, 255))
def test_any_log_gives_a_bounded_report(tail, code):
    found = diagnose(tuple(tail), code, None)
    assert len(found.lines) <= MOST_LINES
    assert all(len(line) <= LINE_CHARACTERS for line in found.lines)
    assert len(message(found.report("2026-11-29T20:46:34.818441Z"))) <= TERMINATION_BYTES


def test_a_termination_message_is_written_only_where_the_kubelet_made_the_file(tmp_path):
    found = diagnose(("torch.OutOfMemoryError: CUDA out of memory",), 1, None)
    written = message(found.report("2026-11-29T20:46:34.818441Z"))
    assert written.startswith(b"2026-11-29T20:46:34.818441Z OutOfMemory (exit code 1): ")
    leave(tmp_path / "none", written)
    assert not (tmp_path / "none").exists()
    (tmp_path / "log").write_bytes(b"x" * 9999)
    leave(tmp_path / "log", written)
    assert (tmp_path / "log").read_bytes() == written
    leave(tmp_path / "log", b"")
    assert (tmp_path / "log").read_bytes() == b""


def test_a_report_without_a_reason_says_nothing():
    assert diagnose((), 3, StartReport()).reason == "EngineExited"
