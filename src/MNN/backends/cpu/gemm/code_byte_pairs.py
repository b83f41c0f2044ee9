"""Products of bytes by sums of pairs in 16 bits, of weights packed so that none saturates
(:mod:`MNN.backends.cpu.packing.byte_pairs`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code import Contract
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.module import I8, I16, I32, I64, Value
from MNN.backends.cpu.packing.byte_pairs import COUNTS, shift_of
from MNN.backends.cpu.products import dot8
from MNN.backends.cpu.products.dot import load_group
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can

_FLIP = 0x80808080
_LOW_BYTES = 0x00FF00FF


@generates(ContractSpec, byte_pairs=True)
def emit_byte_pairs(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    return ContractBytePairs(spec, target).emit()


class ContractBytePairs(Contract):
    """One tap, and runs of A in whole groups, which a panel names in its own order."""

    def _sums(self, row: Value, right: Sequence[Value], step: Value | int) -> list[Value]:
        k, b, nr = self.k, self.b, self.nr
        panel = right[-1]
        self.ask_operands(row, self.spec.mr)
        tap = b.entry(k.pointer("taps"), 0)
        rows = [b.gep(r, self.a_type, tap) for r in self._row_starts(row)]
        sums = [b.load(self.acc, b.gep(panel, self.acc, j)) for j in range(self.spec.nv)]
        if self.added is not None:
            sums = [b.add(x, y) for x, y in zip(sums, self.begun(self.spec.nv), strict=True)]
        fitting, others = (b.entry(panel, nr + i) for i in range(2))
        places = b.gep(panel, I32, nr + COUNTS)
        groups = b.and_(b.udiv(k.slot("k"), dot8.DOT4) + (COUNTS - 1), -COUNTS)
        body = b.gep(places, I32, groups)
        found, body = self._turns(sums * self.spec.mr, rows, places, fitting, body, lambda x: x, self._of_bytes)
        places = b.gep(places, I32, fitting)
        for half in (self._even, self._odd):  # two loops, for registers hold one half of a panel's row
            found, body = self._turns(found, rows, places, others, body, half, self._of_words)
        return found

    def _turns(
        self, sums: Sequence[Value], rows: Sequence[Value], places: Value, count: Value, body: Value,
        prepare: Callable[[Value], Value], product: Callable[[Value, Value], Value],
    ) -> tuple[list[Value], Value]:  # fmt: skip
        """``sums`` and the products of as many groups as ``count``, which begin at ``places`` of each row, and whose
        weights lie at ``body``; also where the next ones lie. ``prepare``: what is multiplied of a group of A."""
        b, spec = self.b, self.spec
        with b.loop(b.const(I64, 0), count, carry=[*sums, body]) as turn:
            *totals, panel = turn.carried
            at = b.entry(places, turn.index)
            right = [b.load(I32.vec(self.lanes), b.gep(panel, self.acc, j)) for j in range(spec.nv)]
            for r, pointer in enumerate(rows):
                left = load_group(b, b.gep(pointer, I8, at), self.lanes)
                left = prepare(b.xor(left, _FLIP) if shift_of(spec.a) else left)
                for j in range(spec.nv):
                    i = r * spec.nv + j
                    totals[i] = b.add(totals[i], product(left, right[j]))
            turn.next(*totals, b.gep(panel, I32, self.nr))
        *found, last = turn.results
        return found, last

    def _even(self, group: Value) -> Value:
        """The bytes at even places of a group, as 16-bit values."""
        return self.b.and_(group, _LOW_BYTES)

    def _odd(self, group: Value) -> Value:
        return self.b.lshr(self.b.bitcast(group, I16.vec(2 * self.lanes)), 8)

    def _of_bytes(self, left: Value, right: Value) -> Value:
        b, bytes_, words = self.b, I8.vec(4 * self.lanes), I16.vec(2 * self.lanes)
        pairs = b.perform(can.PAIRS_BYTES, words, b.bitcast(left, bytes_), b.bitcast(right, bytes_))
        return dot8.multiply_pairs(b, pairs, b.const(words, 1))

    def _of_words(self, left: Value, right: Value) -> Value:
        words = I16.vec(2 * self.lanes)
        return dot8.multiply_pairs(self.b, self.b.bitcast(left, words), self.b.bitcast(right, words))
