"""Products of many rows on matrix units with weights in few bits, which are taken apart in every run: what their
kernels are, and how both sides lie.

Numbers are split into bf16 parts (:mod:`MNN.backends.cpu.lang.parts`). Rows are brought once for all columns, in strips
of 32, each a sequence of steps of 32 numbers; a step is two tiles of every part, rows 0 to 15 and 16 to 31::

    bf16 [strips, steps, parts, 2, 16, 32]

A panel of 32 columns is taken apart to the same sequence in a worker's scratch memory, in pairs of steps' numbers as
tiles of the right side have them, and multiplied by all strips of the block while it is near; the next one is taken
apart beside these products. So weights come from memory in few bits, and nothing of the size of floats is ever written
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import Arguments
from MNN.backends.base.record import Record, word
from MNN.backends.cpu.amx.split import ARITHMETIC, PRODUCTS
from MNN.backends.cpu.amx.tiles import TILE_BYTES, state_bytes
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.traffic import number, table
from MNN.backends.cpu.lowbit import codebook
from MNN.backends.cpu.lowbit.layout import column_bytes
from MNN.backends.cpu.lowbit.records import COMPRESSED
from MNN.backends.cpu.products.epilogue import OPERAND_KINDS, SUM, check_epilogue, operand_bytes, operand_slots
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

STRIP = 32
"""Rows of a strip, and columns of a panel: two tiles."""
STEP = 32
"""Numbers of a tile's row."""
SUMS = 4 * STRIP * STRIP
"""Bytes of the sums of a strip and a panel."""
STRIPS = Record(
    "strips",
    word("a", "strips of rows", pointer=True),
    word("b", "weights", pointer=True),
    word("c", "C", pointer=True),
    word("rows_c", "i32[m]: the element of C where each row begins", pointer=True),
    word("m", "rows of C"),
    word("n", "columns of C"),
    word("mb", "rows of a block, whole strips"),
    word("nb", "columns of a block, whole panels"),
    word("steps", "steps of a row"),
    word("chunk", "steps that are summed before all others of a block's rows and columns are"),
)


def step_bytes(parts: int) -> int:
    """Of a step of a strip or a panel."""
    return parts * 2 * TILE_BYTES


@dataclass(frozen=True)
class StripRowsSpec(GeneratedSpec):
    """Brings rows to strips; block ``i`` of the index space is the 16 rows of a tile, so that threads do not write to
    neighbouring lines.

    Slots: ``x`` and ``rows_x`` (where each row begins, i32), ``y``: the strips, ``m`` rows of ``steps`` steps.
    """

    shaped: ClassVar[bool] = True

    x: DType
    parts: int

    def slots(self) -> tuple[str, ...]:
        return "x", "rows_x", "y", "m", "steps"

    def traffic(self, args: Arguments) -> dict[str, int]:
        rows, depth = table(args, "rows_x", number(args, "m")), number(args, "steps") * STEP
        return {
            "x": np.unique(rows).size * depth * self.x.size,
            "y": rows.size * depth * self.parts * DType.BF16.size,
        }


@dataclass(frozen=True)
class StripTilesSpec(GeneratedSpec):
    """``C[i, n] = epilogue(sum over k of A[i, k] * B[k, n], operands...)`` of strips of A, with weights as
    :class:`~MNN.backends.cpu.lowbit.layout.Layout` has them.

    Its arguments are the record :data:`STRIPS`, then those of :data:`~.records.COMPRESSED` and of the epilogue. Block
    ``im * ceil(n / nb) + in`` computes rows ``[im * mb, ...)`` of columns ``[in * nb, ...)``. With several chunks, the
    sums of a whole block are in scratch memory between them. The epilogue and its operands are as in
    :class:`MNN.backends.cpu.gemm.contraction.ContractSpec`.

    ``halves``: the weights have ``2 * n`` columns, and result ``n`` is of the sums of columns ``n`` and ``n + N``, the
    latter as the first operand of the epilogue (``SUM``). A panel is then of 16 columns of each half.
    """

    shaped: ClassVar[bool] = True

    out: DType
    width: int
    zeros: str
    factors: DType
    parts: int
    epilogue: Body | None = None
    operands: tuple[str, ...] = field(default=())
    codebook: bool = False
    """Whether codes are numbers of entries (:mod:`.codebook`)."""
    high: int = 0
    """Bits beside four of codes that lie in pieces (:mod:`.planes`)."""

    def __post_init__(self) -> None:
        own = self.operands[1:] if self.halves else self.operands
        if self.parts not in PRODUCTS or not set(own) <= set(OPERAND_KINDS):
            raise ValueError(f"no strips like {self.key()}")
        check_epilogue(self.epilogue, self.operands, DType.F32, self.out)

    @property
    def acc(self) -> DType:
        return DType.F32

    @property
    def halves(self) -> bool:
        return self.operands[:1] == (SUM,)

    @property
    def columns(self) -> int:
        """Results of a panel."""
        return STRIP // 2 if self.halves else STRIP

    def nr(self, target: Target) -> int:
        del target
        return self.columns

    def slots(self) -> tuple[str, ...]:
        return (*STRIPS, *COMPRESSED, *operand_slots(self.operands), *codebook.slots(self.codebook))

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """A chunk of two panels, and sums (and the tile registers where the processor has none)."""
        several = args["chunk"] < args["steps"]
        sums = (args["mb"] // STRIP) * (args["nb"] // self.columns) if several else 2
        return 2 * args["chunk"] * step_bytes(self.parts) + sums * SUMS + state_bytes(target, can.TILE_DOT_BF16)

    def arithmetic(self, target: Target) -> str:
        del target
        return ARITHMETIC[self.parts, False]

    def traffic(self, args: Arguments) -> dict[str, int]:
        m, n, blocks, groups = (number(args, slot) for slot in ("m", "n", "blocks", "groups"))
        found = {
            "a": m * number(args, "steps") * STEP * self.parts * DType.BF16.size,
            "b": n * (1 + self.halves) * blocks * column_bytes(self, groups),
            "c": m * n * self.out.size,
        }
        return found | operand_bytes(self.operands, self.epilogue, [np.zeros(1)] * len(self.operands), m, n)

    def in_place(self, args: Arguments) -> overlay.Pairs:
        return overlay.of_product(self.operands, self.epilogue, self.out, args, number(args, "m"))


__all__ = ["STEP", "STRIP", "STRIPS", "SUMS", "StripRowsSpec", "StripTilesSpec", "step_bytes"]
