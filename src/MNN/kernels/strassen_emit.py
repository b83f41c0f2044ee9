"""Code generation of :class:`MNN.kernels.strassen.StrassenSpec`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from MNN.kernels.epilogue import Epilogue, masks_work
from MNN.kernels.lang import F32, I8, I32, I64, OutOfLine, Value
from MNN.kernels.tile_store import TileStore
from MNN.kernels.winograd_layout import LINE
from MNN.targets.base import Target

if TYPE_CHECKING:
    from MNN.kernels.strassen import StrassenSpec

ENTRY = ("summed", "a", "b", "b_second", "mode", "k", "uses", "to0", "sign0", "to1", "sign1")
"""What an entry of the table of products holds, i64 each."""
ROW = len(ENTRY)
_AHEAD = 8
"""Steps of the sum that B is asked for ahead of its use: it comes from the second-level cache, two rows at a time."""


def emit_strassen(spec: StrassenSpec, target: Target) -> str:
    """The module's text."""
    return _Strassen(spec, target).emit()


class _Strassen(TileStore):
    """The plain contraction's epilogue and stores behind another way to the sums."""

    def __init__(self, spec: StrassenSpec, target: Target) -> None:
        super().__init__(spec, target)
        self.spec = spec

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        half, pairs, mb, nb = (k.slot(s) for s in ("half", "pairs", "mb", "nb"))
        self.a = k.pointer("a")
        n_blocks = b.udiv(pairs + nb - 1, nb)
        found = b.const(I32, 0)
        for flags in ("flags", "b_flags"):
            with b.loop(0, k.slot(f"n_{flags}"), carry=[found]) as each:
                each.next(b.or_(each.carried[0], b.load(I32, b.gep(k.pointer(flags), I32, each.index))))
            found = each.results[0]
        spoiled = b.icmp("ne", found, 0)
        products = k.slot("n_products")
        self.first = b.select(spoiled, products, b.const(I64, 0))
        self.last = b.select(spoiled, products + k.slot("n_plain"), products)
        with b.loop(k.begin, k.end) as block:
            im = b.udiv(block.index, n_blocks)
            pair0 = (block.index - im * n_blocks) * nb
            pair1 = b.intrinsic("smin", pair0 + nb, pairs)
            m0 = im * mb
            self.m1 = b.intrinsic("smin", m0 + mb, half)
            with b.loop(pair0, pair1) as pair:
                self.left = b.gep(k.pointer("b"), F32, pair.index * k.slot("panel"))
                # The next pair's panels are asked for all along, a share in every tile: left ones first.
                bytes_ = k.slot("k") * (4 * self.nr * spec.acc.size)
                share = b.udiv(bytes_, b.udiv(self.m1 - m0 + (spec.mr - 1), b.const(I64, spec.mr)))
                self.stride = b.udiv(share, k.slot("k") * 7) + 1
                ahead = b.gep(self.left, F32, k.slot("panel"))
                jump = b.udiv(k.slot("panels"), b.const(I64, 2)) * k.slot("panel") - k.slot("k") * (2 * self.nr)
                far = b.gep(ahead, F32, jump)
                with b.loop(m0, self.m1, spec.mr) as row:
                    done = b.udiv(row.index - m0, b.const(I64, spec.mr)) * share
                    near = b.icmp("slt", done, b.lshr(bytes_, 1))
                    self._tile(row.index, b.gep(b.select(near, ahead, far), I8, done))
                    self._store_apart(row.index, pair.index)
        return k.finish()

    def _store_apart(self, row: Value, pair: Value) -> None:
        """:meth:`_store_quarters` out of line."""
        kernel, m1 = self.k, self.m1
        self.k = part = OutOfLine(kernel, "store_quarters", ("row", "pair", "m1"))
        self.b, self.c = part.b, part.pointer("c")
        self.ops = [part.pointer(f"op{i}") for i in range(len(self.spec.operands))]
        own_row, own_pair, self.m1 = part.params
        self._store_quarters(own_row, own_pair)
        part.call(row, pair, m1)
        self.k, self.b, self.m1 = kernel, kernel.b, m1

    def _quarter(self, number: Value | int) -> Value:
        """Where a quarter's tile of sums lies."""
        return self.b.gep(self.k.scratch, self.acc.element, number * (self.spec.mr * self.nr))

    def _tile(self, row: Value, ahead: Value) -> None:
        """The sums of one tile in each quarter of C; what is at ``ahead`` will be needed in a later tile."""
        k, b, spec = self.k, self.b, self.spec
        for i in range(4 * spec.mr * spec.nv):
            b.store(b.const(self.acc, 0), b.gep(k.scratch, self.acc, i))
        rows = [row if r == 0 else b.intrinsic("smin", row + r, self.m1 - 1) for r in range(spec.mr)]
        with b.loop(self.first, self.last, carry=[ahead]) as product:
            entry = b.gep(k.pointer("products"), I64, product.index * ROW)
            value = {name: b.load(I64, b.gep(entry, I64, i)) for i, name in enumerate(ENTRY[:7])}
            summed = b.icmp("ne", value["summed"], 0)
            base = b.gep(b.select(summed, k.pointer("s"), self.a), F32, value["a"])
            step = b.select(summed, k.slot("lds"), k.slot("lda"))
            lines = [b.gep(base, F32, r * step) for r in rows]
            panel = b.gep(self.left, F32, value["b"])
            second = value["b_second"]

            def run(mode: int) -> list[Value]:
                return self._product(lines, panel, second, value["k"], mode, product.carried[0])

            def sum_or_difference() -> list[Value]:
                return b.if_else(b.icmp("eq", value["mode"], 1), lambda: run(1), lambda: run(2))

            *sums, after = b.if_else(b.icmp("eq", value["mode"], 0), lambda: run(0), sum_or_difference)
            product.next(after)
            with b.loop(0, value["uses"], guard=False) as use:
                place = b.gep(entry, I64, 7 + use.index * 2)
                tile = self._quarter(b.load(I64, place))
                sign = b.splat(b.convert("sitofp", b.load(I64, b.gep(place, I64, 1)), F32), self.lanes)
                for i, value_ in enumerate(sums):
                    at = b.gep(tile, self.acc, i)
                    b.store(b.fma(value_, sign, b.load(self.acc, at)), at)

    def _product(
        self, lines: Sequence[Value], panel: Value, second: Value, depth: Value, mode: int, ahead: Value
    ) -> list[Value]:
        """A register tile of one product; ``mode`` says how B's second quarter joins: not, added, subtracted."""
        b, spec = self.b, self.spec
        carry = [*[b.const(self.acc, 0)] * (spec.mr * spec.nv), ahead, panel]
        unroll = 2 if spec.mr * spec.nv < 16 else 1
        whole = depth if unroll == 1 else b.and_(depth, -unroll)
        results = carry
        for lo, hi, count in ((b.const(I64, 0), whole, unroll), (whole, depth, 1)):
            if lo is hi:
                continue
            with b.loop(lo, hi, count, carry=results) as loop:
                sums, far, at = list(loop.carried[:-2]), loop.carried[-2], loop.carried[-1]
                b.prefetch(far, 2)
                far = b.gep(far, I8, self.stride if count == 1 else self.stride * count)
                for u in range(count):
                    right = []
                    for j in range(spec.nv):
                        pointer = b.gep(at, F32, j * self.lanes)
                        ahead = b.gep(pointer, F32, _AHEAD * self.nr)
                        x = b.load(self.acc, pointer)
                        new_line = j * self.lanes % LINE == 0
                        if new_line:
                            b.prefetch(ahead)
                        if mode:
                            y = b.load(self.acc, b.gep(pointer, F32, second))
                            if new_line:
                                b.prefetch(b.gep(ahead, F32, second))
                            x = b.add(x, y) if mode == 1 else b.sub(x, y)
                        right.append(x)
                    for r, line in enumerate(lines):
                        here = b.gep(b.gep(line, F32, loop.index), F32, u)
                        left = b.splat(b.load(F32, here), self.lanes)
                        for j in range(spec.nv):
                            i = r * spec.nv + j
                            sums[i] = b.fma(left, right[j], sums[i])
                    at = b.gep(at, F32, self.nr)
                loop.next(*sums, far, at)
            results = loop.results
        return results[:-1]

    def _store_quarters(self, row: Value, pair: Value) -> None:
        """Epilogue and stores; what both halves hold (a middle row, a middle panel) is stored by one of them."""
        k, b, spec = self.k, self.b, self.spec
        epilogue = Epilogue(b, spec.acc, spec.out, spec.epilogue)
        half, m, pairs = k.slot("half"), k.slot("m"), k.slot("pairs")
        shared_rows = half * 2 - m
        shared_panel = b.and_(b.icmp("ne", pairs * 2, k.slot("panels")), b.icmp("eq", pair, 0))
        panel = b.select(shared_panel, pairs, pair + k.slot("panels") - pairs)  # a panel past the end stores nothing
        count = b.intrinsic("smin", self.m1 - row, b.const(I64, spec.mr))
        zero = b.const(I64, 0)
        with b.loop(0, 4) as quarter:
            lower, right = b.lshr(quarter.index, 1), b.and_(quarter.index, 1)
            is_lower, is_right = b.icmp("ne", lower, 0), b.icmp("ne", right, 0)
            start = b.select(is_lower, b.intrinsic("smax", shared_rows - row, zero), zero)
            first_row = b.select(is_lower, row + m - half, row)
            self.column = b.select(is_right, panel, pair) * self.nr
            skipped = b.and_(is_right, shared_panel)
            left = b.select(skipped, zero, k.slot("n") - self.column)
            self.tile = self._quarter(quarter.index)

            def all_columns() -> tuple[()]:
                with b.loop(start, count) as r:
                    self.row_tables(first_row + r.index)
                    if epilogue.short:
                        for j in range(spec.nv):
                            column = b.const(I64, j * self.lanes)
                            self.store_vector(epilogue, self.tile_load(r.index, column, self.lanes), column, self.lanes)
                    else:
                        with b.loop(0, self.nr, self.lanes, guard=False) as c:
                            value = self.tile_load(r.index, c.index, self.lanes)
                            self.store_vector(epilogue, value, c.index, self.lanes)
                return ()

            def some_columns() -> tuple[()]:
                masks = masks_work(self.target, (spec.out, *self.op_dtypes))
                lanes = self.lanes if masks else 1
                with b.loop(start, count) as r:
                    self.row_tables(first_row + r.index)
                    with b.loop(0, left, lanes) as c:
                        tail = self.cut_tail(left - c.index, lanes)
                        value = self.tile_load(r.index, c.index, lanes)
                        self.store_vector(epilogue, value, c.index, lanes, tail if masks else None)
                return ()

            b.if_else(b.icmp("sge", left, self.nr), all_columns, some_columns, likely=True)
