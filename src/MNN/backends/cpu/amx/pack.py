"""Packing of B for AMX: panels of 32 columns, in steps of 32 products, split into bf16 parts, in pairs.

Per panel ``[step][part][tile of 16 columns][16 pairs][16 columns][2]``; a last panel of at most 16 columns has one
tile. With ``w24``, per step the tiles of first parts, and behind them those of second ones as bytes
(:mod:`MNN.backends.cpu.amx.byte_parts`). With ``half``, parts are fp16, and a panel ends with their scale
(:mod:`MNN.backends.cpu.amx.scale`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.record import Record
from MNN.backends.cpu.amx import scale as amx_scale
from MNN.backends.cpu.amx.byte_parts import STEP_BYTES, to_bytes
from MNN.backends.cpu.amx.records import PACK, PACK_BATCH
from MNN.backends.cpu.amx.split import PRODUCTS, halves_of, pair, pair_of_halves
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS, TILE_BYTES
from MNN.backends.cpu.lang.element import storage_type, widen
from MNN.backends.cpu.lang.module import I8, I64, PTR, Builder, Kernel, Value
from MNN.backends.cpu.lang.parts import parts_of
from MNN.backends.cpu.lang.records import entry, load_word
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_LANES = 16
_PANEL = 2 * _LANES


@dataclass(frozen=True)
class AmxPackSpec(KernelSpec):
    """Block ``z * ceil(n / 32) + p``: panel ``p`` of matrix ``z`` from ``src`` to byte ``p * panel`` of ``dst``.

    Its arguments are the record :data:`~.records.PACK`. Element ``(j, n)`` of a matrix lies at ``rows[j] + n * column``
    of src. ``b``: f32, bf16, or i16, which is taken as it is: pairs of bytes.
    """

    shaped: ClassVar[bool] = True
    arguments: ClassVar[Record] = PACK

    b: DType
    parts: int
    w24: bool = False
    half: bool = False

    def __post_init__(self) -> None:
        if self.parts not in PRODUCTS or self.b not in (DType.F32, DType.BF16, DType.I16):
            raise ValueError(f"no packing of {self.b.value} in {self.parts} parts")
        if (self.w24 or self.half) and self.parts != 2:
            raise ValueError("second parts are bytes, or parts are fp16, only where there are two")
        if self.b is DType.I16 and self.parts != 1:
            raise ValueError("pairs of bytes have no parts")

    def slots(self) -> tuple[str, ...]:
        return tuple(self.arguments)

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        n, column = k.slot("n"), k.slot("column")
        panels = b.udiv(n + (_PANEL - 1), _PANEL)
        kind = storage_type(self.b)
        with b.loop(k.begin, k.end) as block:
            z = b.udiv(block.index, panels)
            panel = block.index - z * panels
            batch = entry(b, PACK_BATCH, k.pointer("batch"), z)
            source = b.gep(k.pointer("src"), kind, load_word(b, PACK_BATCH, batch, "src"))
            to = b.gep(k.pointer("dst"), I8, load_word(b, PACK_BATCH, batch, "dst") + panel * k.slot("panel"))
            n0 = panel * _PANEL
            left = n - n0
            width = b.select(b.icmp("sgt", left, _LANES), b.const(I64, 2), b.const(I64, 1))
            lanes = b.mul(b.lane_numbers(I64, _LANES), b.splat(column, _LANES))

            def two_rows(tile: Value, number: Value, source: Value = source, n0: Value = n0) -> list[Value]:
                """Two rows of a tile's columns, which become one of pairs."""
                mask = b.prefix_mask(b.intrinsic("smin", n - n0 - tile * _LANES, b.const(I64, _LANES)), _LANES)
                start = b.gep(source, kind, (n0 + tile * _LANES) * column)
                rows = [self.offset(k, number, i) for i in range(2)]
                return [self._row(k, start, r, lanes, mask) for r in rows]

            scale = None
            if self.half:
                scale = self._measure(k, width, two_rows, b.gep(to, I8, k.slot("panel") - amx_scale.SCALE_BYTES))
            with b.loop(0, width) as tile, b.loop(0, k.slot("n_steps") * ROWS) as row:
                even, odd = (self._parts(b, x, scale) for x in two_rows(tile.index, row.index))
                step, inner = b.lshr(row.index, 4), b.and_(row.index, ROWS - 1)
                if self.w24:
                    begin = b.gep(to, I8, step * width * STEP_BYTES)
                    self._store_weights24(k, begin, width, tile.index, inner, even, odd)
                for part in range(0 if self.w24 else self.parts):
                    at = ((step * self.parts + part) * width + tile.index) * TILE_BYTES + inner * ROW_BYTES
                    joined = (pair_of_halves if self._as_it_is else pair)(b, even[part], odd[part])
                    b.store(joined, b.gep(to, I8, at))
        return k.finish()

    def _measure(self, k: Kernel, width: Value, two_rows: Callable[[Value, Value], list[Value]], to: Value) -> Value:
        """Finds the panel's scale, and writes it."""
        b = k.b

        def measured(finite: bool) -> Value:
            with b.loop(0, width, carry=[amx_scale.nothing(b)]) as tile:
                with b.loop(0, k.slot("n_steps") * ROWS, carry=tile.carried) as row:
                    sizes = [amx_scale.magnitude(b, x, finite) for x in two_rows(tile.index, row.index)]
                    row.next(amx_scale.larger(b, row.carried[0], amx_scale.larger(b, *sizes)))
                tile.next(*row.results)
            return tile.results[0]

        return amx_scale.store_scale(b, measured, to)

    @property
    def _as_it_is(self) -> bool:
        """Whether parts are 16 bits already when they are put together."""
        return self.half or self.b is DType.I16

    def _parts(self, b: Builder, x: Value, scale: Value | None) -> Sequence[Value]:
        if self.b is DType.I16:
            return [x]
        return parts_of(b, x, self.parts, True) if scale is None else halves_of(b, b.mul(x, scale))

    def _store_weights24(
        self, k: Kernel, step: Value, width: Value, tile: Value, row: Value, even: Sequence[Value], odd: Sequence[Value]
    ) -> None:
        """A row of a step's tile of first parts, and of its bytes behind all tiles of first parts."""
        b = k.b
        b.store(pair(b, even[0], odd[0]), b.gep(step, I8, tile * TILE_BYTES + row * ROW_BYTES))
        low, high = (to_bytes(b, *parts) for parts in (even, odd))
        both = b.shuffle(low, high, [i // 2 + i % 2 * _LANES for i in range(2 * _LANES)])
        at = width * TILE_BYTES + (tile * ROWS + row) * (ROW_BYTES // 2)
        b.store(both, b.gep(step, I8, at))

    def offset(self, k: Kernel, pair: Value, second: int) -> Value:
        """The element where the first or ``second`` row of a pair begins; negative: a row of zeros."""
        return k.b.entry(k.pointer("rows"), pair * 2 + second)

    def _row(self, k: Kernel, start: Value, offset: Value, lanes: Value, mask: Value) -> Value:
        """16 columns of a row, or zeros."""
        b, kind = k.b, storage_type(self.b)
        real = b.icmp("sge", offset, 0)
        on = b.and_(mask, b.splat(real, _LANES))
        base = b.gep(start, kind, b.intrinsic("smax", offset, b.const(I64, 0)))

        def row() -> list[Value]:
            return [b.load_masked(kind.vec(_LANES), base, on)]

        def strided() -> list[Value]:
            pointers = b.emit(PTR.vec(_LANES), f"getelementptr {kind.text}, ptr {base.text}, {lanes!r}")
            return [b.load_gather(kind.vec(_LANES), pointers, on)]

        (values,) = b.if_else(b.icmp("eq", k.slot("column"), 1), row, strided)
        return values if self.b is DType.I16 else widen(b, self.b, values)
