"""Products by Winograd's inner products: two multiplications for one, and two additions, which other units do.

S. Winograd, "A New Algorithm for Inner Product" (1968)::

    a1 b1 + a2 b2 = (a1 + b2) (a2 + b1) - a1 a2 - b1 b2

Sums of ``a1 a2`` belong to a row of A, those of ``b1 b2`` to a column of B. Where a processor adds beside its
multiply-adds (:attr:`MNN.backends.cpu.targets.base.Target.separate_adders`), a row costs as much this way as plainly:
two additions for two multiply-adds. But two rows of three this way and one plainly keep both kinds of units busy: 36
products of vectors in 24 cycles, with one multiply-add and one addition a cycle (measured, in registers).

Accuracy. Factors are only of use where A's and B's numbers are of one size: rows of A and columns of B are multiplied
by powers of two that bring their root mean squares to 1 to 2. Every second pair is ``(a1 - b2) (b1 - a2)``, so that
sums of ``a1 a2`` have both signs and do not drift where A's numbers are all positive. Errors are then 1.0 to 1.7 times
those of plain sums (root mean square; depth 16 to 2048; normal numbers, these behind ReLU, with a mean of 1, with
channels of very different size), without the signs up to 14 times. They are relative to the norms of a row and of a
column: where one channel is a hundred times as large as the others, errors may be three times plain ones.

Rows with infinities, NaNs or very large or small numbers take the plain way, with the tile that they are in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import Arguments
from MNN.backends.base.record import Record
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.traffic import number, table, union
from MNN.backends.cpu.inner_product.iteration import HEAD
from MNN.backends.cpu.inner_product.layout import tile_size
from MNN.backends.cpu.inner_product.records import INNER_PRODUCT
from MNN.backends.cpu.products.epilogue import check_epilogue, operand_bytes, operand_slots
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

__all__ = ["HEAD", "InnerProductSpec"]


@dataclass(frozen=True)
class InnerProductSpec(GeneratedSpec):
    """``C[m, n] = epilogue(A @ B, operands...)`` in f32, for B as ``InnerProductPackSpec`` (:mod:`.pack`) makes it.

    Its arguments are the record :data:`~.records.INNER_PRODUCT`. Panels of B end with rows of zeros where ``k`` is not
    whole turns (:mod:`.iteration`). Operands, blocks and units are as in
    :class:`MNN.backends.cpu.gemm.contraction.ContractSpec`, with one batch.
    """

    shaped: ClassVar[bool] = True
    arguments: ClassVar[Record] = INNER_PRODUCT

    mr: int
    nv: int
    out: DType = DType.F32
    epilogue: Body | None = None
    operands: tuple[str, ...] = field(default=())
    screened: bool = False
    """Whether B is a ``screened`` one, with a row that says which columns are multiplied plainly."""
    a: ClassVar[DType] = DType.F32
    b: ClassVar[DType] = DType.F32
    acc: ClassVar[DType] = DType.F32

    def __post_init__(self) -> None:
        if self.mr < 2 or self.nv < 1:
            raise ValueError(f"bad tile {self.mr}x{self.nv}")
        check_epilogue(self.epilogue, self.operands, self.acc, self.out)

    def nr(self, target: Target) -> int:
        """Columns of a tile."""
        return self.nv * target.lanes(self.acc)

    def slots(self) -> tuple[str, ...]:
        return (*self.arguments, *operand_slots(self.operands))

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """A tile of sums and the prepared rows of a block."""
        size = tile_size(self.mr, args["k"], target.lanes(self.acc))
        return (self.mr * self.nr(target) + -(-args["mb"] // self.mr) * size) * self.acc.size

    def blocks(self, m: int, n: int, ub: int, nb: int) -> int:
        """The size of the index space: units of ``ub`` rows and ``nb`` columns."""
        return -(-m // ub) * -(-n // nb)

    def traffic(self, args: Arguments) -> dict[str, int]:
        k, m, n = (number(args, slot) for slot in ("k", "m", "n"))
        found = {
            "a": union(np.unique(table(args, "rows_a", m)), k) * self.a.size,
            "b": (k + HEAD + self.screened) * n * self.b.size,
            "c": m * n * self.out.size,
        }
        return found | operand_bytes(self.operands, self.epilogue, [np.zeros(1)] * len(self.operands), m, n)

    def in_place(self, args: Arguments) -> overlay.Pairs:
        return overlay.of_product(self.operands, self.epilogue, self.out, args, number(args, "m"))
