"""A typed function as a kernel, so that it is compiled and kept as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.typed.unit import translated
from MNN.cache.sources import source_digest


@dataclass(frozen=True)
class TypedSpec(KernelSpec):
    """A function with parameters and a result of its own, called by CPython or by generated code, not by a program.

    ``name`` says in caches and profiles what it is. ``inline``: what it calls is made a part of it, for code that is
    written as many small functions and called often. ``sources``: the packages beside the back ends that its code and
    the numbers in it are from, and ``facts`` what else it depends on, so that it need not be translated to be found;
    without these it is known by its translation.
    """

    shaped: ClassVar[bool] = False
    name: str
    function: Callable[..., Any]
    inline: bool = False
    sources: tuple[str, ...] = ()
    facts: str = ""

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        if self.sources:
            known = f"{source_digest(self.sources)}, {self.facts}"
        else:
            known = hashlib.sha256(self._text().encode()).hexdigest()
        return f"TypedSpec({self.name}, {known})"

    def _text(self) -> str:
        return translated(self.function, inline=self.inline)

    def emit(self, target: Target) -> str:
        return toolchain.inlined(self._text(), target) if self.inline else self._text()


__all__ = ["TypedSpec"]
