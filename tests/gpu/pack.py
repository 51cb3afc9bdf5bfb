"""Packing SGLang and this project for a GPU's machine that reaches no package index."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.gpu.fatbin import thin

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SITE = "sglang-0.5.17.tar.xz"
OURS = "specdec.tar.xz"
RUN = """#!/bin/bash
# run.sh OUT GROUP...: runs groups of parts of the GPU lane. WORK holds models and unpacked wheels.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd); OUT=$(mkdir -p "$1" && cd "$1" && pwd); shift
WORK=${WORK:-$HERE/work}; mkdir -p "$WORK/site" "$WORK/ours"
[ -e "$WORK/site/sglang" ] || tar xJf "$HERE/sglang-0.5.17.tar.xz" -C "$WORK/site"
tar xJf "$HERE/specdec.tar.xz" -C "$WORK/ours"
cd "$WORK/ours"; export PYTHONUNBUFFERED=1 PYTHONPATH=$WORK/ours/operator:$WORK/ours:$WORK/site
exec python3 -m tests.gpu.lane "$OUT" "$@"
"""
NOT_NEEDED = ("sglang/multimodal_gen", "sglang/test", "sglang/srt/rust_extensions", "cudnn", "cuda", "bin")
FLASH = "flash_ops.abi3.so"
KERNELS = ("sm90/common_ops.abi3.so", FLASH)
WITH_SYMBOLS = ("xgrammar", "uvloop", "zstandard")
"""Packages whose libraries carry their debugging symbols."""

ENTRY_POINTS = """[sglang.srt.plugins]
specdec = specdec.engine.plugin:register
specdec_lane = tests.gpu.observer:register
"""


def pack(folder: Path) -> None:
    """Write all that the lane needs into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / SITE).exists():
        _pack_site(folder / SITE)
    _pack_ours(folder / OURS)
    (folder / "run.sh").write_text(RUN)


def _pack_site(archive: Path) -> None:
    """SGLang's wheels without what a Hopper GPU never loads: the kernels alone are 383 MB for all GPUs."""
    with tempfile.TemporaryDirectory() as place:
        site = Path(place) / "site"
        wheels = ("--no-deps", "--only-binary", ":all:", "--python-version", "3.12")
        platform = ("--python-platform", "x86_64-manylinux_2_39")
        requirements = ("--requirement", str(HERE / "requirements.txt"))
        install = [
            "uv",
            "pip",
            "install",
            "--quiet",
            *wheels,
            *platform,
            "--target",
            str(site),
            *requirements,
        ]
        subprocess.run(install, check=True)
        for name in (*NOT_NEEDED, *(found.name for found in site.glob("cuda_*")), "nvidia_cudnn"):
            for found in [site / name, *site.glob(f"{name}*")] if name == "nvidia_cudnn" else [site / name]:
                shutil.rmtree(found, ignore_errors=True)
        for library in (site / "sgl_kernel").rglob("*.so"):
            if not library.as_posix().endswith(KERNELS):
                library.unlink()
        thin(site / "sgl_kernel" / FLASH)
        for library in (path for name in WITH_SYMBOLS for path in (site / name).rglob("*.so")):
            subprocess.run(["strip", "--strip-debug", str(library)], check=True)
        for library in site.rglob("*.a"):
            library.unlink()
        with archive.open("wb") as output:
            packed = subprocess.Popen(["tar", "cf", "-", "-C", str(site), "."], stdout=subprocess.PIPE)
            subprocess.run(["xz", "-T0", "-7"], stdin=packed.stdout, stdout=output, check=True)
            packed.wait()


def _pack_ours(archive: Path) -> None:
    """Our package, as SGLang finds its plugin, and the lane with the observer as another one."""
    with tempfile.TemporaryDirectory() as place:
        info = Path(place) / "specdec_operator-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: specdec-operator\nVersion: 0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        # Only models that are not served here call it, but SGLang imports it.
        (Path(place) / "deep_gemm.py").write_text("")
        with tarfile.open(archive, "w:xz") as tar:
            for path in ("operator", "tests/gpu", "tests/support", "images/engine-cpu"):
                tar.add(ROOT / path, path, filter=_sources)
            tar.add(info, f"operator/{info.name}")
            tar.add(Path(place) / "deep_gemm.py", "deep_gemm.py")


def _sources(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry
