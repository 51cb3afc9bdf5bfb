"""Stand-in for Kimi-K2.5's remote-code processor: just what SGLang's Kimi processor asks of it."""

import types

import numpy as np
import torch
from transformers import AutoTokenizer
from transformers.processing_utils import ProcessorMixin

PATCH = 14
SIDE = 4
"""Patches of a side: every picture is made so large."""
MERGED = 2
MEDIA = {
    "patch_size": PATCH,
    "merge_kernel_size": MERGED,
    "in_patch_limit": 16384,
    "patch_limit_on_one_side": 512,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
}


class TinyKimiProcessor(ProcessorMixin):
    """Tokenizes text, and cuts pictures into patches."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.image_processor = None
        self.media_processor = types.SimpleNamespace(
            media_proc_cfg=MEDIA, media_tokens_calculator=lambda _media: (SIDE // MERGED) ** 2
        )

    @classmethod
    def from_pretrained(cls, path, **_kwargs):
        """Read the tokenizer beside the model."""
        return cls(AutoTokenizer.from_pretrained(path))

    def __call__(self, text=None, medias=None, **_kwargs):
        """Tokenize; pictures become `pixel_values` (patches, 3, 14, 14) from -1 to 1, and `grid_thws` (pictures, 3)."""
        found = self.tokenizer(text, return_tensors="pt")
        if medias:
            found["pixel_values"] = torch.cat([patches(media["image"]) for media in medias])
            found["grid_thws"] = torch.tensor([[1, SIDE, SIDE]] * len(medias))
        return found


def patches(image):
    """Cut a picture into its patches, row by row."""
    pixels = np.asarray(image.convert("RGB").resize((SIDE * PATCH, SIDE * PATCH)), np.float32) / 127.5 - 1
    tiles = torch.from_numpy(pixels).view(SIDE, PATCH, SIDE, PATCH, 3)
    return tiles.permute(0, 2, 4, 1, 3).reshape(SIDE * SIDE, 3, PATCH, PATCH)
