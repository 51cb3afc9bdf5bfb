"""Lines of SGLang 0.5.23, as recorded; those of graph capture as its source writes them."""

from __future__ import annotations

import pytest

from specdec.engine.agent.phases import read_line
from specdec.engine.protocol import Phase

LOADING, CAPTURING, WARMING = Phase.LOADING_WEIGHTS, Phase.CAPTURING_GRAPHS, Phase.WARMING_UP


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("[2026-11-29 18:09:47] Load weight begin. avail mem=20.91 GB", LOADING),
        ("Multi-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]", LOADING),
        ("Loading safetensors checkpoint shards:  42% Completed | 27/64 [01:10<01:35,  2.58s/it]", LOADING),
        (
            "[2026-11-29 18:09:47] Load weight end. elapsed=0.10 s, type=KimiK25ForConditionalGeneration, avail mem=20.90 GB, mem usage=0.02 GB.",
            LOADING,
        ),
        (
            "[2026-11-29 18:09:47] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 4096, KV size: 0.00 GB",
            LOADING,
        ),
        ("[2026-11-29 18:09:47] Memory pool end. avail mem=20.89 GB", LOADING),
        (
            "[2026-11-29 18:09:47 TP0] Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=4, avail mem=9.10 GB",
            CAPTURING,
        ),
        (
            "Capturing batches (bs=160 avail_mem=8.71 GB):  12%|█▎        | 4/36 [00:02<00:16,  1.93it/s]",
            CAPTURING,
        ),
        (
            "[2026-11-29 18:09:47 TP0] Capture draft verify CUDA graph end. bs=[1, 2], elapsed=3.10 s, mem usage=0.11 GB, avail mem=8.90 GB.",
            CAPTURING,
        ),
        ("[2026-11-29 18:09:48] Built adaptive runtime state steps=0: elapsed=0.00s, mem=0.00GB", CAPTURING),
        (
            "[2026-11-29 18:09:48] INFO:     Uvicorn running on http://127.0.0.1:32100 (Press CTRL+C to quit)",
            WARMING,
        ),
        ("[2026-11-29 18:09:48] The server is fired up and ready to roll!", WARMING),
        ("\x1b[1;33m[2026-11-29 18:09:48] The server is fired up and ready to roll!\x1b[0m", WARMING),
        ("DeepGEMM warmup:  10%|█         | 1638/16384 [00:09<01:20, 183.11it/s]", CAPTURING),
        ("[2026-11-29 18:09:33] Ignore import error when loading sglang.srt.models.grok: x", None),
        (
            "[2026-11-29 18:09:33] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)",
            None,
        ),
        ("[2026-11-29 18:11:02] Decode batch, #running-req: 1, accept len: 1.00, accept rate: 0.00", None),
    ],
)
def test_reads_a_line(line, phase):
    mark = read_line(line, CAPTURING)
    assert (mark.phase if mark else None) == phase


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Multi-thread loading shards:  19% Completed | 12/64 [05:10<22:25, 25.9s/it]", "loading weights: shard 12 of 64"),
        ("Loading safetensors checkpoint shards:  42% Completed | 27/64 [01:10<01:35]", "loading weights: shard 27 of 64"),
        ("Loading safetensors using Fastsafetensor loading:  50%|█████     | 3/6 [00:10<00:10]", "loading weights: shard 3 of 6"),
        ("Loading safetensors using InstantTensor:  50% Completed | 512/1024 [00:10<00:10]", "loading weights: tensor 512 of 1024"),
        ("Capturing batches (bs=160 avail_mem=8.71 GB):  12%|█▎ | 4/36 [00:02<00:16,  1.93it/s]", "capturing graphs: batch size 4 of 36"),
    ],
)  # fmt: skip
def test_a_count_is_said_in_words(line, said):
    assert read_line(line, LOADING).detail == said


def test_a_bar_that_moves_is_a_new_mark_and_one_that_stands_is_not():
    first, second = (
        read_line(
            f"Capturing batches (bs=160 avail_mem=8.71 GB):  12%|█▎   | {n}/36 [00:02<00:16]", CAPTURING
        )
        for n in (4, 5)
    )
    assert first != second
    again = read_line(
        "Capturing batches (bs=160 avail_mem=8.71 GB):  12%|█▎   | 4/36 [59:02<00:16]", CAPTURING
    )
    assert first == again
