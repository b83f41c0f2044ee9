"""Products of bytes by sums of pairs in 16 bits, of weights packed so that none saturates
(:mod:`MNN.backends.cpu.packing.byte_pairs`)."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.code import Contract
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.module import I8, I16, I32, I64, Value
from MNN.backends.cpu.packing.byte_pairs import COUNTS, shift_of
from MNN.backends.cpu.products import dot8
from MNN.backends.cpu.products.dot import load_group
from MNN.backends.cpu.products.tile_store import LINE
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can

FLIP = 0x80808080


@generates(ContractSpec, byte_pairs=True)
def emit_byte_pairs(spec: ContractSpec, target: Target) -> str:
    """The module's text."""
    return ContractBytePairs(spec, target).emit()


class ContractBytePairs(Contract):
    """Groups of four values of A, which a panel names in its own order."""

    def _panel(self, base: Value, m0: Value) -> tuple[Value, Value | int]:
        """As for others; with several taps, where the panel's groups are in a row of A is found once, for all tiles of
        rows."""
        k, b = self.k, self.b
        panel, step = super()._panel(base, m0)
        self.joined, self.alone, self.paired, picks, body, room = (b.entry(panel, self.nr + i) for i in range(6))
        self.picks, self.weights = b.gep(panel, I32, picks), b.gep(panel, I32, body)
        own, in_row = b.gep(panel, I32, self.nr + COUNTS), b.gep(k.scratch, I32, self.spec.mr * self.nr)

        def found() -> list[Value]:
            with b.loop(b.const(I64, 0), (self.joined + self.paired) * 2 + self.alone) as group:
                tap = b.load(I32, b.gep(k.pointer("taps"), I32, b.entry(own, room + group.index)))
                b.store(tap + b.load(I32, b.gep(own, I32, group.index)), b.gep(in_row, I32, group.index))
            return [in_row, b.const(I64, 0)]

        one = b.icmp("eq", k.slot("n_taps"), 1)
        self.places, self.tap = b.if_else(one, lambda: [own, b.entry(k.pointer("taps"), 0)], found)
        return panel, step

    def _next_panel(self, panel: Value, m0: Value) -> tuple[list[Value], Value | int]:
        """As for others, but each tile of rows asks for its whole part at once: sums leave no register for where it is.
        (49 rows, 512 deep, 2048 columns whose weights come from far away: 55 -> 63 GMAC/s.)"""
        b, spec, size = self.b, self.spec, self.k.slot("panel")
        tiles = b.udiv(self.m1 - m0 + (spec.mr - 1), spec.mr)
        self.share = b.and_(b.udiv(size, tiles) + (LINE - 1), -LINE)
        return [b.gep(panel, I8, size)], self.share

    def _ask_at_once(self, far: list[Value]) -> list[Value]:
        with self.b.loop(self.b.const(I64, 0), self.share, LINE) as line:
            self.b.prefetch(self.b.gep(far[0], I8, line.index), 2)
        return []

    def _sums(self, row: Value, right: Sequence[Value], step: Value | int) -> list[Value]:
        b, panel = self.b, right[-1]
        self.ask_operands(row, self.spec.mr)
        self.rows = [b.gep(start, I8, self.tap) for start in self._row_starts(row)]
        found, places, body = self._starts(panel) * self.spec.mr, self.places, self.weights
        turns = (self.joined, 2, self._of_two), (self.alone, 1, self._of_one), (self.paired * 2, 1, self._of_eight)
        for count, groups, products in turns:
            with b.loop(b.const(I64, 0), count, carry=[*found, body]) as turn:
                *totals, weights = turn.carried
                products(totals, turn.index, places, weights)
                turn.next(*totals, b.gep(weights, I32, groups * self.nr))
            *found, body = turn.results
            places = b.gep(places, I32, count * groups)
        return found

    def _starts(self, panel: Value) -> list[Value]:
        """What a row of sums begins with."""
        b = self.b
        sums = [b.load(self.acc, b.gep(panel, self.acc, j)) for j in range(self.spec.nv)]
        if self.added is None:
            return sums
        return [b.add(x, y) for x, y in zip(sums, self.begun(self.spec.nv), strict=True)]

    def _of_two(self, sums: list[Value], turn: Value, places: Value, weights: Value) -> None:
        """Two groups, summed in 16 bits first."""
        at = [self.b.entry(places, turn * 2 + i) for i in range(2)]
        first = self._row_of(weights, 0)
        for r, pointer in enumerate(self.rows):
            left = [self._bytes(load_group(self.b, self.b.gep(pointer, I8, place), self.lanes)) for place in at]
            self.b.in_order()  # the second row of weights stays in memory: there is no register for it
            for j, weight in enumerate(self._row_of(weights, 1)):
                self._add(sums, r, j, self.b.add(self._pairs(left[0], first[j]), self._pairs(left[1], weight)))

    def _of_one(self, sums: list[Value], turn: Value, places: Value, weights: Value) -> None:
        at, right = self.b.entry(places, turn), self._row_of(weights, 0)
        for r, pointer in enumerate(self.rows):
            left = self._bytes(load_group(self.b, self.b.gep(pointer, I8, at), self.lanes))
            for j in range(self.spec.nv):
                self._add(sums, r, j, self._pairs(left, right[j]))

    def _of_eight(self, sums: list[Value], turn: Value, places: Value, weights: Value) -> None:
        """One of two groups whose eight values are paired anew. (Both at once take more registers than there are.)"""
        b, bytes_ = self.b, 4 * self.lanes
        at, right = b.entry(places, b.and_(turn, -2)), self._row_of(weights, 0)
        pick = b.load(I8.vec(16), b.gep(self.picks, I8, turn * 16), align=1)
        pick = b.shuffle(pick, None, [n % 16 for n in range(bytes_)])
        for r, pointer in enumerate(self.rows):
            eight = b.load(I64, b.gep(pointer, I8, at), align=1)
            left = b.perform(can.PICK_WITHIN, pick.type, self._bytes(b.splat(eight, self.lanes // 2)), pick)
            for j in range(self.spec.nv):
                self._add(sums, r, j, self._pairs(left, right[j]))

    def _row_of(self, weights: Value, i: int) -> list[Value]:
        """The bytes of a row of weights, by vectors."""
        at = [self.b.gep(weights, self.acc, i * self.spec.nv + j) for j in range(self.spec.nv)]
        return [self.b.load(I8.vec(4 * self.lanes), place) for place in at]

    def _bytes(self, values: Value) -> Value:
        """Values of A as unsigned bytes."""
        b, words = self.b, I32.vec(self.lanes)
        if shift_of(self.spec.a):
            values = b.xor(b.bitcast(values, words), FLIP)
        return b.bitcast(values, I8.vec(4 * self.lanes))

    def _pairs(self, left: Value, right: Value) -> Value:
        return self.b.perform(can.PAIRS_BYTES, I16.vec(2 * self.lanes), left, right)

    def _add(self, sums: list[Value], r: int, j: int, pairs: Value) -> None:
        i = r * self.spec.nv + j
        sums[i] = self.b.add(sums[i], dot8.multiply_pairs(self.b, pairs, self.b.const(pairs.type, 1)))
