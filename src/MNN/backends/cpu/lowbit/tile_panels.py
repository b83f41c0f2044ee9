"""Weights in few bits taken apart to panels that matrix units read (:mod:`MNN.backends.cpu.amx.pack` says how these
lie), in every run: kept, they would take eight times the memory of 4 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.amx.split import PRODUCTS, pair
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS, TILE_BYTES
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.lang.module import I8, I32, I64, Kernel, Value
from MNN.backends.cpu.lang.parts import parts_of
from MNN.backends.cpu.lowbit.code import asks_ahead
from MNN.backends.cpu.lowbit.layout import SHIFT, VECTORS, WORD, BlockCode, block_record, column_bytes, look_up
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

LANES = 16
"""Columns of a tile, and lanes of a vector."""


@dataclass(frozen=True)
class TilePanelsSpec(KernelSpec):
    """Block ``p``: the columns from ``32 * p`` on, in ``parts`` of bf16.

    Slots: ``codes``, panels of :class:`~MNN.backends.cpu.lowbit.layout.Layout` with ``width`` and ``zeros``, of
    ``blocks`` blocks of ``groups`` words; ``dst``, to which ``n`` columns go, ``panel`` bytes for each 32 of them. A
    column has a multiple of 32 numbers.
    """

    shaped: ClassVar[bool] = True

    width: int
    zeros: str
    parts: int

    def __post_init__(self) -> None:
        if self.parts not in PRODUCTS:
            raise ValueError(f"no panels of {self.parts} parts")

    def slots(self) -> tuple[str, ...]:
        return "codes", "dst", "n", "panel", "blocks", "groups"

    def traffic(self, args: Arguments) -> dict[str, int]:
        n, blocks, groups = (number(args, slot) for slot in ("n", "blocks", "groups"))
        each = blocks * groups * (WORD // self.width) * self.parts * DType.BF16.size
        return {"codes": n * blocks * (column_bytes(self.zeros) + 4 * groups), "dst": n * each}

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        wide, steps = VECTORS * LANES, WORD // self.width
        n, groups, blocks = k.slot("n"), k.slot("groups"), k.slot("blocks")
        size = groups * (4 * wide) + block_record(self.zeros, wide).size
        with b.loop(k.begin, k.end) as panel:
            first = panel.index * (2 * LANES)
            to = b.gep(k.pointer("dst"), I8, panel.index * k.slot("panel"))
            tiles = b.select(b.icmp("sgt", n - first, LANES), b.const(I64, 2), b.const(I64, 1))
            start = b.gep(k.pointer("codes"), I8, b.udiv(first, wide) * blocks * size)
            column = b.urem(first, wide)
            with b.loop(0, tiles) as tile, b.loop(0, blocks) as block:
                at = column + tile.index * LANES
                record = BlockCode(b, self.zeros, wide, b.gep(start, I8, block.index * size), at, LANES)
                scale, codes = b.mul(record.scale(), 2.0**-SHIFT), record.codes()
                zero = None if self.zeros == "none" else record.zero()
                if zero is not None and self.zeros == "f32":
                    zero = b.mul(zero, 2.0**-SHIFT)
                with b.loop(0, groups) as group:
                    place = b.gep(codes, I32, group.index * wide)
                    words = b.load(I32.vec(LANES), place)
                    asks_ahead(b, target, [place])

                    def number_at(
                        u: int, words: Value = words, scale: Value = scale, zero: Value | None = zero
                    ) -> list[Value]:
                        code = look_up(b, target, self.width, words, u)
                        if self.zeros == "f32" and zero is not None:
                            value = b.fma(code, scale, zero)
                        else:
                            value = b.mul(code if zero is None else b.sub(code, zero), scale)
                        return parts_of(b, value, self.parts, True)

                    row = b.udiv((block.index * groups + group.index) * steps, 2)  # of pairs
                    step, inner = b.lshr(row, 4), b.and_(row, ROWS - 1)
                    begin = (step * self.parts * tiles + tile.index) * TILE_BYTES + inner * ROW_BYTES
                    for u in range(0, steps, 2):
                        even, odd = number_at(u), number_at(u + 1)
                        for part in range(self.parts):
                            line = begin + tiles * (part * TILE_BYTES) + u // 2 * ROW_BYTES
                            b.store(pair(b, even[part], odd[part]), b.gep(to, I8, line))
        return k.finish()


__all__ = ["LANES", "TilePanelsSpec"]
