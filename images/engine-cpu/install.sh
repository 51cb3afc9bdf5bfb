#!/bin/sh
# Install SGLang for the CPU into a virtual environment: the one recipe, for the image and for a developer's machine.
# Usage: install.sh TARGET_VENV   (needs uv, gcc and readelf; safe to repeat)
set -eu
target=${1:?usage: install.sh TARGET_VENV}
here=$(cd "$(dirname "$0")" && pwd)
# Without bytecode an engine takes 60 s to start where it takes 23 s with it, and a read-only root keeps none.
export UV_COMPILE_BYTECODE=1
unset PYTHONDONTWRITEBYTECODE
uv=${UV:-uv}

[ -x "$target/bin/python" ] || "$uv" venv --quiet --python 3.11 "$target"
"$uv" pip install --quiet --python "$target/bin/python" --requirement "$here/requirements.txt"
"$uv" pip install --quiet --python "$target/bin/python" --no-deps --requirement "$here/no-deps.txt"

site=$("$target/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$target/bin/python" "$here/cuda_stand_ins.py" "$site"

rm -rf "$site/sgl_kernel"
cp -R "$here/shim/." "$site/"
chmod -R a+rX "$site/sgl_kernel" "$site"/specdec_cpu_engine.*
"$target/bin/python" -m compileall -q "$site/sgl_kernel" "$site/specdec_cpu_engine.py"
"$target/bin/python" -c 'import aiohttp, fastapi, jwt, pydantic, sgl_kernel, sglang, torch, uvicorn
assert not torch.cuda.is_available()'
