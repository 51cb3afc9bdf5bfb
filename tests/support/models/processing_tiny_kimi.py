"""Text-only stand-in for Kimi-K2.5's remote-code processor: just what SGLang's Kimi processor reads."""

import types

from transformers import AutoTokenizer
from transformers.processing_utils import ProcessorMixin

MEDIA = {
    "patch_size": 14,
    "merge_kernel_size": 2,
    "in_patch_limit": 16384,
    "patch_limit_on_one_side": 512,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
}


class TinyKimiProcessor(ProcessorMixin):
    """Tokenizes text; there are no images."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.image_processor = None
        self.media_processor = types.SimpleNamespace(media_proc_cfg=MEDIA)

    @classmethod
    def from_pretrained(cls, path, **_kwargs):
        """Read the tokenizer beside the model."""
        return cls(AutoTokenizer.from_pretrained(path))

    def __call__(self, text=None, **_kwargs):
        """Tokenize."""
        return self.tokenizer(text, return_tensors="pt")
