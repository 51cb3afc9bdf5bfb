"""Drafters that must be refused: each a good one with a single fault, by name."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.models.codes import LAYERS, WIDTH, Array
from tests.support.models.drafter import DRAFT_IDS, DrafterShape, drafter, weights
from tests.support.models.folder import save_weights

Tensors = dict[str, Array]
Header = dict[str, Any]
Builder = Callable[[Path], None]
FILE = "model.safetensors"
INDEX = f"{FILE}.index.json"


def _tensors(change: Callable[[Tensors], Tensors]) -> Builder:
    """Change the tensors; the file stays whole."""

    def build(folder: Path) -> None:
        drafter(folder)
        save_weights(folder / FILE, change(weights(DrafterShape())))

    return build


def _without(name: str) -> Builder:
    return _tensors(lambda tensors: {key: tensor for key, tensor in tensors.items() if key != name})


def _spoiled(name: str, value: float) -> Builder:
    def change(tensors: Tensors) -> Tensors:
        spoiled = tensors[name].copy()
        spoiled[3, 5] = value
        return tensors | {name: spoiled}

    return _tensors(change)


def _token_map(change: Callable[[Array], Array]) -> Builder:
    return _tensors(lambda tensors: tensors | {"d2t": change(tensors["d2t"])})


def _config(**keys: Any) -> Builder:
    return lambda folder: (drafter(folder, **keys), None)[1]


def _text(content: bytes) -> Builder:
    """Another config.json."""

    def build(folder: Path) -> None:
        drafter(folder)
        (folder / "config.json").write_bytes(content)

    return build


def _doubled(folder: Path) -> None:
    drafter(folder)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.rstrip().removesuffix("}") + ', "hidden_size": 256}')


def _bytes(change: Callable[[bytes], bytes]) -> Builder:
    """Another file of weights."""

    def build(folder: Path) -> None:
        drafter(folder)
        (folder / FILE).write_bytes(change((folder / FILE).read_bytes()))

    return build


def _header(change: Callable[[Header], Header | bytes]) -> Builder:
    """Another header before the same data."""

    def rewritten(content: bytes) -> bytes:
        (length,) = struct.unpack("<Q", content[:8])
        changed = change(json.loads(content[8 : 8 + length]))
        header = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
        return struct.pack("<Q", len(header)) + header + content[8 + length :]

    return _bytes(rewritten)


def _entry(**fields: Any) -> Builder:
    return _header(lambda header: header | {"norm.weight": header["norm.weight"] | fields})


def _overlapping(header: Header) -> Header:
    begin, end = header["norm.weight"]["data_offsets"]
    return header | {"norm.weight": header["norm.weight"] | {"data_offsets": [begin - 2, end - 2]}}


def _repeated_name(header: Header) -> bytes:
    entry = json.dumps(header["norm.weight"])
    return (json.dumps(header).removesuffix("}") + f', "norm.weight": {entry}}}').encode()


def _index(weight_map: Any, *, keep: bool = True) -> Builder:
    def build(folder: Path) -> None:
        drafter(folder)
        own = dict.fromkeys(weights(DrafterShape()), FILE) if keep else {}
        placed = own | weight_map if isinstance(weight_map, dict) else weight_map
        (folder / INDEX).write_text(json.dumps({"weight_map": placed}))

    return build


def _instead(name: str, make: Callable[[Path], object]) -> Builder:
    """Something that is no file in the place of one."""

    def build(folder: Path) -> None:
        drafter(folder)
        (folder / name).unlink()
        make(folder / name)

    return build


def _pickled(folder: Path) -> None:
    drafter(folder)
    (folder / FILE).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"fc.weight": [1.0]}))


def _outside(name: str) -> Builder:
    """The file lies beside the folder, behind a link."""

    def build(folder: Path) -> None:
        drafter(folder)
        away = folder.with_name(f"{folder.name}-{name}")
        (folder / name).rename(away)
        (folder / name).symlink_to(away)

    return build


def _empty(folder: Path) -> None:
    folder.mkdir(parents=True)


WEIGHTS: dict[str, Builder] = {
    "wrong_shape": _tensors(lambda tensors: tensors | {"norm.weight": tensors["norm.weight"][:-1]}),
    "transposed": _tensors(
        lambda tensors: tensors | {"fc.weight": np.ascontiguousarray(tensors["fc.weight"].T)}
    ),
    "not_a_number": _spoiled("fc.weight", np.nan),
    "infinite": _spoiled("midlayer.mlp.down_proj.weight", np.inf),
    "other_dtype": _tensors(lambda tensors: tensors | {"fc.weight": tensors["fc.weight"].astype(np.float32)}),
    "integers": _tensors(lambda tensors: tensors | {"fc.weight": tensors["fc.weight"].astype(np.int32)}),
    "missing_tensor": _without("midlayer.self_attn.k_proj.weight"),
    "missing_head": _without("lm_head.weight"),
    "extra_tensor": _tensors(lambda tensors: tensors | {"midlayer.extra.weight": tensors["norm.weight"]}),
    "second_layer": _tensors(lambda tensors: tensors | {"layers.1.mlp.up_proj.weight": tensors["fc.weight"]}),
    "no_token_map": _without("d2t"),
    "token_map_out_of_range": _token_map(lambda offsets: offsets + WIDTH),
    "token_map_negative": _token_map(lambda offsets: offsets - WIDTH),
    "token_map_short": _token_map(lambda offsets: offsets[:-1]),
    "token_map_of_floats": _token_map(lambda offsets: offsets.astype(np.float32)),
}
"""A whole file with the wrong contents."""

CONFIGS: dict[str, Builder] = {
    "other_base": _config(rope_theta=50000.0),
    "other_architecture": _config(architectures=["Eagle3DeepseekV2ForCausalLM"]),
    "unknown_architecture": _config(architectures=["NobodyForCausalLM"]),
    "other_hidden_size": _config(hidden_size=2 * WIDTH),
    "other_vocabulary": _config(vocab_size=2 * WIDTH),
    "other_draft_vocabulary": _config(draft_vocab_size=len(DRAFT_IDS) - 1),
    "other_heads": _config(num_attention_heads=8, head_dim=32),
    "other_capture_layers": _config(
        eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 3, LAYERS - 1], "use_aux_hidden_state": True}
    ),
    "remote_code": _config(auto_map={"AutoModel": "modeling.Drafter"}),
    "config_cut": _text(b'{"hidden_size": 256'),
    "config_of_no_object": _text(b"[]"),
    "config_not_utf8": _text(b'{"architectures": ["\xff\xfe"]}'),
    "config_empty": _text(b""),
    "config_nested": _text(b'{"a":' + b"[" * 100_000),
    "config_key_twice": _doubled,
}
"""The config.json."""

FILES: dict[str, Builder] = {
    "truncated": _bytes(lambda content: content[:-1000]),
    "trailing_bytes": _bytes(lambda content: content + b"\0" * 64),
    "zero_bytes": _bytes(lambda _: b""),
    "oversized_header": _bytes(lambda content: struct.pack("<Q", 1 << 62) + content[8:]),
    "header_not_json": _header(lambda _: b"{" * 64),
    "header_not_utf8": _header(lambda _: b'{"\xff\xfe": {}}'),
    "header_name_twice": _header(_repeated_name),
    "overlapping_tensors": _header(_overlapping),
    "negative_offset": _entry(data_offsets=[-8, 504]),
    "unknown_type": _entry(dtype="PICKLE"),
    "shape_beyond_data": _entry(shape=[1 << 40]),
    "index_without_map": _index([], keep=False),
    "index_names_missing_shard": _index({"layers.1.norm.weight": "model-00002.safetensors"}),
    "index_leads_outside": _index({"norm.weight": "../good/model.safetensors"}),
    "pickle": _pickled,
    "empty_folder": _empty,
    "weights_outside": _outside(FILE),
    "config_outside": _outside("config.json"),
    "weights_are_a_folder": _instead(FILE, Path.mkdir),
    "config_is_a_folder": _instead("config.json", Path.mkdir),
    "weights_are_a_pipe": _instead(FILE, os.mkfifo),
    "config_is_a_pipe": _instead("config.json", os.mkfifo),
    "weights_are_a_loop": _instead(FILE, lambda path: path.symlink_to(path.name)),
    "weights_dangle": _instead(FILE, lambda path: path.symlink_to("gone")),
}
"""What lies on the disk. A pipe hangs whoever opens it; a loop is what even root can't read."""

BUILDERS = WEIGHTS | CONFIGS | FILES

absolute_token_map = partial(drafter, shape=DrafterShape(absolute_token_map=True))
"""d2t holds target ids instead of offsets: the agent mends it, the plugin alone refuses it."""
one_token_map = _token_map(lambda offsets: 7 - np.arange(len(offsets)))
"""d2t leads all draft tokens to one target token. Padding may repeat entries too, so only a probe can tell."""

BY_HEADERS = {
    "wrong_shape": ("ShapesDiffer", "norm.weight is [255]"),
    "transposed": ("FcWidthWrong", "fc.weight [768, 256]"),
    "integers": ("WeightsNotFloat", "I32 in fc.weight"),
    "missing_tensor": ("ParametersNotFed", "k_proj.weight"),
    "missing_head": ("HeadMissing", "lm_head.weight"),
    "extra_tensor": ("TensorsDropped", "extra.weight"),
    "second_layer": ("TensorsDropped", "layers.1.mlp.up_proj.weight"),
    "no_token_map": ("TokenMapMissing", "d2t"),
    "token_map_out_of_range": ("TokenMapOutOfRange", "leads to 259"),
    "token_map_negative": ("TokenMapOutOfRange", "leads to -253"),
    "token_map_short": ("TokenMapLengthWrong", "d2t [252]"),
    "other_architecture": ("ConfigIncomplete", "q_lora_rank"),
    "unknown_architecture": ("FormatUnsupported", "NobodyForCausalLM"),
    "other_hidden_size": ("ShapesDiffer", "q_proj.weight"),
    "other_vocabulary": ("VocabularyDiffers", "vocab_size 512"),
    "other_draft_vocabulary": ("HeadRowsWrong", "[253, 256]"),
    "other_heads": ("ShapesDiffer", "k_proj.weight"),
    "other_capture_layers": ("LayerIdsOutOfRange", "[1, 3, 7]"),
    "remote_code": ("RemoteCode", "auto_map"),
    "config_cut": ("ConfigMalformed", "is not JSON"),
    "config_of_no_object": ("ConfigMalformed", "holds a list"),
    "config_not_utf8": ("ConfigMalformed", "utf-8"),
    "config_empty": ("ConfigMalformed", "is not JSON"),
    "config_nested": ("ConfigTooLarge", "nests thousands"),
    "config_key_twice": ("ConfigMalformed", "hidden_size twice"),
    "truncated": ("FileTruncated", FILE),
    "trailing_bytes": ("TensorsMisplaced", "64 bytes after its last tensor"),
    "zero_bytes": ("HeaderMalformed", "has 0 bytes"),
    "oversized_header": ("HeaderMalformed", "declares a header of 4611686018427387904"),
    "header_not_json": ("HeaderMalformed", "not JSON"),
    "header_not_utf8": ("HeaderMalformed", "not UTF-8"),
    "header_name_twice": ("TensorRepeated", "norm.weight twice"),
    "overlapping_tensors": ("TensorsMisplaced", "overlaps"),
    "negative_offset": ("HeaderMalformed", "offsets that are none"),
    "unknown_type": ("DtypeUnknown", "PICKLE"),
    "shape_beyond_data": ("TensorSizeWrong", "1099511627776"),
    "index_without_map": ("IndexMalformed", "no weight_map"),
    "index_names_missing_shard": ("ShardMissing", "model-00002.safetensors"),
    "index_leads_outside": ("LinkOutsideFolder", "../good/model.safetensors"),
    "pickle": ("PickleOnly", "pytorch_model.bin"),
    "empty_folder": ("ConfigMissing", "no config.json"),
    "weights_outside": ("LinkOutsideFolder", "leads to"),
    "config_outside": ("LinkOutsideFolder", "leads to"),
    "weights_are_a_folder": ("NoWeights", "no *.safetensors"),
    "config_is_a_folder": ("ConfigMissing", "no config.json"),
    "weights_are_a_pipe": ("NotReadable", "a pipe"),
    "config_is_a_pipe": ("NotReadable", "a pipe"),
    "weights_are_a_loop": ("NotReadable", "symbolic links"),
    "weights_dangle": ("NoWeights", "no *.safetensors"),
}
"""Refused by headers and config alone: reason, and what the sentence names."""

BY_ENGINE = {
    "not_a_number": ("NotFinite", "fc.weight"),
    "infinite": ("NotFinite", "down_proj.weight"),
    "other_dtype": ("DtypeDiffers", "fc.weight is torch.float32"),
    "token_map_of_floats": ("TokenMapDiffers", "float32"),
    "other_base": ("ConfigDiffers", "rope_theta is 50000.0"),
}
"""Sound by their headers, whatever the values; the plugin finds these."""
