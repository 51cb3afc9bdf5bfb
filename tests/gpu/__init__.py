"""The GPU lane: what only a GPU can show, on SGLang with CUDA graphs; outside CI.

`python -m tests.gpu` on a machine with a GPU packs, runs and prints a table. Where the GPU's machine reaches
no package index, `python -m tests.gpu pack FOLDER` makes a folder that holds all it takes (62 MB: SGLang's
Hopper kernels, our package, the tiny models); there `bash FOLDER/run.sh OUT` runs it, and back here
`python -m tests.gpu show OUT/results.json` prints the table. The GPU's machine brings torch 2.11 with CUDA 13,
triton, and Python 3.12 with numpy, ml-dtypes, safetensors and prometheus-client.

The last results are in tests/gpu/results.json, told in docs/benchmarks.md.
"""
