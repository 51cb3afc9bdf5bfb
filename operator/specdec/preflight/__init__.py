"""Facts about a checkpoint, read from config.json and safetensors headers alone: no tensor data, no torch.

`checkpoint` reads, `overlay` says what SGLang shall see instead of the config as written, `digest` names
contents. The agent stages drafters with them; the checks of the preflight build on the same facts.
"""
