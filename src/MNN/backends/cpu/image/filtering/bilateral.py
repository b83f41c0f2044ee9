"""Bilateral smoothing (Tomasi and Manduchi, 1998): means weighted by distance and by difference of colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.numbers import rounded, widened
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import F32, I64, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.math.functions import exp2_ranged
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_LEAST = -125.0
"""Powers of two that are less are taken to be 0."""
_VECTORS = 2
"""At a time, so that none waits for another's sums."""


@dataclass(frozen=True)
class BilateralSpec(KernelSpec):
    """``out_c[y, x] = sum over taps t of w_t * in_c[y, x + offset_t] / sum of w_t``, where ``w_t = 2^(weight_t +
    factor * d * d)`` and d is the sum of differences from the channels at ``x + centre``; ``planes`` 1 or 3 channels of
    type ``dtype`` (u8 or f32), each in memory of its own, with what lies outside of the picture around them.

    Slots: ``in0``, ``out0``, ``in1`` ..., ``src_row`` (elements from one row of an input to the next), ``width``,
    ``height``, ``band`` (rows of a block), ``taps``, ``offsets`` (i64), ``weights`` (f32), ``centre``, ``factor``
    (f32).
    """

    shaped: ClassVar[bool] = True

    dtype: DType
    planes: int

    def slots(self) -> tuple[str, ...]:
        planes = (f"{way}{i}" for i in range(self.planes) for way in ("in", "out"))
        return (*planes, "src_row", "width", "height", "band", "taps", "offsets", "weights", "centre", "factor")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, slot = k.b, k.slot
        element, most = storage_type(self.dtype), _VECTORS * target.lanes(DType.F32)
        width = slot("width")
        whole = b.and_(width, -most)
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            with b.loop(start, minimum(k, slot("height"), start + slot("band"))) as row:
                for first, last, lanes in ((0, whole, most), (whole, width, 1)):
                    with b.loop(first, last, lanes) as each:
                        at, to = row.index * slot("src_row") + each.index, row.index * width + each.index
                        sources = [b.gep(k.pointer(f"in{i}"), element, at) for i in range(self.planes)]
                        for i, value in enumerate(self._means(k, sources, lanes)):
                            b.store(rounded(b, value, self.dtype), b.gep(k.pointer(f"out{i}"), element, to))
        return k.finish()

    def _means(self, k: Kernel, sources: list[Value], lanes: int) -> list[Value]:
        b, element = k.b, storage_type(self.dtype)
        t = F32.vec(lanes) if lanes > 1 else F32

        def taken(offset: Value) -> list[Value]:
            loaded = [b.load(storage_type(self.dtype, lanes), b.gep(p, element, offset)) for p in sources]
            return [widened(b, x, self.dtype, DType.F32) for x in loaded]

        centre = taken(k.slot("centre"))
        factor = b.splat(k.slot("factor", F32), lanes)
        with b.loop(0, k.slot("taps"), carry=[b.const(t, 0.0)] * (self.planes + 1)) as tap:
            values = taken(b.load(I64, b.gep(k.pointer("offsets"), I64, tap.index)))
            apart = [b.sub(x, y) for x, y in zip(values, centre, strict=True)]
            total = apart[0]
            if len(apart) > 1:
                total = b.intrinsic("fabs", total)
            for more in apart[1:]:
                total = b.add(total, b.intrinsic("fabs", more))
            near = b.splat(b.load(F32, b.gep(k.pointer("weights"), F32, tap.index)), lanes)
            power = b.fma(b.mul(total, total), factor, near)
            # what is far too large for the mean may be as large as floats are: times the least of powers it would count
            weight = b.select(b.fcmp("ogt", power, _LEAST), exp2_ranged(b, power), 0.0)
            *sums, weights = tap.carried
            tap.next(*(b.fma(x, weight, s) for x, s in zip(values, sums, strict=True)), b.add(weights, weight))
        *sums, weights = tap.results
        return [b.fdiv(s, weights) for s in sums]


__all__ = ["BilateralSpec"]
