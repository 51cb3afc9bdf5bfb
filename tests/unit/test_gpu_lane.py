"""What the GPU lane makes without a GPU: thinned libraries and INT4 experts."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from tests.gpu.fatbin import MAGIC, SMALL, thin
from tests.gpu.widened import GROUP, _packed

KERNEL = (
    b"\0_ZN7cutlass13device_kernelIN5flash20enable_sm90_or_laterINS1_16FlashAttnFwdSm90INS1_25CollectiveMainloopFwdSm90ILi2"
    b"EN4cute5tupleIJNS5_1CILi1EEES8_S8_EEENS6_IJNS7_ILi64EEESA_SA_EEELi512E%sfNS_4arch4Sm90ELb0ELb0ELb0ELb0ELb0ELb0ELb0EL"
    b"b0ELb0ELb0ELb0ELb1ELb0ELb0E%sLb0ELi1EEENS1_21CollectiveEpilogueFwdINS6_IJSA_NS7_ILi512EEESA_EEES9_SC_SE_Li256ELb0ELb"
    b"1ELb0ELb0EEENS1_29StaticPersistentTileSchedulerILb0EEEEEEEEEvNT_6ParamsE\0"
)
"""The name of FlashAttention 3's kernel for latent attention, of one type or another."""
WANTED = KERNEL % (b"NS_10bfloat16_tE", b"SC_")
OTHER = KERNEL % (b"NS_6half_tE", b"NS_10bfloat16_tE")


def fatbin(*entries: tuple[int, bytes]) -> bytes:
    body = b"".join(
        struct.pack("<HHIQ", 2, 0, 64, len(code))
        + struct.pack("<III", 0, 0, 0)
        + struct.pack("<I", capability)
        + bytes(32)
        + code
        for capability, code in entries
    )
    return struct.pack("<IHHQ", MAGIC, 1, 16, len(body)) + body


def test_only_what_a_hopper_gpu_loads_for_these_models_is_left(tmp_path: Path) -> None:
    small, large = b"\1" * 64, b"\1" * (SMALL + 8)
    kept, gone = (
        (90, WANTED),
        [(80, WANTED), (90, OTHER), (90, large)],
    )
    library = tmp_path / "ops.so"
    library.write_bytes(
        b"ELF....." + fatbin(gone[0], kept) + bytes(24) + fatbin(*gone[1:], (90, small)) + b"end"
    )
    before = library.read_bytes()
    thin(library)
    after = library.read_bytes()
    blank = [(capability, bytes(len(code))) for capability, code in gone]
    assert (
        after == b"ELF....." + fatbin(blank[0], kept) + bytes(24) + fatbin(*blank[1:], (90, small)) + b"end"
    )
    assert len(after) == len(before)


def test_int4_values_are_packed_as_compressed_tensors_unpacks_them() -> None:
    values = np.random.default_rng(0).integers(-8, 8, (4, 2 * GROUP)).astype(np.int8)
    packed = _packed(values, values.shape, 0.5)
    words = packed["weight_packed"].view(np.uint32)
    unpacked = np.stack([(words >> shift & 0xF).astype(int) - 8 for shift in range(0, 32, 4)], axis=2)
    assert (unpacked.reshape(values.shape) == values).all()
    assert packed["weight_scale"].shape == (4, 2)
    assert packed["weight_scale"].astype(float).min() == 0.5
