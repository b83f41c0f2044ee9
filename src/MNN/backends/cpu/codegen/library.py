"""The loaded kernels of a process: specs in, addresses out. Compiles what neither memory nor the disk cache holds."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
from collections.abc import Mapping, Sequence

from MNN.backends.base.backend import GoneError
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.parallel import side_by_side, workers
from MNN.backends.cpu.lang.declarations import is_checked
from MNN.backends.cpu.targets.base import Target, host_target
from MNN.backends.cpu.targets.host import remember
from MNN.cache.entries import Cache
from MNN.cache.sources import source_digest

_GENERATORS = ("MNN.backends",)
_LOADED: dict[str, int] = {}  # by key hash, shared by all libraries of the process; addresses stay valid for its life


def generator_digest() -> str:
    """A hash of the source of every file that takes part in generating code."""
    return source_digest(_GENERATORS)


class KernelGoneError(GoneError):
    """A kernel that an earlier process compiled is not in the cache any more."""


@dataclasses.dataclass(frozen=True)
class KnownKernel(KernelSpec):
    """A kernel of an earlier process by what :meth:`Library.key` said of it; its object must still be in the cache.

    ``bytes``: the scratch that it needs with the arguments it is called with.
    """

    digest: str
    bytes: int

    def slots(self) -> tuple[str, ...]:
        raise TypeError("a kernel known by its key has its arguments in order already")

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        return self.bytes

    def emit(self, target: Target) -> str:
        """Raises :class:`KernelGoneError`: there is nothing to make it from."""
        raise KernelGoneError(f"kernel {self.digest} is not in the cache any more")


class Library:
    """Loads kernels for one target. Thread safe."""

    def __init__(self, target: Target, cache: Cache | None = None) -> None:
        self.target = target
        self.cache = cache or Cache(None)
        self._keys: dict[tuple[KernelSpec, bool], str] = {}
        self.compiled = 0
        """How many kernels this library had to compile."""
        self.loaded = 0
        """How many it brought into memory."""

    def key(self, spec: KernelSpec) -> str:
        """What tells a kernel's object from all others: its spec, the target, and the code that generates it."""
        if isinstance(spec, KnownKernel):
            return spec.digest
        checked = is_checked()
        found = self._keys.get((spec, checked))
        if found is None:
            parts = (spec.key(), self.target.key(), generator_digest(), str(checked))
            found = self._keys[spec, checked] = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return found

    def object(self, spec: KernelSpec) -> tuple[str, bytes]:
        """The symbol and the object file of a kernel, from the cache or compiled now (also for foreign targets)."""
        return next(iter(self._objects({self.key(spec): spec}).values()))

    def _objects(self, specs: Mapping[str, KernelSpec]) -> dict[str, tuple[str, bytes]]:
        """Symbols and object files by key."""
        stored = {key: self.cache.get(key) for key in specs}
        absent = [key for key, data in stored.items() if data is None]
        if len(absent) < 2 or workers() == 1:
            made = [self._compiled(key, specs[key], True) for key in absent]
        else:
            toolchain.lead(self.target)
            made = side_by_side(lambda key: self._compiled(key, specs[key], False), absent)
        self.compiled += len(made)
        objects = {**stored, **dict(zip(absent, made, strict=True))}
        return {key: (f"mnn_{key[:32]}", data) for key, data in objects.items() if data is not None}

    def _compiled(self, key: str, spec: KernelSpec, alone: bool) -> bytes:
        ir = toolchain.rename_entry(spec.emit(self.target), f"mnn_{key[:32]}")
        make = toolchain.compile_object if alone else toolchain.compile_in_thread
        data = make(ir, self.target, shaped=spec.shaped)
        self.cache.put(key, data)
        return data

    def load(self, specs: Sequence[KernelSpec]) -> list[int]:
        """Addresses of the kernels, in order. Equal specs are compiled and loaded once per process."""
        with toolchain.LOCK:
            different = {id(spec): spec for spec in specs}
            known = {number: self.key(spec) for number, spec in different.items()}
            keys = [known[id(spec)] for spec in specs]
            missing = {key: spec for key, spec in zip(keys, specs, strict=True) if key not in _LOADED}
            if not missing:
                return [_LOADED[key] for key in keys]
            objects = self._objects(missing)
            self.loaded += len(objects)
            addresses = toolchain.link(dict(objects.values()), self.target)
            _LOADED.update({key: addresses[symbol] for key, (symbol, _) in objects.items()})
            return [_LOADED[key] for key in keys]


_libraries: dict[tuple[str, bool], Library] = {}
_lock = threading.Lock()


def shared_library(cache: bool) -> Library:
    """The process's kernels for this machine, kept on disk or not."""
    target = host_target()
    with _lock:
        key = (target.key(), cache)
        if key not in _libraries:
            _libraries[key] = Library(target, Cache.default() if cache else None)
            if cache:
                remember()
        return _libraries[key]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
