"""B's second bf16 parts as bytes, for products on tiles that take as long as their weights come from memory.

A weight is its first part (a bf16, rounded), and a whole number of 256th parts of that one's last place: 24 bits, with
an error of 2^-16 of the weight at most, but at the ends of a byte's range, and 2^-17 in the mean. Bytes become bf16
through fp16, whose exponents are moved: a byte has 7 bits and a sign, which both types hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from MNN.backends.cpu.amx.tiles import ROWS, TILE_BYTES
from MNN.backends.cpu.lang.module import F16, I8, I16, I32, Builder, Value
from MNN.backends.cpu.targets.base import Target

STEP_BYTES = TILE_BYTES + TILE_BYTES // 2
"""Of a step of 16 columns: the tile of first parts, and its bytes."""
_LEAN_ROWS = 128
"""Rows up to which second parts of weights are bytes: see :func:`uses_weights24`."""
_WORDS = 32
_EXPONENT = 0x7F80
_MOVED = (15 + 15) << 7
"""From a fp16 number's exponent (biased by 15) to that of 2^-15 times the first part's power of two."""
_LEAST, _MOST = 2.0**-64, 256.0
"""Weights other than zero: below, exponents of second parts leave the range; from there on, first parts are
truncated (:mod:`MNN.backends.cpu.lang.parts`)."""


def uses_weights24(target: Target, weights: int, rows: int, blocks: int, threads: int) -> bool:
    """Whether second parts of so many ``weights`` are better bytes (:mod:`MNN.backends.cpu.amx.byte_parts`): where what
    is read takes longer than the products, which are those of few rows.

    With 197 rows in one thread it makes no difference (ViT-B/16) or costs 5 % (ViT-tiny). Two threads that share the
    ``blocks`` of as many rows both read all weights: 9 MiB of them come in 1020 us instead of 1180 then, 2 MiB in the
    same time, and 1 MiB (196 rows, depth 256, 1024 columns), of which more stays in the caches, in 180 instead of 145.
    """
    if rows <= _LEAN_ROWS:
        return weights * 4 > target.l2_bytes // 4
    return rows <= _LEAN_ROWS * min(blocks, threads) and weights * 4 > 2 * target.l2_bytes


def fits(weights: np.ndarray) -> bool:
    """Whether all of these can be kept so."""
    for part in np.array_split(weights.reshape(-1), max(1, weights.size >> 20)):  # no copy of all of them
        sizes = np.abs(part)
        if not sizes.max(initial=0.0) < _MOST or sizes.min(initial=np.inf, where=sizes > 0) < _LEAST:  # or NaN
            return False
    return True


def to_bytes(b: Builder, first: Value, rest: Value) -> Value:
    """Second parts ``rest`` beside ``first`` ones (vectors of f32, of which ``first`` is a bf16) as i8."""
    t = first.type
    power = b.bitcast(b.and_(b.bitcast(first, I32.vec(t.lanes)), 0x7F800000), t)
    units = b.fdiv(b.mul(rest, 2.0**15), b.select(b.fcmp("ogt", power, 0.0), power, b.const(t, 1.0)))
    whole = b.intrinsic("rint", units)
    bound = b.const(t, 127.0)
    whole = b.intrinsic("minnum", b.intrinsic("maxnum", whole, b.const(t, -127.0)), bound)
    return b.convert("trunc", b.convert("fptosi", whole, I32.vec(t.lanes)), I8.vec(t.lanes))


@dataclass(frozen=True)
class Packed:
    """A step of some column tiles: first parts, and their bytes."""

    firsts: Value
    numbers: Value

    @classmethod
    def at(cls, b: Builder, step: Value, width: Value | int, column: int) -> Packed:
        """From column tile ``column`` on of a ``step`` of ``width`` tiles."""
        half = TILE_BYTES // 2
        return cls(b.gep(step, I8, column * TILE_BYTES), b.gep(step, I8, width * TILE_BYTES + column * half))

    def or_else(self, b: Builder, condition: Value, other: Packed) -> Packed:
        """This one where ``condition``, the other one elsewhere."""
        return Packed(b.select(condition, self.firsts, other.firsts), b.select(condition, self.numbers, other.numbers))


def unpack(b: Builder, packed: Packed, to: Value, width: int) -> None:
    """Emits the tiles of second parts at ``to``, of ``width`` column tiles."""
    with b.loop(0, width * ROWS) as row:
        _unpack_row(b, packed, to, row.index)


def unpacked(b: Builder, packed: Packed, to: Value, width: int, products: int) -> Iterator[None]:
    """The same, evenly between ``products`` products."""
    rows = width * ROWS
    for product in range(products):
        for row in range(product * rows // products, (product + 1) * rows // products):
            _unpack_row(b, packed, to, row)
        yield


def _unpack_row(b: Builder, packed: Packed, to: Value, row: Value | int) -> None:
    words, at = I16.vec(_WORDS), row * _WORDS
    first = b.load(words, b.gep(packed.firsts, I16, at))
    byte = b.convert("sext", b.load(I8.vec(_WORDS), b.gep(packed.numbers, I8, at)), words)
    half = b.bitcast(b.convert("sitofp", byte, F16.vec(_WORDS)), words)
    size = b.lshr(b.and_(half, 0x7FFF), 3)  # three bits of the fraction fewer
    moved = b.add(size, b.sub(b.and_(first, _EXPONENT), _MOVED))
    second = b.or_(moved, b.and_(half, -0x8000))
    b.store(b.select(b.icmp("eq", half, 0), b.const(words, 0), second), b.gep(to, I16, at))


__all__ = ["STEP_BYTES", "Packed", "fits", "to_bytes", "unpack", "unpacked", "uses_weights24"]
