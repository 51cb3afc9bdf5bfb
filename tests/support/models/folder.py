"""Model folders on disk: config, weights and a byte-level tokenizer, readable by any user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tests.support.models.codes import FIRST_TEXT, WIDTH, Array

TEMPLATE = (
    "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}{{ part['text'] }}{% endfor %}{% endif %}{% endfor %}"
)
"""Chat template: the contents, one after the other."""
MEDIA_TOKEN = "<|media_pad|>"
SEEING_TEMPLATE = TEMPLATE.replace(
    "{{ part['text'] }}",
    f"{{% if part['type'] == 'image' %}}{MEDIA_TOKEN}{{% else %}}{{{{ part['text'] }}}}{{% endif %}}",
)


def write(folder: Path, config: dict[str, Any], weights: dict[str, Array], *, sees: bool = False) -> Path:
    """Write one model folder; if it sees, its last token is a picture's."""
    folder.mkdir(parents=True, exist_ok=True)
    _json(folder / "config.json", config)
    save_weights(folder / "model.safetensors", weights)
    _tokenizer(folder, sees=sees)
    folder.chmod(0o755)
    return folder


def save_weights(path: Path, weights: dict[str, Array]) -> None:
    """Write tensors; safetensors makes the file 0600, which another user's engine could not read."""
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in weights.items()}
    save_file(contiguous, path, metadata={"format": "pt"})
    path.chmod(0o644)


def _json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1))
    path.chmod(0o644)


def _bytes_alphabet() -> list[str]:
    """Characters that a byte-level tokenizer writes for the 256 bytes (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(0x100 + index) for index in range(len(others))]


def _tokenizer(folder: Path, *, sees: bool) -> None:
    """One token a byte, without merges; the bytes at the end of the table that have no token are unknown."""
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for character in sorted(_bytes_alphabet())[: WIDTH - FIRST_TEXT - sees]:
        vocabulary[character] = len(vocabulary)
    media = {"id": WIDTH - 1, "content": MEDIA_TOKEN, "special": True, "normalized": False,
             "single_word": False, "lstrip": False, "rstrip": False}  # fmt: skip
    if sees:
        vocabulary[MEDIA_TOKEN] = WIDTH - 1
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "unk_token": "<unk>", "vocab": vocabulary, "merges": []}
    _json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "added_tokens": [media] if sees else [],
            "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": model,
        },
    )
    _json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "model_max_length": 2048,
            "chat_template": SEEING_TEMPLATE if sees else TEMPLATE,
        },
    )
