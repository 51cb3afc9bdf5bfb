"""Lets SGLang's argument resolution keep `--attention-backend intel_amx` on any CPU.

That backend is the only one of SGLang's that drafts on a CPU. SGLang falls back from it where the processor has no
AMX, and the stand-in for its kernels beside this file needs none. Only that one decision is changed: elsewhere
SGLang asks `cpu_has_amx_support()`, which stays false, so that every other layer takes its plain-torch path.

A .pth file imports this in every process of the environment; without SGLANG_USE_CPU_ENGINE=1 it does nothing.
"""

import importlib.machinery
import os
import sys

PLATFORM_MODULE = "sglang.srt.runtime_context"


class _PlatformOverride:
    """An import hook for one module: SGLang's plugins are loaded too late, after the arguments are settled."""

    def find_spec(self, name, path=None, target=None):
        if name != PLATFORM_MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def execute_and_override(module):
            execute(module)
            module.override_platform(has_amx=True).install()

        spec.loader.exec_module = execute_and_override
        return spec


if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
    sys.meta_path.insert(0, _PlatformOverride())
