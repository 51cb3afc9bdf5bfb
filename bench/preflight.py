"""How fast the preflight is on a 600 GB target, and how little a hostile file costs it.

The target has the names and shapes of a 1T-parameter mixture of experts (61 layers, 384 experts, packed INT4 with
scales) in 64 sparse files: what is read is real, what is not read is a hole.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.engine import Launch, failing, models, start_report, wait_until_ended
from tests.support.headers import HIDDEN, VOCABULARY, Tensors, kimi_k25, llama, write_file
from tests.support.hostile import CASES
from tests.support.public_faults import SHOWN

from bench.agentside import Cost
from bench.results import Row, measured, write
from bench.usage import used
from specdec.preflight.header import TARGET, read_header
from specdec.preflight.preflight import Request, preflight
from specdec.preflight.source import LocalFolder, UnreadableError

SHARDS, LAYERS, EXPERTS, WIDTH = 64, 61, 384, 2048
ROUNDS = 5
LOADS = 3
CLI = Path(sys.executable).with_name("kubectl-specdec")


def expert(prefix: str, rows: int, columns: int) -> Tensors:
    """One packed INT4 matrix."""
    return {
        f"{prefix}.weight_packed": ("I32", [rows, columns // 8]),
        f"{prefix}.weight_scale": ("BF16", [rows, columns // 32]),
        f"{prefix}.weight_shape": ("I32", [2]),
    }


def layer(number: int) -> Tensors:
    """One layer's tensors: attention, shared expert and 384 experts."""
    place = f"language_model.model.layers.{number}"
    found: Tensors = {
        f"{place}.{name}_layernorm.weight": ("BF16", [HIDDEN]) for name in ("input", "post_attention")
    }
    attention = {
        "q_a": [1536, HIDDEN],
        "q_b": [12288, 1536],
        "kv_a": [576, HIDDEN],
        "kv_b": [16384, 512],
        "o": [HIDDEN, 8192],
    }
    found |= {f"{place}.self_attn.{name}_proj.weight": ("BF16", shape) for name, shape in attention.items()}
    for index in range(EXPERTS if number else 1):
        for name, rows, columns in (("gate", WIDTH, HIDDEN), ("up", WIDTH, HIDDEN), ("down", HIDDEN, WIDTH)):
            found |= expert(f"{place}.mlp.experts.{index}.{name}_proj", rows, columns)
    return found


def make_target(folder: Path) -> tuple[int, int]:
    """Write the synthetic target; returns bytes and tensors."""
    fixture = kimi_k25()
    fixture.write(folder)
    (folder / "model.safetensors").unlink()
    placed: dict[str, str] = {}
    for shard in range(SHARDS):
        tensors = layer(shard) if shard < LAYERS else {}
        if shard == LAYERS:
            tensors = {
                f"language_model.{name}.weight": ("BF16", [VOCABULARY, HIDDEN])
                for name in ("lm_head", "model.embed_tokens")
            }
        elif shard > LAYERS:
            tensors = {f"vision_tower.{shard}.weight": ("BF16", [HIDDEN, HIDDEN])}
        file = f"model-{shard + 1:05}-of-{SHARDS:06}.safetensors"
        write_file(folder / file, tensors)
        placed |= dict.fromkeys(tensors, file)
    index = {"metadata": {}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return sum(path.stat().st_size for path in folder.iterdir()), len(placed)


def run(*command: str | Path, expected: int = 0) -> tuple[float, float]:
    """Run a command that must end so; returns seconds and peak MB."""
    usage = used(*command)
    if usage.code != expected:
        raise SystemExit(f"{command} ended with {usage.code}")
    return usage.seconds, usage.peak_mb


def refused(folder: Path) -> float:
    """Milliseconds to refuse a header that says it is 100 MB long."""
    path = folder / "model.safetensors"
    with path.open("wb") as file:
        file.write((100_000_000).to_bytes(8, "little"))
        file.truncate(200_000_000)
    begin = time.perf_counter()
    try:
        read_header(LocalFolder(folder), path.name, path.stat().st_size, TARGET)
    except UnreadableError:
        return (time.perf_counter() - begin) * 1000
    raise SystemExit("a header of 100 MB was not refused")


def corpus(requests: list[Request]) -> float:
    """Seconds to find every fault of the public corpus that files show, one after the other."""
    begin = time.perf_counter()
    found = [preflight(request).report.blocking for request in requests]
    seconds = time.perf_counter() - begin
    if not all(found):
        raise SystemExit("a fault of the corpus was not found")
    return seconds


def slowest(folders: list[Path]) -> float:
    """Milliseconds of the hostile checkpoint whose refusal takes longest."""
    times = []
    for folder in folders:
        begin = time.perf_counter()
        if not preflight(Request(LocalFolder(folder), None, "0.5.23")).report.blocking:
            raise SystemExit(f"{folder} was not refused")
        times.append(time.perf_counter() - begin)
    return max(times) * 1000


def agentside(target: Path, folders: list[Path]) -> list[Row]:
    """What judging leaves in the agent, and what a child that judges would take instead."""
    words = [sys.executable, "-m", "bench.agentside", str(target), *map(str, folders)]
    costs, children = [], []
    for _ in range(ROUNDS):
        found = subprocess.run(words, stdout=subprocess.PIPE, check=True)
        costs.append(Cost(**json.loads(found.stdout)))
        children.append(run(sys.executable, "-c", "import specdec.engine.agent.judging"))
    judging = f"agent, judging the drafter and {len(folders) - 1} hostile ones"
    return [
        measured("agent, surveying the 600 GB target", [one.survey_seconds for one in costs], "s"),
        measured(f"{judging}: memory that stays", [one.grown_mb for one in costs], "MB"),
        measured(f"{judging}: longest stop of its event loop", [one.gap_ms for one in costs], "ms"),
        measured("a child instead: until it could judge", [seconds for seconds, _ in children], "s"),
        measured("a child instead: its memory", [memory for _, memory in children], "MB"),
    ]


def preflight_command(drafter: Path, target: Path) -> tuple[str | Path, ...]:
    """The command line of a person."""
    return (CLI, "preflight", "--drafter", drafter, "--target", target, "--engine-version", "0.5.23")


def against_the_engine() -> list[Row]:
    """The same fault (names that SGLang drops) found by the preflight, and by loading the pair on the real engine."""
    name = "the fault of a tiny pair's names, found by"
    loaded, judged = [], []
    try:
        for _ in range(LOADS):
            loaded.append(failed_load())
            command = preflight_command(models()["renamed"], models()["kimi"])
            judged.append(run(*command, expected=1)[0])
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"not compared with the engine: {error}")
        return []
    return [
        measured(f"{name} loading it on the engine", loaded, "s"),
        measured(f"{name} the preflight", judged, "s", 2, "loading it on the engine"),
    ]


def failed_load() -> float:
    """Seconds until an engine that starts with names that SGLang drops has ended; the plugin ends it."""
    begin = time.perf_counter()
    with failing(Launch(drafter="renamed")) as engine:
        wait_until_ended(engine)
        seconds = time.perf_counter() - begin
        if start_report(engine).reason != "TensorsNotConsumed":
            raise SystemExit(f"the engine ended for another reason, see {engine.log}")
    return seconds


def main() -> None:
    """Measure, interleaved."""
    place = Path(tempfile.mkdtemp(prefix="specdec-bench-"))
    try:
        size, tensors = make_target(place / "kimi")
        drafter = llama().write(place / "drafter")
        print(
            f"target: {size / 1e9:.0f} GB in {SHARDS} files, {tensors} tensors; Python {sys.version.split()[0]}"
        )
        requests = [fault.request(place / f"fault-{index}") for index, fault in enumerate(SHOWN)]
        folders = [case.make(place / f"hostile-{index}") for index, case in enumerate(CASES.values())]
        judged, started, bare, hostile, faults, refusals = [], [], [], [], [], []
        for _ in range(ROUNDS):
            judged.append(run(*preflight_command(drafter, place / "kimi")))
            started.append(run(sys.executable, "-c", "import specdec.cli.preflight"))
            bare.append(run(sys.executable, "-c", "pass"))
            hostile.append(refused(place))
            faults.append(corpus(requests))
            refusals.append(slowest(folders))
        rows = [
            measured(
                "preflight of a 600 GB target, whole command", [seconds for seconds, _ in judged], "s", 2
            ),
            measured("its peak memory", [memory for _, memory in judged], "MB", 150),
            measured(
                "import of the command",
                [a[0] - b[0] for a, b in zip(started, bare, strict=True)],
                "s",
                0.4,
                "a bare interpreter",
            ),
            measured("refusing a header of 100 MB", hostile, "ms", 50),
            measured(f"refusing the slowest of {len(folders)} hostile checkpoints", refusals, "ms", 50),
            measured(
                f"{len({fault.number for fault in SHOWN})} of 16 public faults, all found in", faults, "s", 2
            ),
            Row("target", round(size / 1e9), "GB"),
        ]
        rows += agentside(place / "kimi", [drafter, *folders])
        write("preflight", rows + against_the_engine())
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
