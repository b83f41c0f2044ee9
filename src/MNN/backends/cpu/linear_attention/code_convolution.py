"""Code generation of :class:`MNN.backends.cpu.linear_attention.spec.CausalConvolutionSpec`."""

from __future__ import annotations

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.module import F32, I64, Kernel, Value
from MNN.backends.cpu.linear_attention.segments import each_segment
from MNN.backends.cpu.linear_attention.spec import COLUMNS, CausalConvolutionSpec, dividing
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType


@generates(CausalConvolutionSpec)
def emit_causal_convolution(spec: CausalConvolutionSpec, target: Target) -> str:
    """The module's text."""
    return _Convolving(spec, target).emit()


class _Convolving:
    """One emission."""

    def __init__(self, spec: CausalConvolutionSpec, target: Target) -> None:
        self.spec = spec
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = dividing(spec.columns, target.lanes(DType.F32))
        self.vector = F32.vec(self.lanes)
        self.before = spec.taps - 1
        """Rows of a slot."""
        self.column: Value
        """The first of the block."""
        self.wide: Value
        """How many columns it has."""

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        with b.loop(k.begin, k.end) as block:
            self.column = block.index * COLUMNS
            self.wide = b.intrinsic("smin", b.const(I64, COLUMNS), b.const(I64, spec.columns) - self.column)
            each_segment(k, self._segment)
        return k.finish()

    def _slot(self, place: Value) -> Value:
        start = place * (self.before * self.spec.columns) + self.column
        return self.b.gep(self.k.pointer("pool"), F32, start)

    def _segment(self, first: Value, count: Value, source: Value, to: Value) -> None:
        k, b, spec = self.k, self.b, self.spec
        known = b.icmp("ult", source, k.slot("places"))
        with b.loop(0, self.before) as row:
            kept = b.gep(k.scratch, F32, row.index * COLUMNS)

            def load() -> None:
                self._copy(b.gep(self._slot(source), F32, row.index * spec.columns), kept)

            def clear() -> None:
                with b.loop(0, self.wide, self.lanes) as each:
                    b.store(b.const(self.vector, 0.0), b.gep(kept, F32, each.index))

            b.choose(known, load, clear)
        x = b.gep(k.pointer("x"), F32, first * k.slot("x_t") + self.column)
        weights = b.gep(k.pointer("w"), F32, self.column)
        with b.loop(0, count) as token:
            out = b.gep(k.pointer("y"), F32, (first + token.index) * k.slot("y_t") + self.column)
            rows = [self._row(x, token.index + (j - self.before)) for j in range(spec.taps)]
            with b.loop(0, self.wide, self.lanes) as each:
                total = b.const(self.vector, 0.0)
                for j, place in enumerate(rows):
                    weight = b.load(self.vector, b.gep(weights, F32, each.index + j * spec.columns))
                    total = b.fma(weight, b.load(self.vector, b.gep(place, F32, each.index)), total)
                b.store(total, b.gep(out, F32, each.index))

        def keep() -> None:
            for i in range(self.before):
                self._copy(self._row(x, count + (i - self.before)), b.gep(self._slot(to), F32, i * spec.columns))

        b.if_(b.icmp("ult", to, k.slot("places")), keep)

    def _row(self, x: Value, number: Value) -> Value:
        """A row of the segment, or of what was in front of it."""
        b = self.b
        inside = b.icmp("sge", number, 0)
        own = b.gep(x, F32, b.select(inside, number, b.const(I64, 0)) * self.k.slot("x_t"))
        kept = b.gep(self.k.scratch, F32, b.select(inside, b.const(I64, 0), number + self.before) * COLUMNS)
        return b.select(inside, own, kept)

    def _copy(self, source: Value, to: Value) -> None:
        b = self.b
        with b.loop(0, self.wide, self.lanes) as each:
            b.store(b.load(self.vector, b.gep(source, F32, each.index)), b.gep(to, F32, each.index))


__all__ = ["emit_causal_convolution"]
