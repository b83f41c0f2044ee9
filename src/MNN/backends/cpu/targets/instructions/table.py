"""All instructions, and which of them a processor with some features has."""

from __future__ import annotations

import functools

from MNN.backends.cpu.targets.instructions import aarch64, x86, x86_tiles
from MNN.backends.cpu.targets.instructions.base import Instruction
from MNN.backends.cpu.targets.instructions.capability import Capability

INSTRUCTIONS = (*x86.INSTRUCTIONS, *x86_tiles.INSTRUCTIONS, *aarch64.INSTRUCTIONS)


@functools.cache
def _that(does: Capability) -> tuple[Instruction, ...]:
    return tuple(i for i in INSTRUCTIONS if i.does is does)


@functools.lru_cache(maxsize=4096)
def find(features: frozenset[str], does: Capability, bits: int) -> Instruction | None:
    """How a processor with these features does something with vectors of ``bits``; None where it cannot."""
    return next((i for i in _that(does) if i.bits in (0, bits) and i.is_there(features)), None)


__all__ = ["INSTRUCTIONS", "find"]
