"""The GPU lane: what only a GPU can show, on SGLang with CUDA graphs; outside CI.

`python -m tests.gpu run GROUP...` on a machine with a GPU packs, runs and prints a table. A group is a part
(`tests.gpu.lane.PARTS`), or parts joined by "+" that run beside each other. Where the GPU's machine reaches no
package index, `python -m tests.gpu pack FOLDER` makes a folder that holds all it takes (54 MB: SGLang's Hopper
kernels, our package); there `bash FOLDER/run.sh OUT GROUP...` runs it, and back here
`python -m tests.gpu show OUT/results.json` prints the table, `keep` in the place of `show` keeps it. The GPU's
machine brings torch 2.11 with CUDA 13, triton, and Python 3.12 with numpy, ml-dtypes, safetensors, lxml and
prometheus-client.

The last results of each part are in tests/gpu/results.json, told in docs/benchmarks.md.
"""
