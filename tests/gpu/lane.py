"""What the GPU lane measures; runs on the GPU's machine: `python -m tests.gpu.lane OUT GROUP...`.

A group is a part, or parts joined by "+" that run beside each other; groups run one after the other.
"""

from __future__ import annotations

import json
import platform
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu.exact import latent, maps, sampling, tiny
from tests.gpu.kimi import kimi
from tests.gpu.ladder import ladder
from tests.gpu.memory import memory
from tests.gpu.parallel import parallel, parallel_kimi, parallel_latent
from tests.gpu.rows import Rows
from tests.gpu.wide import stock, wide

Part = Callable[[Path, Rows], None]
PARTS: dict[str, Part] = {
    part.__name__: part
    for part in (
        tiny,
        maps,
        latent,
        sampling,
        ladder,
        memory,
        wide,
        stock,
        kimi,
        parallel,
        parallel_latent,
        parallel_kimi,
    )
}
"""One GPU is enough for each but those whose name begins with `parallel`, which take two."""


def main() -> None:
    """Run groups of parts, and leave results.json whatever fails."""
    out, groups = Path(sys.argv[1]), sys.argv[2:]
    results: dict[str, dict[str, Any]] = {}
    machine, command = _machine(), f"run.sh OUT {' '.join(groups)}"
    for group in groups:
        names = group.split("+")
        for name in names:
            results[name] = {"machine": machine, "command": command, "rows": [], "failures": []}
        threads = [threading.Thread(target=_attempt, args=(name, out, results[name])) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if any(found["failures"] for found in results.values()) else 0)


def _attempt(name: str, out: Path, result: dict[str, Any]) -> None:
    began = time.monotonic()
    try:
        PARTS[name](out, result["rows"])
    except Exception as error:  # noqa: BLE001 - the other parts' figures are worth having
        traceback.print_exc()
        result["failures"].append(repr(error)[:2000])
    result["seconds"] = round(time.monotonic() - began)
    print(f"{name}: {result['seconds']} s", flush=True)


def _machine() -> dict[str, str]:
    import importlib.metadata

    import torch

    return {
        "gpu": f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "sglang": importlib.metadata.version("sglang"),
        "date": time.strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    main()
