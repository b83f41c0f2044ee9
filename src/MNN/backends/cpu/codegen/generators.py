"""Which code makes a kernel of a description: each family registers its own, in its files ``code*.py``.

A description says what a kernel is, and its cost, packing and emission need no more than that. So it does not import
what generates the kernel's code: that imports the description, and registers itself for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.targets.base import Target
from MNN.discovery import import_modules

Generator = Callable[[Any, Target], str]
"""From a description, of the type it is registered for, and a target to the text of a module."""
G = TypeVar("G", bound=Callable[..., str])
_GENERATORS: dict[type[KernelSpec], list[tuple[dict[str, object], Generator]]] = {}


@dataclass(frozen=True)
class GeneratedSpec(KernelSpec):
    """A kernel whose code a registered generator makes."""

    def emit(self, target: Target) -> str:
        return _generator(self)(self, target)


def generates(spec: type[KernelSpec], **fields: object) -> Callable[[G], G]:
    """Decorator: makes a generator known for descriptions of exactly this type, or for those of them alone whose
    ``fields`` have these values. Of several that fit, the one with the most fields is taken."""

    def add(generator: G) -> G:
        known = _GENERATORS.setdefault(spec, [])
        if any(fields == other for other, _ in known):
            raise ValueError(f"two generators for {spec.__name__} with {fields}")
        known.append((fields, generator))
        known.sort(key=lambda entry: -len(entry[0]))
        return generator

    return add


@functools.cache
def _load_generators() -> None:
    for _ in import_modules("MNN.backends.cpu", "code"):
        pass


def _generator(spec: KernelSpec) -> Generator:
    _load_generators()
    for fields, generator in _GENERATORS.get(type(spec), ()):
        if all(getattr(spec, name) == value for name, value in fields.items()):
            return generator
    raise TypeError(f"nothing generates code for {spec.key()}: a file code*.py of its family must register it")


__all__ = ["GeneratedSpec", "Generator", "generates"]
