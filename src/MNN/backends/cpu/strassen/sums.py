"""What goes before products by Strassen's algorithm: the sums of A's parts, and the search for large numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.record import Record
from MNN.backends.cpu.lang.module import F32, I1, I32, Builder, Kernel, Value
from MNN.backends.cpu.strassen.records import SUMS
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

LARGEST = 2.0**40
"""Numbers up to here (of A and of B) cannot overflow on the way where plain sums would not."""

# A's factor, B's factor, and the quarters of C that the product belongs to.
PRODUCTS = (
    ("11+22", "11+22", "+11 +22"),
    ("21+22", "11", "+21 -22"),
    ("11", "12-22", "+12 +22"),
    ("22", "21-11", "+11 +21"),
    ("11+12", "22", "-11 +12"),
    ("21-11", "11+12", "+22"),
    ("12-22", "21+22", "+11"),
)
COUNT = len(PRODUCTS)
WHOLE = (("11", "11", "+11"),)
"""What stands for a level that is not there."""


def factor_parts(factor: str) -> list[tuple[int, int, bool]]:
    """The quarters of a factor as (row, column, whether it is subtracted)."""
    parts = [(int(factor[0]) - 1, int(factor[1]) - 1, False)]
    if len(factor) > 2:
        parts.append((int(factor[3]) - 1, int(factor[4]) - 1, factor[2] == "-"))
    return parts


def joined(b: Builder, factor: str, quarters: Mapping[tuple[int, int], Value]) -> Value:
    """A factor from the quarters by (row, column)."""
    first, *second = factor_parts(factor)
    x = quarters[first[:2]]
    for i, j, minus in second:
        x = b.sub(x, quarters[i, j]) if minus else b.add(x, quarters[i, j])
    return x


@dataclass(frozen=True)
class StrassenSumsSpec(KernelSpec):
    """All factors of A ``[m, parts * k]`` in f32, as register tiles read them, ``parts = 2**levels``. Its arguments are
    the record :data:`~.records.SUMS`.

    Part ``i`` of the rows is ``[i * rows, (i + 1) * rows)``, in tiles of ``mr`` rows; rows past ``rows`` or ``m``
    repeat the last one. ``s`` is ``[k / chunk, 7**(levels-1), 7, tiles, chunk / lanes, mr, lanes]``: pieces of the
    depth, outer products, inner products, tiles. Block ``b`` does tile ``b`` and sets ``flags[b]``.
    """

    shaped: ClassVar[bool] = True
    arguments: ClassVar[Record] = SUMS

    levels: int
    mr: int

    def slots(self) -> tuple[str, ...]:
        return tuple(self.arguments)

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, lanes, parts = k.b, target.lanes(DType.F32), 2**self.levels
        vector = F32.vec(lanes)
        rows, depth, chunk, last = k.slot("rows"), k.slot("k"), k.slot("chunk"), k.slot("m") - 1
        inner = chunk * self.mr
        product = inner * k.slot("tiles")
        outer = product * COUNT
        outers = PRODUCTS if self.levels == 2 else WHOLE
        with b.loop(k.begin, k.end) as block:
            own = b.gep(k.pointer("s"), F32, inner * block.index)

            def line(i: int, row: Value) -> Value:
                """Where a row of the tile begins in part ``i`` of A."""
                at = b.intrinsic("smin", block.index * self.mr + row, rows - 1)
                return b.gep(k.pointer("a"), F32, b.intrinsic("smin", at + rows * i, last) * k.slot("lda"))

            with b.loop(0, self.mr, carry=[b.const(I32.vec(lanes), 0)]) as row:
                starts = [line(i, row.index) for i in range(parts)]
                with b.loop(0, depth * parts, lanes, carry=row.carried) as step:
                    largest = step.carried[0]
                    for start in starts:
                        largest = b.intrinsic("umax", largest, _size(b, b.load(vector, b.gep(start, F32, step.index))))
                    step.next(largest)
                row.next(*step.results)
            b.store(_any_large(b, row.results[0]), b.gep(k.pointer("flags"), I32, block.index))
            # One outer product after the other: seven runs of stores in order, for which the processor asks ahead (row
            # by row, in 49 runs, took twice the time).
            with b.loop(0, depth, chunk, carry=[own]) as piece:
                to = piece.carried[0]
                for factor, _, _ in outers:
                    terms = factor_parts(factor)
                    with b.loop(0, chunk, lanes) as step, b.loop(0, self.mr) as row:
                        place = b.gep(to, F32, step.index * self.mr + row.index * lanes)
                        used = sorted({2 * y + i for y, _, _ in terms for i in (0, 1)})
                        here = {i: b.gep(line(i, row.index), F32, piece.index + step.index) for i in used}
                        quarters: dict[tuple[int, int], Value] = {}
                        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
                            places = [b.gep(here[2 * y + i], F32, depth * (2 * x + j)) for y, x, _ in terms]
                            found = [b.load(vector, p) for p in places]
                            quarters[i, j] = found[0]
                            if len(found) > 1:
                                quarters[i, j] = b.sub(*found) if terms[1][2] else b.add(*found)
                        for number, (left, _, _) in enumerate(PRODUCTS):
                            b.store(joined(b, left, quarters), b.gep(place, F32, product * number))
                    to = b.gep(to, F32, outer)
                piece.next(to)
        return k.finish()


@dataclass(frozen=True)
class LargeSpec(KernelSpec):
    """Looks for numbers that are not below ``LARGEST`` in size among ``count`` f32 numbers ``x``.

    Block ``b`` looks at ``[b * chunk, (b + 1) * chunk)`` and sets ``flags[b]`` (i32) to 1 or 0. ``count`` and ``chunk``
    are multiples of the vector's lanes.
    """

    shaped: ClassVar[bool] = True

    def slots(self) -> tuple[str, ...]:
        return tuple("x flags count chunk".split())

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, lanes = k.b, target.lanes(DType.F32)
        with b.loop(k.begin, k.end) as block:
            first = block.index * k.slot("chunk")
            last = b.intrinsic("smin", first + k.slot("chunk"), k.slot("count"))
            with b.loop(first, last, lanes, carry=[b.const(I32.vec(lanes), 0)]) as at:
                x = b.load(F32.vec(lanes), b.gep(k.pointer("x"), F32, at.index))
                at.next(b.intrinsic("umax", at.carried[0], _size(b, x)))
            b.store(_any_large(b, at.results[0]), b.gep(k.pointer("flags"), I32, block.index))
        return k.finish()


def _size(b: Builder, x: Value) -> Value:
    """Bits that are ordered like the sizes of floats, with infinity and NaN above the rest."""
    return b.and_(b.bitcast(x, I32.vec(x.type.lanes)), 0x7FFFFFFF)


def _any_large(b: Builder, sizes: Value) -> Value:
    lanes = sizes.type.lanes
    large = b.icmp("uge", sizes, int(np.float32(LARGEST).view(np.int32)))
    found = large if lanes == 1 else b.call(I1, f"llvm.vector.reduce.or.v{lanes}i1", large)
    return b.convert("zext", found, I32)
