"""What cached things are made by: the sources of this engine's own packages, and the versions of LLVM."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import pathlib
import pkgutil


@functools.cache
def llvm_version() -> str:
    """The versions of LLVM and llvmlite, as part of the key of everything they produced.

    What is asked of the package and its library's file need not load the library."""
    import llvmlite

    found = sorted((pathlib.Path(llvmlite.__file__).parent / "binding").glob("*llvmlite.*"))
    files = [f"{path.name} of {path.stat().st_size}" for path in found if path.suffix != ".py"]
    if files:
        return f"llvmlite {llvmlite.__version__} {' '.join(files)}"
    import llvmlite.binding as llvm

    return f"llvmlite {llvmlite.__version__} llvm {'.'.join(map(str, llvm.llvm_version_info))}"


@functools.cache
def source_digest(packages: tuple[str, ...]) -> str:
    """A hash of the source of these packages and all in them, and of what describes types and code."""
    total = hashlib.sha256(llvm_version().encode())
    for package in packages:
        for module, source in _sources(package):
            total.update(module.encode() + b"\0" + source)
    for module in ("MNN.ir.dtype", "MNN.ir.scalar"):
        total.update(_source(module))
    return total.hexdigest()


def _sources(package: str) -> list[tuple[str, bytes]]:
    """Names and sources of the modules of a package and of the packages in it."""
    folders = list(importlib.import_module(package).__path__)
    if len(folders) == 1 and os.path.isdir(folders[0]):  # the files themselves: finding modules takes much longer
        names = [os.path.join(place, name) for place, _, all_ in os.walk(folders[0]) for name in all_]
        files = sorted(name for name in names if name.endswith(".py"))
        if files:
            return [(name[len(folders[0]) :].replace(os.sep, "/"), _read(name)) for name in files]
    modules = sorted(m.name for m in pkgutil.walk_packages(folders, f"{package}."))
    return [(module, _source(module)) for module in modules]


def _read(name: str) -> bytes:
    with open(name, "rb", buffering=0) as file:
        return file.read()


def _source(module: str) -> bytes:
    spec = importlib.util.find_spec(module)
    loader = spec.loader if spec else None
    text = loader.get_source(module) if loader is not None and hasattr(loader, "get_source") else None
    if text is None:
        raise RuntimeError(f"the source of {module} is missing, so that compiled kernels cannot be told apart")
    return str(text).encode()


__all__ = ["llvm_version", "source_digest"]
