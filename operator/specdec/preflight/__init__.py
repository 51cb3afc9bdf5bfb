"""Judging a drafter by config.json and safetensors headers alone: no tensor data, no torch, no GPU.

Read in this order: `source` and `header` (bytes, distrusted), `reading` (a folder, every fault a finding),
`facts` (typed and frozen), `repair` (what needs no change of weights), `checks` (one function per fault),
`report` (all findings at once); `preflight` puts them together. What depends on SGLang's version is in
`capabilities` and `argument_table`, and `probes` proves both on the wheels. `loading` is what the plugin does
between files and loader, `convert` writes a mended copy, `stories` and `reference` tell every code.

`checkpoint`, `digest` and `overlay` serve the agent's staging: they name contents and normalise configs.
"""
