"""What the further states cost in memory on a target with as many layers and graphs as Kimi-K2.5."""

from __future__ import annotations

import json
from pathlib import Path

from tests.gpu import models
from tests.gpu.observer import WEIGH_INTO
from tests.gpu.rows import Rows, say
from tests.gpu.servers import Server, done, running
from tests.gpu.wide import make
from tests.support.engine import STEPS
from tests.support.models import kimi

from specdec.engine.loopback import Steps

BATCH = 48
"""What the agent asks for unless the user does."""
LIKE_KIMI = {
    "num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 163840, "num_attention_heads": 64,
    "num_key_value_heads": 64, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128, "num_experts_per_tok": 8, "n_shared_experts": 1,
    "first_k_dense_replace": 1, "max_position_embeddings": 4096,
}  # fmt: skip
SHRUNK = {"n_routed_experts": 16, "moe_intermediate_size": 128, "intermediate_size": 512}
"""Of 384, 2048 and 18432: the weights of all experts would not fit on one GPU."""


def memory(out: Path, rows: Rows) -> None:
    """Weigh each capture of a start, and decode with each state afterwards."""
    target = _like_kimi(Path("like-kimi").absolute())
    weights = out / "weighed.jsonl"
    weights.unlink(missing_ok=True)
    arguments = (
        *("--load-format", "dummy", "--speculative-draft-load-format", "auto"),
        *("--cuda-graph-max-bs", str(BATCH), "--max-running-requests", str(BATCH)),
    )
    server = Server("memory", 31400, target, make()[1][0], arguments, {WEIGH_INTO: str(weights)})
    with running(out, server) as (engine,):
        for line in weights.read_text().splitlines():
            found = json.loads(line)
            change = {name: found["after"][name] - found["before"][name] for name in found["after"]}
            say(rows, f"memory: {found['what']}", change["device"] / 2**20, "MiB", depth=found["depth"],
                seconds=round(found["seconds"], 2), bytes_before=found["before"], bytes_after=found["after"])  # fmt: skip
        for steps in (STEPS, 0):
            done(engine, Steps(steps=steps))
            answered = len(engine.generate([3 + place for place in range(10)], 32).tokens)
            say(
                rows,
                "memory: tokens of an answer",
                answered,
                "of 32",
                steps=steps,
                plain=engine.report().plain,
            )


def _like_kimi(folder: Path) -> Path:
    """Kimi-K2.5's config with thin experts; SGLang makes the weights up."""
    kimi(folder)
    (folder / "model.safetensors").unlink()
    config = json.loads((folder / "config.json").read_text())
    config["text_config"] |= LIKE_KIMI | SHRUNK
    config["vision_config"]["text_hidden_size"] = models.HIDDEN
    (folder / "config.json").write_text(json.dumps(config))
    return folder
