"""A typed function as a kernel, so that it is compiled and kept as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.typed.unit import translated


@dataclass(frozen=True)
class TypedSpec(KernelSpec):
    """A function with parameters and a result of its own, called by CPython or by generated code, not by a program."""

    shaped: ClassVar[bool] = False
    name: str
    text: str

    @classmethod
    def calling(cls, name: str, function: Callable[..., Any]) -> TypedSpec:
        """``function`` as ``@kernel``; ``name`` says in caches and profiles what it is."""
        return cls(name, translated(function))

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        return f"TypedSpec({self.name}, {hashlib.sha256(self.text.encode()).hexdigest()})"

    def emit(self, target: Target) -> str:
        del target
        return self.text


__all__ = ["TypedSpec"]
