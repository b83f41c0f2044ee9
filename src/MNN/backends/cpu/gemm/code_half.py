"""Contractions in half precision, on processors that compute in it (AArch64's FP16): twice the products a cycle.

Products are summed in f16 for at most ``FLUSH`` steps, then added to sums in f32 that lie in scratch memory. With
u = 2^-11, a run of n steps loses at most n * u times the sum of the absolute products (Higham, "Accuracy and Stability
of Numerical Algorithms", 2002, section 3.1), so that whatever the depth of a product its error stays under

    FLUSH * 2^-11 * sum |a| |b|     (3.2 %; products of mixed signs lose 0.12 % of the result, rms)

beside the rounding of both sides to f16. More steps would lose more; fewer would cost more than adding takes now: up to
16 % of the time on a Cortex-A76, 10 % on a Cortex-A55. A run whose sums leave f16's range (65504) gives infinities.
"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code import Contract
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.module import F16, F32, I16, I64, Loop, Value
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

FLUSH = 64
"""Steps summed in f16."""


@generates(ContractSpec, acc=DType.F16)
def emit_half(spec: ContractSpec, target: Target) -> str:
    """The module's text. Raises ``ValueError`` where the target does not compute in f16."""
    if not target.multiplies_f16:
        raise ValueError(f"target {target.name} does not compute in f16")
    return _Half(spec, target).emit()


class _Half(Contract):
    """The state of one emission: sums of f16 in registers, of f32 in the scratch tile."""

    def __init__(self, spec: ContractSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.steps = target.lanes(spec.acc)  # of A that one vector holds
        self.half = F16.vec(self.steps)
        self.raw = I16.vec(self.steps)
        self.lanes = self.steps // 2
        self.acc = F32.vec(self.lanes)

    def _sums(self, row: Value, right: Sequence[Value], step: Value | int) -> list[Value]:
        """Fills the scratch tile; no sums are left in registers."""
        k, b, spec = self.k, self.b, self.spec
        (panel,) = right
        rows = self._row_starts(row)
        for i in range(2 * spec.mr * spec.nv):
            b.store(b.const(self.acc, 0), b.gep(k.scratch, self.acc, i))
        zeros = [b.const(self.half, 0)] * (spec.mr * spec.nv * self.parts)
        none = b.const(I64, 0)
        with b.loop(0, k.slot("n_taps"), carry=[*zeros, panel, none]) as tap:
            lo = b.entry(k.pointer("taps"), tap.index)
            hi = lo + k.slot("k")
            with b.loop(lo, hi, FLUSH, carry=tap.carried) as run:
                *sums, at, summed = run.carried
                count = b.intrinsic("smin", hi - run.index, b.const(I64, FLUSH))

                def flushed(sums: Sequence[Value] = sums) -> list[Value]:
                    self._flush(sums)
                    return [*zeros, none]

                def kept(sums: Sequence[Value] = sums, summed: Value = summed) -> list[Value]:
                    return [*sums, summed]

                *sums, summed = b.if_else(b.icmp("sgt", summed + count, FLUSH), flushed, kept)
                whole = run.index + b.and_(count, -self.steps)
                with b.loop(run.index, whole, self.steps, carry=[*sums, at]) as main:
                    self._half_steps(main, rows, self.steps, step)
                with b.loop(whole, run.index + count, carry=main.results) as last:
                    self._half_steps(last, rows, 1, step)
                run.next(*last.results, summed + count)
            tap.next(*run.results)
        self._flush(tap.results[:-2])
        return []

    def _flush(self, sums: Sequence[Value]) -> None:
        """Adds sums of f16 to those of f32."""
        b, lanes = self.b, self.lanes
        for i, value in enumerate(self._joined(sums)):
            for part in range(2):
                place = b.gep(self.k.scratch, self.acc, 2 * i + part)
                half = b.shuffle(value, None, list(range(part * lanes, (part + 1) * lanes)))
                b.store(b.add(b.load(self.acc, place), b.convert("fpext", half, self.acc)), place)

    def _half_steps(self, loop: Loop, rows: Sequence[Value], count: int, step: Value | int) -> None:
        """``count`` steps (1 or a vector of A) from ``loop.index`` on, and the loop's next values."""
        b, spec = self.b, self.spec
        sums, panel = list(loop.carried[:-1]), loop.carried[-1]
        at = [b.gep(r, I16, loop.index) for r in rows]
        lefts = [b.bitcast(b.load(self.raw, p), self.half) for p in at] if count > 1 else []
        for u in range(count):
            places = [b.gep(panel, I16, j * self.steps) for j in range(spec.nv)]
            right = [b.bitcast(b.load(self.raw, p), self.half) for p in places]
            for r in range(spec.mr):
                if count > 1:
                    left = b.shuffle(lefts[r], None, [u] * self.steps)
                else:
                    left = b.splat(b.bitcast(b.load(I16, at[r]), F16), self.steps)
                for j in range(spec.nv):
                    i = (u % self.parts * spec.mr + r) * spec.nv + j
                    sums[i] = b.fma(left, right[j], sums[i])
            panel = b.gep(panel, I16, step)
        loop.next(*sums, panel)
