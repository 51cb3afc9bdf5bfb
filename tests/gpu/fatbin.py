"""Taking out of a CUDA library the machine code that one GPU and one kind of model never load.

FlashAttention 3's library holds 1.1 GB of kernels for all GPUs and sizes of heads; a few are needed, and blank bytes
pack to nothing. The layout is that of fatbinary_section.h and of what `cuobjdump` shows: a header with a magic number,
then entries, each with its own header, kind, size and compute capability.
"""

from __future__ import annotations

import mmap
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAGIC = 0xBA55ED50
HOPPER = 90
SMALL = 2**21
"""Bytes of a cubin without attention kernels of its own that is worth no look."""
ATTENTION = re.compile(r"FwdSm90<.*?C<(\d+)> >, (\d+), cutlass::(\w+),")
"""Width of queries and keys, width of values, and type."""
KERNEL = re.compile(rb"_ZN7cutlass13device_kernel[^\0]+")
WANTED = {("64", "512", "bfloat16_t"), ("192", "128", "bfloat16_t"), ("128", "128", "bfloat16_t")}
"""Kimi's latent attention as it decodes and as it reads a prompt, and a drafter's."""


class Cubin(NamedTuple):
    """Machine code for one GPU: where it lies in the library."""

    at: int
    size: int
    capability: int


def thin(library: Path) -> None:
    """Blank, in place, what neither Hopper nor these models load."""
    with library.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as content:
        for cubin in list(cubins(content)):
            if cubin.capability != HOPPER or not _needed(content[cubin.at : cubin.at + cubin.size]):
                content[cubin.at : cubin.at + cubin.size] = bytes(cubin.size)


def cubins(content: mmap.mmap) -> Iterator[Cubin]:
    """Every piece of machine code in a library, in its order."""
    magic = struct.pack("<I", MAGIC)
    place = content.find(magic)
    while place >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", content, place)
        entry, end = place + header, place + header + size
        while entry < end:
            _, _, own, length = struct.unpack_from("<HHIQ", content, entry)
            (capability,) = struct.unpack_from("<I", content, entry + 28)
            yield Cubin(entry + own, length, capability)
            entry += own + length
        place = content.find(magic, end)


def _needed(code: bytes) -> bool:
    names = {found.decode() for found in KERNEL.findall(code)}
    if not names:
        return len(code) < SMALL
    plain = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    ).stdout
    shapes = [found.groups() if (found := ATTENTION.search(line)) else None for line in plain.splitlines()]
    return set(shapes) == {None} or any(shape in WANTED for shape in shapes)
