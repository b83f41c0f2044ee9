"""Packing of B for AMX: panels of 32 columns, in steps of 32 products, split into bf16 parts, in pairs.

Per panel ``[step][part][tile of 16 columns][16 pairs][16 columns][2]``; a last panel of at most 16 columns has one
tile. With ``lean``, per step the tiles of first parts, and behind them those of second ones as bytes
(:mod:`MNN.kernels.amx_lean`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from MNN.ir.dtype import DType
from MNN.kernels.amx_lean import STEP_BYTES, to_bytes
from MNN.kernels.amx_split import PRODUCTS, pair
from MNN.kernels.amx_tiles import ROW_BYTES, ROWS, TILE_BYTES
from MNN.kernels.element import storage_type, widen
from MNN.kernels.lang import I8, I64, PTR, Kernel, Value
from MNN.kernels.parts import parts_of
from MNN.kernels.spec import KernelSpec
from MNN.targets.base import Target

_LANES = 16
_PANEL = 2 * _LANES


@dataclass(frozen=True)
class AmxPackSpec(KernelSpec):
    """Block ``z * ceil(n / 32) + p``: panel ``p`` of matrix ``z`` from ``src`` to byte ``p * panel`` of ``dst``.

    ``batch`` is i64[n_batch][2]: offsets of a matrix in elements of src and in bytes of dst. Element ``(j, n)`` lies at
    ``rows[j] + n * column`` of src; ``rows`` is i32[n_steps * 32], negative for a row of zeros. ``b``: f32 or bf16.
    """

    shaped: ClassVar[bool] = True

    b: DType
    parts: int
    lean: bool = False

    def __post_init__(self) -> None:
        if self.parts not in PRODUCTS or self.b not in (DType.F32, DType.BF16):
            raise ValueError(f"no packing of {self.b.value} in {self.parts} parts")
        if self.lean and self.parts != 2:
            raise ValueError("second parts are bytes only where there are two")

    def slots(self) -> tuple[str, ...]:
        return ("src", "dst", "rows", "n_steps", "column", "n", "panel", "batch", "n_batch")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        n, column = k.slot("n"), k.slot("column")
        panels = b.udiv(n + (_PANEL - 1), _PANEL)
        kind = storage_type(self.b)
        with b.loop(k.begin, k.end) as block:
            z = b.udiv(block.index, panels)
            panel = block.index - z * panels
            batch = b.gep(k.pointer("batch"), I64, z * 2)
            source = b.gep(k.pointer("src"), kind, b.load(I64, batch))
            to = b.gep(k.pointer("dst"), I8, b.load(I64, b.gep(batch, I64, 1)) + panel * k.slot("panel"))
            n0 = panel * _PANEL
            left = n - n0
            width = b.select(b.icmp("sgt", left, _LANES), b.const(I64, 2), b.const(I64, 1))
            with b.loop(0, width) as tile:
                have = b.intrinsic("smin", left - tile.index * _LANES, b.const(I64, _LANES))
                mask = b.prefix_mask(have, _LANES)
                start = b.gep(source, kind, (n0 + tile.index * _LANES) * column)
                lanes = b.mul(b.lane_numbers(I64, _LANES), b.splat(column, _LANES))
                with b.loop(0, k.slot("n_steps") * ROWS) as row:
                    rows = [b.entry(k.pointer("rows"), row.index * 2 + i) for i in range(2)]
                    even, odd = (parts_of(b, self._row(k, start, r, lanes, mask), self.parts, True) for r in rows)
                    step, inner = b.lshr(row.index, 4), b.and_(row.index, ROWS - 1)
                    if self.lean:
                        begin = b.gep(to, I8, step * width * STEP_BYTES)
                        self._store_lean(k, begin, width, tile.index, inner, even, odd)
                    for part in range(0 if self.lean else self.parts):
                        at = ((step * self.parts + part) * width + tile.index) * TILE_BYTES + inner * ROW_BYTES
                        b.store(pair(b, even[part], odd[part]), b.gep(to, I8, at))
        return k.finish()

    def _store_lean(
        self, k: Kernel, step: Value, width: Value, tile: Value, row: Value, even: Sequence[Value], odd: Sequence[Value]
    ) -> None:
        """A row of a step's tile of first parts, and of its bytes behind all tiles of first parts."""
        b = k.b
        b.store(pair(b, even[0], odd[0]), b.gep(step, I8, tile * TILE_BYTES + row * ROW_BYTES))
        low, high = (to_bytes(b, *parts) for parts in (even, odd))
        both = b.shuffle(low, high, [i // 2 + i % 2 * _LANES for i in range(2 * _LANES)])
        at = width * TILE_BYTES + (tile * ROWS + row) * (ROW_BYTES // 2)
        b.store(both, b.gep(step, I8, at))

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
        return widen(b, self.b, values)
