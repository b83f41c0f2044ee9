"""The loaded kernels of a process: specs in, addresses out. Compiles what neither memory nor the disk cache holds."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import pkgutil
from collections.abc import Sequence

from MNN.kernels import toolchain
from MNN.kernels.cache import Cache
from MNN.kernels.lang import is_checked
from MNN.kernels.spec import KernelSpec
from MNN.targets.base import Target

_GENERATORS = ("MNN.kernels", "MNN.targets")
_LOADED: dict[str, int] = {}  # by key hash, shared by all libraries of the process; addresses stay valid for its life


def generator_digest() -> str:
    """A hash of the source of every file that takes part in generating code."""
    return source_digest(_GENERATORS)


@functools.cache
def source_digest(packages: tuple[str, ...]) -> str:
    """A hash of the source of these packages (the modules right in them), and of what describes types and code."""
    total = hashlib.sha256(toolchain.version().encode())
    for package in packages:
        for module in sorted(m.name for m in pkgutil.iter_modules(importlib.import_module(package).__path__)):
            total.update(module.encode() + b"\0" + _source(f"{package}.{module}"))
    for module in ("MNN.ir.dtype", "MNN.ir.scalar"):
        total.update(_source(module))
    return total.hexdigest()


def _source(module: str) -> bytes:
    spec = importlib.util.find_spec(module)
    loader = spec.loader if spec else None
    text = loader.get_source(module) if loader is not None and hasattr(loader, "get_source") else None
    if text is None:
        raise RuntimeError(f"the source of {module} is missing, so that compiled kernels cannot be told apart")
    return str(text).encode()


class Library:
    """Loads kernels for one target. Thread safe."""

    def __init__(self, target: Target, cache: Cache | None = None) -> None:
        self.target = target
        self.cache = cache or Cache(None)
        self.compiled = 0
        """How many kernels this library had to compile."""

    def _key(self, spec: KernelSpec) -> str:
        parts = (spec.key(), self.target.key(), generator_digest(), str(is_checked()))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def object(self, spec: KernelSpec) -> tuple[str, bytes]:
        """The symbol and the object file of a kernel, from the cache or compiled now (also for foreign targets)."""
        key = self._key(spec)
        symbol = f"mnn_{key[:32]}"
        data = self.cache.get(key)
        if data is None:
            data = toolchain.compile_object(
                toolchain.rename_entry(spec.emit(self.target), symbol), self.target, shaped=spec.shaped
            )
            self.compiled += 1
            self.cache.put(key, data)
        return symbol, data

    def load(self, specs: Sequence[KernelSpec]) -> list[int]:
        """Addresses of the kernels, in order. Equal specs are compiled and loaded once per process."""
        with toolchain.LOCK:
            keys = [self._key(spec) for spec in specs]
            missing = {key: spec for key, spec in zip(keys, specs, strict=True) if key not in _LOADED}
            objects = {key: self.object(spec) for key, spec in missing.items()}
            addresses = toolchain.link(dict(objects.values()), self.target)
            _LOADED.update({key: addresses[symbol] for key, (symbol, _) in objects.items()})
            return [_LOADED[key] for key in keys]
