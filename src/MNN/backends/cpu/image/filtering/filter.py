"""Filters: every pixel from its neighbours, by weighted sums or as the smallest or largest of them.

A band of rows is a block. Every row of the source is brought into the type that is computed with once, with what lies
outside of the picture on both sides; a separable filter is applied along it there and then. A ring of such rows is kept
in scratch, from which the taps of every row of the result are taken. Large windows without weights take as long as
small ones: :attr:`FilterSpec.running`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.filtering.spans import Spans
from MNN.backends.cpu.image.numbers import RANGES, limited, rounded, widened
from MNN.backends.cpu.lang.element import compute_type, load, make_tail, storage_type
from MNN.backends.cpu.lang.module import F32, I8, I32, I64, PTR, Kernel, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.math.rounding import to_nearest
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_UNROLL = 4
"""Vectors that are worked on at a time."""
_LINE = 64
_SPANS = "sums", "begun", "nothing"
"""Slots of windows that run."""


class Reduction(enum.Enum):
    """How the pixels under the taps become one."""

    WEIGHTED = "weighted"
    """The sum of products with the taps' weights."""
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class FilterSpec(KernelSpec):
    """``out[y, e] = finish(reduction over taps t of ring[first[y] + row_t, e + offset_t])``, e counting elements of a
    row, channels beside each other. ``ring[v]`` is the row ``rows[v]`` of the source between its borders; where
    ``across``, reduced over taps along it first.

    ``middle`` is the type of the ring, ``total`` the one that taps are summed up in (``middle``, or F32); F32, or whole
    numbers that hold every sum. ``shifted`` finishes a total, which is whole, as ``(total + half) >> shift``; without,
    it is ``total * scale + delta`` in f32. Both are rounded and limited to ``result``. ``factored``, of a total of u16
    that is ``shifted``: what is shifted is the upper half of ``(total + half) * factor``. ``squared``: the ring holds
    squares.

    ``running``, of a window without weights: it is reduced by :class:`MNN.backends.cpu.image.filtering.spans.Spans`.
    The ring holds ``total`` then, and ``x_offsets`` three numbers for each of ``x_taps`` doublings.

    Slots: ``src``, ``src_row`` (elements from one row to the next), ``rows`` (i32: rows of the source, below 0 for the
    row ``blank`` of what lies outside), ``blank``, ``edges`` (i32: elements of a row that stand before, then behind it;
    below 0, -1 - c is element c of ``blank``), ``before``, ``behind`` (how many), ``elements`` (of a row), ``out``,
    ``out_row``, ``first`` (i32), ``height``, ``band`` (rows of a block), ``x_taps``, ``x_offsets`` (i64), ``x_weights``
    (of type ``middle``), ``taps``, ``tap_rows``, ``offsets`` (i64), ``weights`` (of type ``total``), ``ring_rows``,
    ``ring_step`` (bytes), ``edge_row``, ``ring``, ``line``, ``sums``, ``begun``, ``nothing`` (bytes from the begin of
    scratch: :meth:`places`), ``bytes`` (of scratch), ``half``, ``shift``, ``factor``, ``scale`` and ``delta`` (bits of
    f32).
    """

    shaped: ClassVar[bool] = True

    source: DType
    middle: DType
    total: DType
    result: DType
    across: bool
    reduction: Reduction
    shifted: bool
    factored: bool = False
    squared: bool = False
    running: bool = False

    def slots(self) -> tuple[str, ...]:
        return (
            "src", "src_row", "rows", "blank", "edges", "before", "behind", "elements", "out", "out_row", "first",
            "height", "band", "x_taps", "x_offsets", "x_weights", "taps", "tap_rows", "offsets", "weights", "ring_rows",
            "ring_step", "edge_row", "ring", "line", "bytes", "half", "shift", "factor", "scale",
            "delta", *(_SPANS if self.running else ()),
        )  # fmt: skip

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        return args["bytes"]

    def places(self, target: Target, elements: int, borders: int, taps: int, ring_rows: int) -> dict[str, int]:
        """The slots that say where things lie in scratch, for rows of so many elements and ``borders`` more."""
        spare = _UNROLL * target.vector_bytes
        size = max(self.middle.size, self.total.size) if self.running else self.middle.size
        step = _up((elements + borders) * size + spare)
        edge_row = _up(taps * 8)
        rows = {name: edge_row + (i + 1) * step for i, name in enumerate(_SPANS)}
        ring = edge_row + (4 if self.running else 1) * step
        line = ring + ring_rows * step
        return {
            "ring_rows": ring_rows,
            "ring_step": step,
            "edge_row": edge_row,
            "ring": ring,
            "line": line,
            "bytes": line + _UNROLL * target.vector_bytes * 4,
            **(rows if self.running else {}),
        }

    def emit(self, target: Target) -> str:
        return _Code(self, target).text()


def _up(count: int) -> int:
    return -(-count // _LINE) * _LINE


class _Code:
    def __init__(self, spec: FilterSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b

    def text(self) -> str:
        k, b, slot, spec = self.k, self.b, self.k.slot, self.spec
        spans = Spans(k, self.target, (spec.middle, spec.total), _UNROLL, self._joined, self._identity)
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            end = minimum(k, slot("height"), start + slot("band"))
            if self.spec.running:
                spans.rows(start, end, self._bordered, self._put)
            else:
                self._slide(start, end)
        return k.finish()

    def _slide(self, start: Value, end: Value) -> None:
        """Rows from ``start`` to ``end`` of the result, from the rows under the taps of each."""
        b = self.b
        with b.loop(start, end, carry=[self._first(start)]) as row:
            first = self._first(row.index)
            need = first + self.k.slot("ring_rows")
            with b.loop(b.intrinsic("smax", row.carried[0], first), need) as make:
                self._make(make.index)
            self._reduce(row.index, first)
            row.next(need)

    @property
    def _extreme(self) -> bool:
        return self.spec.reduction in (Reduction.MIN, Reduction.MAX)

    def _scratch(self, name: str) -> Value:
        """What lies in scratch at the slot ``name``."""
        return self.b.gep(self.k.scratch, I8, self.k.slot(name))

    def _first(self, y: Value) -> Value:
        return self.b.entry(self.k.pointer("first"), y)

    def _ring_row(self, row: Value) -> Value:
        slot = self.k.slot
        return self.b.gep(self.k.scratch, I8, slot("ring") + row % slot("ring_rows") * slot("ring_step"))

    # -- rows of the ring ---------------------------------------------------------------------------------------------

    def _make(self, number: Value) -> None:
        """Row ``number`` of those that the filter sees, in the ring."""
        b, slot = self.b, self.k.slot
        to = self._ring_row(number)
        if not self.spec.across:
            self._bordered(number, to)
            return
        edge_row = self._scratch("edge_row")
        self._bordered(number, edge_row)
        middle = compute_type(self.spec.middle)

        def pointer(tap: Value, at: Value) -> Value:
            return b.gep(edge_row, middle, at + b.load(I64, b.gep(self.k.pointer("x_offsets"), I64, tap)))

        lanes = self.target.lanes(self.spec.middle)
        with b.loop(0, slot("elements"), _UNROLL * lanes) as each:
            at = each.index
            sums = self._over(self.spec.middle, "x_", lambda tap: pointer(tap, at))
            for i, total in enumerate(sums):
                b.store(total, b.gep(to, middle, at + i * lanes))

    def _bordered(self, number: Value, to: Value) -> None:
        """Row ``number`` in the type that is computed with, between what lies outside of the picture."""
        b, slot, spec = self.b, self.k.slot, self.spec
        row = b.entry(self.k.pointer("rows"), number)
        above = b.gep(self.k.pointer("src"), storage_type(spec.source), row * slot("src_row"))
        source = b.select(b.icmp("slt", row, 0), self.k.pointer("blank"), above)
        element, middle, lanes = storage_type(spec.source), compute_type(spec.middle), self.target.lanes(spec.middle)
        inside = b.gep(to, middle, slot("before"))
        whole = b.and_(slot("elements"), -lanes)
        with b.loop(0, whole, lanes) as each:
            x = load(b, spec.source, b.gep(source, element, each.index), lanes)
            b.store(self._taken(x), b.gep(inside, middle, each.index))
        rest = slot("elements") - whole

        def tail() -> None:
            x = load(b, spec.source, b.gep(source, element, whole), lanes, None, make_tail(b, rest, lanes))
            b.store(self._taken(x), b.gep(inside, middle, whole))

        if lanes > 1:
            b.if_(b.icmp("sgt", rest, 0), tail)
        behind = b.gep(inside, middle, slot("elements"))
        for place, begin, end in (
            (to, b.const(I64, 0), slot("before")),
            (b.gep(behind, middle, b.index_sub(0, slot("before"))), slot("before"), slot("before") + slot("behind")),
        ):
            with b.loop(begin, end) as each:
                at = b.entry(self.k.pointer("edges"), each.index)
                out = b.icmp("slt", at, 0)
                x = b.load(
                    element,
                    b.gep(
                        b.select(out, self.k.pointer("blank"), source), element, b.select(out, b.index_sub(-1, at), at)
                    ),
                )
                b.store(self._taken(x), b.gep(place, middle, each.index))

    def _taken(self, x: Value) -> Value:
        """Pixels of the source as the ring has them."""
        x = widened(self.b, x, self.spec.source, self.spec.middle)
        if self.spec.running and self._extreme and self.spec.middle is DType.F32:  # what is no number does not count
            return self._joined(DType.F32, self.b.const(x.type, self._identity(DType.F32)), x)
        return self.b.mul(x, x) if self.spec.squared else x

    # -- rows of the result -------------------------------------------------------------------------------------------

    def _reduce(self, y: Value, first: Value) -> None:
        b, slot, spec = self.b, self.k.slot, self.spec
        middle = compute_type(spec.middle)
        with b.loop(0, slot("taps")) as tap:
            row = first + b.load(I64, b.gep(self.k.pointer("tap_rows"), I64, tap.index))
            place = b.gep(self._ring_row(row), middle, b.load(I64, b.gep(self.k.pointer("offsets"), I64, tap.index)))
            b.store(place, b.gep(self.k.scratch, PTR, tap.index))

        def totals(at: Value) -> list[Value]:
            def pointer(tap: Value) -> Value:
                return b.gep(b.load(PTR, b.gep(self.k.scratch, PTR, tap)), middle, at)

            return self._over(spec.total, "", pointer)

        self._put(y, totals)

    def _put(self, y: Value, totals: Callable[[Value], list[Value]]) -> None:
        """Row ``y`` of the result, from what ``totals`` gives for a few vectors of it."""
        b, slot, spec, lanes = self.b, self.k.slot, self.spec, self.target.lanes(self.spec.total)
        step = _UNROLL * lanes
        element = storage_type(spec.result)
        out = b.gep(self.k.pointer("out"), element, y * slot("out_row"))

        def several(at: Value, to: Value) -> None:
            for i, total in enumerate(totals(at)):
                self._finish(total, b.gep(to, element, i * lanes))

        whole = slot("elements") - b.urem(slot("elements"), b.const(I64, step))
        with b.loop(0, whole, step) as each:
            several(each.index, b.gep(out, element, each.index))
        rest = slot("elements") - whole

        def last() -> None:
            line = self._scratch("line")
            several(whole, line)
            self._copy(line, b.gep(out, element, whole), rest * spec.result.size)

        b.if_(b.icmp("sgt", rest, 0), last)

    def _copy(self, source: Value, to: Value, count: Value) -> None:
        """``count`` bytes, whole vectors of them and one by one."""
        b, lanes = self.b, self.target.vector_bytes
        whole = b.and_(count, -lanes)
        with b.loop(0, whole, lanes) as each:
            b.store(b.load(I8.vec(lanes), b.gep(source, I8, each.index)), b.gep(to, I8, each.index))
        with b.loop(whole, count) as each:
            b.store(b.load(I8, b.gep(source, I8, each.index)), b.gep(to, I8, each.index))

    def _finish(self, total: Value, to: Value) -> None:
        b, spec = self.b, self.spec
        if self._extreme:
            b.store(total, to)
        elif spec.shifted:
            kind = spec.total
            if kind is DType.F32:
                total, kind = to_nearest(b, total), DType.I32
            half, shift = (
                b.splat(b.convert("trunc", self.k.slot(name), total.type.element), total.type.lanes)
                for name in ("half", "shift")
            )
            moved = b.add(total, half)
            if spec.factored:
                wide = I32.vec(total.type.lanes)
                factor = b.splat(b.convert("trunc", self.k.slot("factor"), I32), wide.lanes)
                product = b.mul(b.convert("zext", moved, wide), factor)
                moved = b.convert("trunc", b.lshr(product, 16), total.type)
            moved = (b.ashr if kind.is_signed else b.lshr)(moved, shift)
            b.store(limited(b, moved, kind, spec.result), to)
        else:
            lanes = total.type.lanes
            part = min(lanes, self.target.lanes(DType.F32))
            scale, delta = (b.splat(self.k.slot(name, F32), part) for name in ("scale", "delta"))
            for i in range(0, lanes, part):
                x = b.shuffle(total, None, range(i, i + part)) if part < lanes else total
                x = b.fma(widened(b, x, spec.total, DType.F32), scale, delta)
                b.store(rounded(b, x, spec.result), b.gep(to, storage_type(spec.result), i))

    # -- taps ---------------------------------------------------------------------------------------------------------

    def _over(self, kind: DType, prefix: str, pointer: Callable[[Value], Value]) -> list[Value]:
        """The pixels under the taps reduced to one each, a few vectors of them, in the type ``kind``. ``prefix`` is
        that of the slots about the taps."""
        b, spec, lanes = self.b, self.spec, self.target.lanes(kind)
        t, middle = compute_type(kind, lanes), compute_type(spec.middle)
        with b.loop(0, self.k.slot(f"{prefix}taps"), carry=[self._none(kind)] * _UNROLL, guard=False) as tap:
            place = pointer(tap.index)
            weight = None
            if spec.reduction is Reduction.WEIGHTED:
                weights = self.k.pointer(f"{prefix}weights")
                weight = b.splat(b.load(t.element, b.gep(weights, t.element, tap.index)), lanes)
            after = []
            for i, total in enumerate(tap.carried):
                x = widened(b, b.load(middle.vec(lanes), b.gep(place, middle, i * lanes)), spec.middle, kind)
                after.append(self._joined(kind, total, x, weight))
            tap.next(*after)
        return tap.results

    def _none(self, kind: DType) -> Value:
        return self.b.const(compute_type(kind, self.target.lanes(kind)), self._identity(kind))

    def _identity(self, kind: DType) -> float:
        low, high = RANGES.get(kind, (float("-inf"), float("inf")))
        return {Reduction.MIN: high, Reduction.MAX: low}.get(self.spec.reduction, 0)

    def _joined(self, kind: DType, total: Value, x: Value, weight: Value | None = None) -> Value:
        b, reduction = self.b, self.spec.reduction
        if weight is not None:
            return b.fma(x, weight, total) if kind is DType.F32 else b.add(b.mul(x, weight), total)
        if reduction is Reduction.SUM:
            return b.add(total, x)
        least = reduction is Reduction.MIN
        if kind is DType.F32:
            return b.select(b.fcmp("olt" if least else "ogt", x, total), x, total)
        return b.intrinsic(("s" if kind.is_signed else "u") + reduction.value, x, total)


__all__ = ["FilterSpec", "Reduction"]
