"""Products of bytes by sums in 16 bits, where the values of A tell that these fit with any weights.

Eight neighbouring values of A are *light* where sums of every second pair of them, times the largest weight, fit in 16
bits: then two sums of pairs are added before they are widened, three multiplications for what otherwise takes four, and
it does not matter how weights are paired. Behind a ReLU most values are small, and nearly all eights are light. Which
are, is found for a tile of rows once, for all panels; values are copied on the way, in the order in which sums take
them. The few others are multiplied in 16 bits; a tile with many takes weights that fit with any values
(:mod:`MNN.backends.cpu.gemm.byte_pairs.code`).
"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.byte_pairs.code import FLIP, ContractBytePairs
from MNN.backends.cpu.gemm.contraction import LIGHT_ROWS, ContractSpec
from MNN.backends.cpu.lang.module import I8, I16, I32, I64, Value
from MNN.backends.cpu.packing.byte_pairs import EIGHT, LIGHT_PART, LIMIT, NATURAL, shift_of
from MNN.backends.cpu.products import dot8
from MNN.backends.cpu.products.dot import load_group
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.tile_store import LINE
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_FEW_PANELS = 4
"""Panels from which on A is looked at: that takes half as long as the products with one."""
_UNSEEN = 15
"""Tiles behind one with few light eights that are taken to be alike: exact products need no more than that."""


@generates(ContractSpec, byte_pairs=True, light=True)
def emit_light_bytes(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    return ContractLightBytes(spec, target).emit()


class ContractLightBytes(ContractBytePairs):
    """A block's rows are sorted once: for each tile how many eights are light (-1: too few), the values, first of light
    ones, ``[eights, rows, 8]``, and the numbers of the eights."""

    def _columns(self, n0: Value, n1: Value, right: Value, m0: Value) -> None:
        k, b, spec = self.k, self.b, self.spec
        self.first = m0
        per_tap = b.udiv(k.slot("k") + (EIGHT - 1), EIGHT)
        self.eights = k.slot("n_taps") * per_tap
        self.tile_bytes = b.and_(self.eights * (spec.mr * EIGHT + I32.size) + (2 * LINE - 1), -LINE)
        steps = b.and_(k.slot("k") + (DOT4 - 1), -DOT4)
        before = spec.mr * self.nr * I32.size + k.slot("n_taps") * steps * 2
        self.sorted = b.gep(k.scratch, I8, b.and_(before + (LINE - 1), -LINE))
        panel = b.gep(right, self.b_type, b.udiv(n0, self.nr) * k.slot("panel"))
        limit = b.splat(b.load(I16, b.gep(panel, I32, self.nr + LIMIT)), 4 * spec.mr)
        many = b.icmp("sge", n1 - n0, _FEW_PANELS * self.nr)
        none = b.const(I64, 0)
        with b.loop(m0, self.m1, spec.mr, carry=[none]) as row:
            (unseen,) = row.carried
            looked_at = b.and_(many, b.icmp("eq", unseen, none))
            taps = b.select(looked_at, k.slot("n_taps"), none)
            place, rows = self._sorted_tile(row.index), self._row_starts(row.index)
            with b.loop(none, taps, carry=[none, none]) as tap:
                at = b.entry(k.pointer("taps"), tap.index)
                with b.loop(b.const(I64, 0), per_tap, carry=tap.carried) as turn:
                    begin = at + b.intrinsic("smin", turn.index * EIGHT, k.slot("k") - EIGHT)
                    number, light = turn.carried
                    values = self._eights(rows, begin)
                    for to in (light, self.eights - 1 - number + light):  # one of these is written again
                        b.store(values, self._values(place, to), align=1)
                        b.store(b.convert("trunc", number, I32), self._number(place, to), align=1)
                    turn.next(number + 1, light + self._is_light(values, limit))
                tap.next(*turn.results)
            _, light = tap.results
            few = b.icmp("slt", light * LIGHT_PART, self.eights * (LIGHT_PART - 1))
            b.store(b.select(few, b.const(I64, -1), light), place, align=1)
            begun = b.select(looked_at, b.const(I64, _UNSEEN + 1), unseen)
            row.next(b.select(few, b.intrinsic("smax", begun - 1, none), none))
        super()._columns(n0, n1, right, m0)

    def _sorted_tile(self, row: Value) -> Value:
        return self.b.gep(self.sorted, I8, self.b.udiv(row - self.first, self.spec.mr) * self.tile_bytes)

    def _values(self, place: Value, i: Value) -> Value:
        return self.b.gep(place, I8, i * (EIGHT * self.spec.mr) + LINE)

    def _number(self, place: Value, i: Value) -> Value:
        return self.b.gep(place, I8, self.eights * (EIGHT * self.spec.mr) + i * I32.size + LINE)

    def _eights(self, rows: Sequence[Value], begin: Value) -> Value:
        """Eight values of each row, as unsigned bytes."""
        b = self.b
        values = b.const(I64.vec(len(rows)), 0)
        for r, row in enumerate(rows):
            values = b.insert(values, b.load(I64, b.gep(row, I8, begin), align=1), r)
        if shift_of(self.spec.a):
            values = b.bitcast(b.xor(b.bitcast(values, I32.vec(2 * len(rows))), FLIP), values.type)
        return values

    def _is_light(self, values: Value, limit: Value) -> Value:
        """1 where sums of values are within the limit in all rows, else 0."""
        b, rows = self.b, values.type.lanes
        words = b.bitcast(values, limit.type)
        pairs = b.add(b.and_(words, 0xFF), b.lshr(words, 8))
        other = b.bitcast(b.lshr(b.bitcast(pairs, values.type), 32), limit.type)
        beyond = b.bitcast(b.icmp("sgt", b.add(pairs, other), limit), I16)
        assert rows == LIGHT_ROWS
        return b.convert("zext", b.icmp("eq", beyond, 0), I64)

    def _panel(self, base: Value, m0: Value) -> tuple[Value, Value | int]:
        panel, step = super()._panel(base, m0)
        self.natural = self.b.gep(panel, I32, self.b.entry(panel, self.nr + NATURAL))
        return panel, step

    def _sums(self, row: Value, right: Sequence[Value], step: Value | int) -> list[Value]:
        place, exact = self._sorted_tile(row), super()._sums
        light = self.b.load(I64, place, align=1)
        self.ask_operands(row, self.spec.mr)
        return self.b.if_else(
            self.b.icmp("sge", light, 0),
            lambda: self._by_values(place, light, right[-1]),
            lambda: exact(row, right, step),
            likely=True,
        )

    def _by_values(self, place: Value, light: Value, panel: Value) -> list[Value]:
        """The sums of a tile that is sorted."""
        b, found = self.b, self._starts(panel) * self.spec.mr
        turns = (b.const(I64, 0), light, self._of_light), (light, self.eights, self._of_others)
        for begin, end, products in turns:
            with b.loop(begin, end, carry=found) as turn:
                sums = list(turn.carried)
                number = b.entry(self._number(place, turn.index), 0)
                weights = b.gep(self.natural, I32, number * (2 * self.nr))
                values = self._values(place, turn.index)
                products(sums, values, weights)
                turn.next(*sums)
            found = turn.results
        return found

    def _of_light(self, sums: list[Value], values: Value, weights: Value) -> None:
        b, first = self.b, self._row_of(weights, 0)
        for r in range(self.spec.mr):
            left = [b.bitcast(self._group(values, r, i), first[0].type) for i in range(2)]
            b.in_order()  # as where weights tell
            for j, weight in enumerate(self._row_of(weights, 1)):
                self._add(sums, r, j, b.add(self._pairs(left[0], first[j]), self._pairs(left[1], weight)))

    def _of_others(self, sums: list[Value], values: Value, weights: Value) -> None:
        b, target, words = self.b, self.target, I32.vec(self.lanes)
        for i in range(2):
            right = [dot8.prepare_b(b, target, b.bitcast(row, words)) for row in self._row_of(weights, i)]
            for r in range(self.spec.mr):
                left = dot8.prepare_a(b, target, DType.U8, self._group(values, r, i))
                for j, parts in enumerate(right):
                    at = r * self.spec.nv + j
                    sums[at] = dot8.dot(b, target, DType.U8, sums[at], left, parts)
            b.in_order()

    def _group(self, values: Value, r: int, i: int) -> Value:
        """Four of a row's eight values, in every lane."""
        return load_group(self.b, self.b.gep(values, I8, r * EIGHT + i * DOT4), self.lanes)
