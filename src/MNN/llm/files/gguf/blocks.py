"""Blocks of quantised numbers as GGUF files have them: which kinds there are, and what each means.

A kind is one function that takes blocks apart into small integers, scales and minima; floats and low-bit weights both
follow from that: ``w = value * scale + minimum``. The layouts: ggml's ``ggml-common.h``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Block:
    """``n`` blocks taken apart.

    ``values``: int8 ``[n, size]``. ``scale``: float32 ``[n, groups]``, each for ``size / groups`` neighbours.
    ``minimum``: the same, or None where all are zero; then values are counted from zero.
    """

    values: Array
    scale: Array
    minimum: Array | None = None

    def float32(self) -> Array:
        """The numbers, float32 ``[n, size]``."""
        n, groups = self.scale.shape
        wide = self.values.reshape(n, groups, -1).astype(np.float32)
        with np.errstate(all="ignore"):  # a file may hold any scale
            wide *= self.scale[:, :, None]
            if self.minimum is not None:
                wide += self.minimum[:, :, None]
        return wide.reshape(n, -1)


@dataclass(frozen=True)
class BlockKind:
    """``code``: its number in files. ``size``: numbers of a block. ``bytes``: bytes of a block.

    ``bits``: of a number, when it is kept as a small integer. ``take_apart``: uint8 ``[n, bytes]`` to a
    :class:`Block`; None for kinds that this version knows only by their size.
    """

    code: int
    name: str
    size: int
    bytes: int
    bits: int = 0
    take_apart: Callable[[Array], Block] | None = None

    @property
    def width(self) -> int:
        """Bits that a number takes in memory as a low-bit weight."""
        return next(width for width in (2, 4, 8) if self.bits <= width)


KINDS: dict[int, BlockKind] = {}
"""The kinds that can be read, by their numbers in files."""

UNREAD = {
    kind.code: kind
    for kind in (
        BlockKind(9, "Q8_1", 32, 40),
        BlockKind(15, "Q8_K", 256, 292),
    )
}
"""Kinds whose size is known, so that files that hold some can be verified, but not what they mean."""


def block(code: int, name: str, size: int, bytes: int, bits: int) -> Callable[[Callable[[Array], Block]], Any]:
    """Enters the function that takes blocks of a kind apart."""

    def enter(function: Callable[[Array], Block]) -> Callable[[Array], Block]:
        KINDS[code] = BlockKind(code, name, size, bytes, bits, function)
        return function

    return enter


def half(data: Array, at: int) -> Array:
    """The 16-bit floats at a place of all blocks, float32 ``[n, 1]``."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.ascontiguousarray(data[:, at : at + 2]).view("<f2").astype(np.float32)
