"""Replace CUDA libraries, which only have to load where there is no GPU, by small stand-ins.

PyPI's torch is linked against 3 GB of CUDA libraries that are never called on a machine without a GPU. A stand-in has the
name, the symbols and the symbol versions of the library it replaces; every function returns 0.

Usage: cuda_stand_ins.py SITE_PACKAGES
"""

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

LIBRARIES = {
    "cu13": ("cublas", "cublasLt", "cufft", "curand", "cusolver", "cusparse", "nvJitLink", "nvrtc", "cupti"),
    "cusparselt": ("cusparseLt",),
    "nccl": ("nccl",),
    "nvshmem": ("nvshmem_host",),
}
KEPT = {
    "libcudart.so.13",  # asked for the number of devices
    "libcudnn.so.9",  # small, and looks for its parts only when it is called
    "libcufile.so.0",  # has C++ objects that are used while it loads
}
UNUSED = ("nvidia/*/lib/*", "nvidia/*/include", "nvidia/*/bin", "nvidia/*/nvvm", "triton/backends/nvidia/bin")
LARGEST_STAND_IN = 2_000_000


@dataclass
class Exports:
    """What a library offers to the linker."""

    soname: str
    functions: set[str] = field(default_factory=set)
    objects: dict[str, int] = field(default_factory=dict)
    versions: dict[str, set[str]] = field(default_factory=dict)


def main() -> None:
    """Replace the libraries under one site-packages folder, and delete what only they need."""
    site = Path(sys.argv[1])
    replaced = set()
    for package, names in LIBRARIES.items():
        for name in names:
            (library,) = site.glob(f"nvidia/{package}/lib/lib{name}.so.*[0-9]")
            replaced.add(library)
            # A second run finds its own work.
            if library.stat().st_size > LARGEST_STAND_IN:
                replace(library)
    for path in [path for pattern in UNUSED for path in site.glob(pattern)]:
        if path not in replaced and path.name not in KEPT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def replace(library: Path) -> None:
    """Put a stand-in where the library was: a new file, since the old one may be linked to from a package cache."""
    before = library.stat().st_size
    exports = read_exports(library)
    with tempfile.TemporaryDirectory() as folder:
        stand_in = link(exports, Path(folder))
        library.unlink()
        shutil.move(stand_in, library)
    library.chmod(0o755)
    print(f"{exports.soname:24} {before / 1e6:7.1f} -> {library.stat().st_size / 1e6:.2f} MB")


def read_exports(library: Path) -> Exports:
    """Read the dynamic symbols that others may bind to."""
    exports = Exports(re.search(r"SONAME\).*\[(.*)\]", _readelf("--dynamic", library)).group(1))
    for line in _readelf("--dyn-syms", library).splitlines():
        match line.split():
            case [_, _, size, kind, "GLOBAL" | "WEAK" | "UNIQUE", _, section, symbol, *_] if section not in (
                "UND",
                "ABS",
            ):
                name, version = re.fullmatch(r"([^@]*)(?:@@?(.*))?", symbol).groups()
                if kind in ("FUNC", "IFUNC", "NOTYPE"):
                    exports.functions.add(name)
                elif kind == "OBJECT":
                    exports.objects[name] = max(int(size, 0), 8)
                else:
                    continue
                exports.versions.setdefault(version or "", set()).add(name)
    return exports


def link(exports: Exports, folder: Path) -> Path:
    """Assemble a shared library with those exports."""
    source, script, made = folder / "stand_in.S", folder / "stand_in.map", folder / "stand_in.so"
    lines = [".text"]
    lines += [f".globl {name}\n.type {name},@function\n{name}:" for name in sorted(exports.functions)]
    lines += ["xor %eax,%eax\nret", ".bss"]
    for name, size in sorted(exports.objects.items()):
        lines.append(
            f".globl {name}\n.type {name},@object\n.size {name},{size}\n.balign 16\n{name}: .zero {size}"
        )
    lines += ['.section .note.GNU-stack,"",@progbits', ""]
    source.write_text("\n".join(lines))
    command = ["gcc", "-shared", "-nostdlib", "-o", made, source, f"-Wl,-soname,{exports.soname}"]
    versions = {version: names for version, names in exports.versions.items() if version}
    if versions:
        quoted = {
            version: " ".join(f'"{name}";' for name in sorted(names)) for version, names in versions.items()
        }
        script.write_text("\n".join(f"{version} {{ global: {names} }};" for version, names in quoted.items()))
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True)
    return made


def _readelf(what: str, library: Path) -> str:
    return subprocess.run(
        ("readelf", "--wide", what, library), capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    main()
