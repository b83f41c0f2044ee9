"""Single instructions of AVX2 and FMA as assembly, for steps whose registers LLVM would not keep.

Operands are as LLVM's inline assembly has them (``$0``, ``8($1)``); the last one is where the result goes, which
:data:`~MNN.backends.cpu.targets.instructions.capability.ASSEMBLY_F32` says whether a processor has.
"""

from __future__ import annotations


def load(memory: str, to: str) -> str:
    """A vector of f32, from any address."""
    return f"vmovups {memory}, {to}"


def spread(memory: str, to: str) -> str:
    """One f32, in every lane."""
    return f"vbroadcastss {memory}, {to}"


def multiply_add(x: str, y: str, total: str) -> str:
    """``total += x * y``; ``x`` may be in memory."""
    return f"vfmadd231ps {x}, {y}, {total}"


def add(x: str, y: str, to: str) -> str:
    """``to = x + y``."""
    return f"vaddps {x}, {y}, {to}"


def subtract(x: str, y: str, to: str) -> str:
    """``to = y - x``."""
    return f"vsubps {x}, {y}, {to}"


__all__ = ["add", "load", "multiply_add", "spread", "subtract"]
