"""Strassen's algorithm, one level or two: 7 half-size products where the plain way needs 8, or 49 where it needs 64.

V. Strassen, "Gaussian Elimination is not Optimal" (1969); that sums of C's parts need no memory of their own is from
J. Huang, T. Smith, G. Henry and R. van de Geijn, "Strassen's Algorithm Reloaded" (2016). Two levels are the same table
of products twice: an outer product is a *stage*, of seven inner ones; a long depth is cut into more stages. A register
tile of one product is added to the tiles of C that hold it, up to four of 16, which lie in the second-level cache: all
tiles of rows of a product come before the next product, so that its factor of B stays in the first-level cache. (All
products of a tile together cost 1 to 4 % more on AVX2, where B from the second level is as much as loads can hide.)

Every product reads two streams in order. A's factors are written out once (:class:`StrassenSumsSpec`), in the order in
which tiles read them. Those of B are formed per group of panels and stage, in scratch in the second-level cache, a
vector now and then between the sums of the stage before, where loads, additions and stores are free: formed on their
own they cost 10 % of two levels. (Formed in registers, each product reads 1.7 streams at one level and 2.9 at two.)

Rounding errors, beside those of sums of the whole depth, root mean square: one level 1.0 times at depth 512 and 768 and
0.5 at 3072; two levels 2.1 at 768, 2.0 at 1024 and 1.2 at 3072. They are relative to the largest numbers of A and B,
not to each row's own.
Infinities, NaNs and numbers whose sums might overflow would spread between rows: the kernel of the factors looks for
them and the product then takes the plain way.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from MNN.backends.base.kernel import Arguments
from MNN.backends.base.record import Record
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.traffic import number
from MNN.backends.cpu.products.epilogue import operand_slots
from MNN.backends.cpu.strassen.records import MOST_USES, STAGE, STRASSEN, USE, USES
from MNN.backends.cpu.strassen.sums import COUNT, PRODUCTS, WHOLE, factor_parts
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body


@dataclass(frozen=True)
class StrassenSpec(GeneratedSpec):
    """``C[m, n] = epilogue(A @ B)`` in f32 for packed B (``pack_b``) and evenly spaced rows of A.

    Its arguments are the record :data:`~.records.STRASSEN`; both tables are made by :func:`tables`. C and operands are
    addressed as in ``ContractSpec`` without batches, and may be the same memory as there. Block
    ``im * ceil(groups / nb) + in`` computes rows ``[im*mb, ...)`` of all parts in the groups ``[in*nb, ...)``.
    """

    shaped: ClassVar[bool] = True
    arguments: ClassVar[Record] = STRASSEN

    mr: int
    nv: int
    levels: int = 1
    piece: int = 0
    """Elements between factors of B in scratch; at least ``chunk`` x ``nr``."""
    out: DType = DType.F32
    epilogue: Body | None = None
    operands: tuple[str, ...] = field(default=())
    a: ClassVar[DType] = DType.F32
    b: ClassVar[DType] = DType.F32
    acc: ClassVar[DType] = DType.F32

    def nr(self, target: Target) -> int:
        """Columns of a tile."""
        return self.nv * target.lanes(self.acc)

    def slots(self) -> tuple[str, ...]:
        return (*self.arguments, *operand_slots(self.operands))

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """B's factors of one stage and of the next, and all tiles of C of a group of panels."""
        tiles = -(-min(args["mb"], args["rows"]) // self.mr)
        return (2 * COUNT * self.piece + tiles * (1 << 2 * self.levels) * self.mr * self.nr(target)) * self.acc.size

    def in_place(self, args: Arguments) -> overlay.Pairs:
        return overlay.of_product(self.operands, self.epilogue, self.out, args, number(args, "m"))


@functools.lru_cache(maxsize=256)
def tables(levels: int, k: int, chunk: int, nr: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """``StrassenSpec.stages`` (records :data:`~.records.STAGE`) and ``uses`` (records :data:`~.records.USES`).

    ``k`` is the depth of a part. A stage is the inner products of an outer one (at two levels), for ``chunk`` of it.
    """
    outers = PRODUCTS if levels == 2 else WHOLE
    stages, uses = [], []
    for cut in range(0, k, chunk):
        for _, right, belongs in outers:
            places = [[(2 * i * k * (levels == 2) + cut) * nr, 2 * j] for i, j, _ in factor_parts(right)]
            minus = factor_parts(right)[-1][2]
            (x_rows, x_panel), (y_rows, y_panel) = places[0], places[-1]
            second = {"keep": -(len(places) > 1), "flip": -(1 << 31) if minus else 0}
            stages.append(STAGE.row(x_rows=x_rows, x_panel=x_panel, y_rows=y_rows, y_panel=y_panel, **second))
            for _, _, own in PRODUCTS:
                found = np.zeros(USES.count, np.int64)
                pairs = list(itertools.product(belongs.split(), own.split()))
                assert len(pairs) <= MOST_USES
                found[USES.index("count")] = len(pairs)
                for place, (o, i) in zip(found[USES.index("uses") :].reshape(-1, USE.count), pairs, strict=False):
                    row, column = (2 * (int(o[x]) - 1) + int(i[x]) - 1 for x in (1, 2))
                    place[:] = USE.row(tile=row * (1 << levels) + column, sign=1 if o[0] == i[0] else -1)
                uses.append(found)
    both = np.array(stages, np.int64), np.array(uses, np.int64)
    assert both[1].shape[0] == COUNT * len(stages)
    for table in both:
        table.flags.writeable = False
    return both
