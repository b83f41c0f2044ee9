"""Batched transposition of matrices, register-blocked: the copies behind layout changes and permutations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen.traffic import covered, number
from MNN.backends.cpu.lang.module import I64, PTR, VOID, Builder, Kernel, Type, Value, int_type
from MNN.backends.cpu.lang.nest import Operand, for_rows, minimum
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_DTYPES = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}
_ROWS = 64  # input rows walked at a time, so that partly used cache lines are still there for the next columns


@dataclass(frozen=True)
class TransposeSpec(KernelSpec):
    """``out[b.., j, i] = in[b.., i, j]`` for elements of ``size`` 1, 2, 4 or 8 bytes over ``batch`` outer dimensions.

    The input is contiguous along j, the output along i. Slots: ``batch0..``, ``rows`` (extent of i), ``cols`` (of j),
    ``band`` (columns per block, best a multiple of 16); ``in``, its batch strides ``in_s{d}`` and ``in_row`` (stride
    of i); ``out``, ``out_s{d}`` and ``out_row`` (stride of j). Block index = batch linear index * ceil(cols / band) +
    band number. Input and output must not overlap.
    """

    shaped: ClassVar[bool] = True

    size: int
    batch: int

    def operands(self) -> tuple[Operand, Operand]:
        dtype = _DTYPES[self.size]
        return Operand("in", dtype, "1"), Operand("out", dtype, "1")

    def slots(self) -> tuple[str, ...]:
        source, target = self.operands()
        names = [f"batch{d}" for d in range(self.batch)]
        names += ["rows", "cols", "band", *source.slots(self.batch, None), "in_row"]
        return (*names, *target.slots(self.batch, None), "out_row")

    def traffic(self, args: Arguments) -> dict[str, int]:
        batch = [number(args, f"batch{d}") for d in range(self.batch)]
        rows, cols = number(args, "rows"), number(args, "cols")
        found = {}
        for name, strides in (("in", (number(args, "in_row"), 1)), ("out", (1, number(args, "out_row")))):
            outer = [number(args, f"{name}_s{d}") for d in range(self.batch)]
            found[name] = covered((*batch, rows, cols), (*outer, *strides)) * self.size
        return found

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        cols, band = k.slot("cols"), k.slot("band")
        tiles = [max(2, min(target.vector_bytes // self.size, 16))]
        if tiles[0] > 4:
            tiles.append(4)

        def row(pointers: list[Value], number: Value | None) -> None:
            assert number is not None
            first = number * band
            last = minimum(k, cols, first + band)
            copy = _Copy(k.b, int_type(self.size * 8), [*pointers, k.slot("in_row"), k.slot("out_row")])
            rows = k.slot("rows")
            with k.b.loop(0, rows, _ROWS) as block:
                copy.cover(block.index, minimum(k, rows, block.index + _ROWS), first, last, tiles)

        outer = [k.slot(f"batch{d}") for d in range(self.batch)]
        for_rows(k, outer, (cols + (band - 1)) // band, self.operands(), row)
        return k.finish()


class _Copy:
    """Copies regions of one matrix. Every tile size is a function of its own, so that edges share code."""

    _PARAMS = ("in", "out", "in_row", "out_row", "i0", "i1", "j0", "j1")

    def __init__(self, b: Builder, element: Type, values: Sequence[Value]) -> None:
        self.b, self.element = b, element
        self.source, self.target, self.in_row, self.out_row = values

    def cover(self, i0: Value, i1: Value, j0: Value, j1: Value, tiles: Sequence[int]) -> None:
        """The region i0..i1 x j0..j1 in square tiles of the first size, its two edges in smaller ones."""
        b = self.b
        if not tiles:
            self.elements(i0, i1, j0, j1)
            return
        n = tiles[0]
        i_full = i1 - (i1 - i0) % n
        j_full = j1 - (j1 - j0) % n
        with b.loop(j0, j_full, n) as over_j, b.loop(i0, i_full, n) as over_i:
            self.tile(over_i.index, over_j.index, n)
        b.if_(b.icmp("slt", i_full, i1), lambda: self._call(i_full, i1, j0, j_full, tiles[1:]))
        b.if_(b.icmp("slt", j_full, j1), lambda: self._call(i0, i1, j_full, j1, tiles[1:]))

    def _call(self, i0: Value, i1: Value, j0: Value, j1: Value, tiles: Sequence[int]) -> None:
        """:meth:`cover` with smaller tiles, out of line."""
        name = f"cover{tiles[0] if tiles else 1}"
        module = self.b.module
        if not module.defines(name):
            params = [(PTR if n in ("in", "out") else I64, n) for n in self._PARAMS]
            f = module.function(name, params, attributes="noinline")
            i0_, i1_, j0_, j1_ = f.params[4:]
            _Copy(f, self.element, f.params[:4]).cover(i0_, i1_, j0_, j1_, tiles)
            f.ret()
        self.b.call(VOID, name, self.source, self.target, self.in_row, self.out_row, i0, i1, j0, j1)

    def _in(self, i: Value, j: Value) -> Value:
        return self.b.gep(self.source, self.element, i * self.in_row + j)

    def _out(self, i: Value, j: Value) -> Value:
        return self.b.gep(self.target, self.element, j * self.out_row + i)

    def tile(self, i: Value, j: Value, n: int) -> None:
        b, t = self.b, self.element.vec(n)
        place = self._in(i, j)
        rows = []
        for r in range(n):
            rows.append(b.load(t, place))
            if r + 1 < n:
                place = b.gep(place, self.element, self.in_row)
        place = self._out(i, j)
        for r, column in enumerate(transpose_registers(b, rows)):
            b.store(column, place)
            if r + 1 < n:
                place = b.gep(place, self.element, self.out_row)

    def elements(self, i0: Value, i1: Value, j0: Value, j1: Value) -> None:
        """One by one, with the longer side innermost."""
        b = self.b

        def along(
            a0: Value, a1: Value, c0: Value, c1: Value, place: Callable[[Value, Value], tuple[Value, Value]],
            steps: tuple[Value | int, Value | int],
        ) -> Callable[[], object]:  # fmt: skip
            def run() -> None:
                with b.loop(a0, a1) as outer:
                    source, target = place(outer.index, c0)
                    unrolled_end = (c1 - c0) - (c1 - c0) % 4

                    def copy(p: Value, q: Value, count: int) -> tuple[Value, Value]:
                        for _ in range(count):
                            b.store(b.load(self.element, p), q)
                            p, q = b.gep(p, self.element, steps[0]), b.gep(q, self.element, steps[1])
                        return p, q

                    with b.loop(0, unrolled_end, 4, carry=[source, target]) as main:
                        main.next(*copy(main.carried[0], main.carried[1], 4))
                    with b.loop(unrolled_end, c1 - c0, carry=main.results) as rest:
                        rest.next(*copy(rest.carried[0], rest.carried[1], 1))

            return run

        by_column = along(i0, i1, j0, j1, lambda i, j: (self._in(i, j), self._out(i, j)), (1, self.out_row))
        by_row = along(j0, j1, i0, i1, lambda j, i: (self._in(i, j), self._out(i, j)), (self.in_row, 1))

        def run(body: Callable[[], object]) -> Callable[[], tuple[Value, ...]]:
            def emit() -> tuple[Value, ...]:
                body()
                return ()

            return emit

        b.if_else(b.icmp("slt", i1 - i0, j1 - j0), run(by_column), run(by_row))


def transpose_registers(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """The columns of an n x n matrix whose rows are vectors of n integers, n a power of two.

    Within each 16-byte part of the registers by interleaving (one cheap instruction each), then by exchanging parts.
    """
    n = len(rows)
    element = rows[0].type.element
    per_part = min(16 * 8 // element.bits, n)
    parts = n // per_part
    # per group of per_part rows: interleave elements, then pairs, then fours, ...
    done = [_interleave_group(b, rows[g * per_part : (g + 1) * per_part], element, parts) for g in range(parts)]
    # done[g][c], part p holds column p * per_part + c of group g's rows
    columns: list[Value] = [rows[0]] * n
    for c in range(per_part):
        for p, column in enumerate(_exchange_parts(b, [done[g][c] for g in range(parts)], per_part)):
            columns[p * per_part + c] = column
    return columns


def _interleave_group(b: Builder, rows: Sequence[Value], element: Type, parts: int) -> list[Value]:
    count = len(rows)
    now = list(rows)
    unit = 1
    while unit < count:
        # Vectors as parts x (count / unit) wide elements of ``unit`` elements.
        wide = int_type(element.bits * unit, parts * count // unit)
        width = count // unit
        low = [p * width + k // 2 + (k % 2) * parts * width for p in range(parts) for k in range(width)]
        high = [lane + width // 2 for lane in low]
        after: list[Value] = [now[0]] * count
        for i in range(0, count, 2 * unit):
            for k in range(unit):
                x, y = b.bitcast(now[i + k], wide), b.bitcast(now[i + k + unit], wide)
                # result 2k and 2k+1 of this block hold the lower and upper halves
                after[i + 2 * k] = b.shuffle(x, y, low)
                after[i + 2 * k + 1] = b.shuffle(x, y, high)
        now = after
        unit *= 2
    t = element.vec(parts * count)
    return [b.bitcast(v, t) for v in now]


def _exchange_parts(b: Builder, vectors: list[Value], width: int) -> list[Value]:
    """Transposes the matrix of parts (``width`` elements each) of as many vectors as each has parts."""
    n = len(vectors)
    distance = 1
    while distance < n:
        for i in range(n):
            if i & distance:
                continue
            x, y = vectors[i], vectors[i + distance]
            low, high = [], []
            for p in range(n):
                for k in range(width):
                    low.append(p * width + k if not p & distance else (n + p - distance) * width + k)
                    high.append((p + distance) * width + k if not p & distance else (n + p) * width + k)
            vectors[i], vectors[i + distance] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        distance *= 2
    return vectors
