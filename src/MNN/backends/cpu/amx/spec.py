"""Contractions on AMX tiles: matrix products and convolutions by implicit GEMM, in bf16 or in split fp32.

A block's rows of A are first brought into the worker's scratch as bf16 or fp16 parts
(:mod:`MNN.backends.cpu.amx.split`), where they stay in the second-level cache for all columns. What is brought there
are either rows of the product or, for windows with large channels, every pixel of the block's region of the input once;
tiles are then loaded from pixels (``kofs`` says where each step of the sum begins, rows are always ``pitch`` bytes
apart). For a window the rows of a tile are neighbouring pixels, over the end of the image's rows too: the results of
such places are not stored. Strides are dealt with by keeping the pixels of each phase together.

B is packed in panels of 32 columns, for each step of 32 products first its parts and then its tiles (16 pairs by 16
columns). Sums of 2x2 tiles stay in registers for the whole depth; finished ones pass through scratch to the epilogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import Arguments
from MNN.backends.base.record import Record
from MNN.backends.cpu.amx.records import AMX, JOINED, LENGTH, PACE, PAST, REGION, RUNS, SECTIONS
from MNN.backends.cpu.amx.scale import SCALE_BYTES
from MNN.backends.cpu.amx.split import ARITHMETIC, OF_BYTES, PRODUCTS
from MNN.backends.cpu.amx.tiles import TILE_BYTES, state_bytes
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.generators import GeneratedSpec
from MNN.backends.cpu.codegen.tables import batch_record
from MNN.backends.cpu.codegen.traffic import number, table, union
from MNN.backends.cpu.products.epilogue import OPERAND_KINDS, check_epilogue, operand_bytes, operand_slots
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.targets.instructions.capability import Capability
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

PANEL = 32
"""Columns of a panel and rows of a pair of tiles."""
_HELD = {DType.F32: tuple(PRODUCTS), DType.BF16: (1,), DType.BF16X2: (2,), DType.U8: (1,), DType.I8: (1,)}
"""In how many parts A may be multiplied, by its type."""
PRODUCTS_OF_BYTES = {
    (DType.U8, DType.I8): can.TILE_DOT_U8_I8,
    (DType.I8, DType.I8): can.TILE_DOT_I8_I8,
    (DType.U8, DType.U8): can.TILE_DOT_U8_U8,
    (DType.I8, DType.U8): can.TILE_DOT_I8_U8,
}
"""What multiplies tiles of bytes, by the types of A and B."""


@dataclass(frozen=True)
class AmxSpec(GeneratedSpec):
    """``C[i, n] = epilogue(sum over steps s, j < 32 of A[place[i], kofs[s], j] * B[s, j, n], operands...)``, batched.

    Its arguments are the record :data:`~.records.AMX`, with ``overlap`` those of :data:`~.records.PACE` behind them and
    with ``joined`` those of :data:`~.records.JOINED`.

    Block ``(z * m_blocks + im) * ceil(n / nb) + in`` computes the results of block ``im``'s rows in columns
    ``[in * nb, ...)``.

    Every item brings runs of ``k`` elements of A to where they are ``pitch`` bytes apart in every part's plane,
    followed by zeros up to a multiple of 64 bytes, in this order. Step ``s`` of tile ``t`` takes rows
    ``t * 16 * pitch + r * pitch + kofs[s]`` of a plane.

    With ``joined``, items bring lines of pixels, and moves join rows of them: runs of ``width`` elements within every
    plane become ``pitch`` bytes apart, with zeros up to a multiple of 64 bytes.

    With ``lines``, rows of tiles reach up to 64 bytes further than runs: so many zeros more follow each of them.

    With ``sections``, of so many columns (16 or 32) and elements of A, columns of one section after the other take A
    from rows of their own, the record :data:`~.records.SECTIONS` behind the others saying how far apart: an item's runs
    are pixels, and section ``i`` of a block's columns has the elements from ``i`` times so many on of each, side by
    side, with 64 bytes of zeros behind an item's last.

    With ``direct``, nothing is brought: tiles are loaded from A itself.

    Where tiles are ``shared``, block ``im`` computes them in columns ``[im * part, (im + 1) * part)``. The tiles before
    them come in pairs, and a block has all columns then.

    For each pair of tiles all panels of a group are taken. Their sums are held in scratch: those of a pair and group,
    or with several chunks those of the whole block. While a step is summed, ``ahead`` lines of the group behind are
    asked for; at the end of a thread's last block, those that its :data:`~.records.TURN` names. With ``overlap``,
    results of the pair before are finished in between: enough for a pair's 32 rows in all steps of a chunk.
    With ``passing``, B's tiles do not stay in the first-level cache, so that A's do (a product of two tiles with its
    loads takes 26 instead of 33 cycles where the sums are 512 or 768 deep).

    With ``ragged``, columns do not come out even in panels: results are loaded and stored with masks, so that those of
    the last panel are finished between products like others.

    With ``asks_results``, what results will be stored to is asked for while their sums are computed: memory that is far
    away.

    With ``tall``, sums are of all row tiles of a block, four at most, by one column tile (:mod:`.code_tall`), and the
    first chunk's items bring all that a block needs of A. With ``w24``, B's second parts are bytes
    (:mod:`MNN.backends.cpu.amx.byte_parts`). With ``half``, parts are fp16, of A scaled by block and B by panel
    (:mod:`MNN.backends.cpu.amx.scale`).

    Rows of a block are counted from 0; result ``i`` is row ``place[i]`` of block ``im``. The epilogue and its operands
    are as in :class:`MNN.backends.cpu.gemm.contraction.ContractSpec`. B's panels are those of
    :mod:`MNN.backends.cpu.amx.pack`. ``a`` is f32, bf16 with one part, or ``BF16X2`` with two.

    Where ``right`` is the type of B's bytes, ``a`` is one of bytes too, sums are i32, and what is called an element
    here, and a product of a step, is a pair of neighbouring bytes: all else is as of bf16, which takes as much memory.
    ``fits``: no bound of results of 8 bits is reached before they are rounded
    (:func:`MNN.backends.cpu.products.packed_bytes.fits`).
    """

    shaped: ClassVar[bool] = True
    arguments: ClassVar[Record] = AMX

    a: DType
    out: DType
    parts: int
    epilogue: Body | None = None
    operands: tuple[str, ...] = field(default=())
    ahead: int = 0
    overlap: bool = False
    joined: bool = False
    direct: bool = False
    lines: bool = False
    passing: bool = False
    tall: bool = False
    w24: bool = False
    half: bool = False
    right: DType | None = None
    asks_results: bool = False
    fits: bool = False
    sections: tuple[int, int] | None = None
    ragged: bool = False

    def __post_init__(self) -> None:
        if (self.a in (DType.U8, DType.I8)) != (self.right in (DType.U8, DType.I8)):
            raise ValueError("bytes are multiplied by bytes")
        if self.parts not in PRODUCTS or self.parts not in _HELD.get(self.a, ()):
            raise ValueError(f"no contraction of {self.a.value} in {self.parts} parts")
        if self.direct and (self.a is DType.F32 or self.joined or self.lines):
            raise ValueError("tiles are loaded from rows of bf16 only")
        if self.asks_results and (self.tall or self.out is DType.BF16X2):
            raise ValueError("results are asked for in whole rows of one part")
        if self.ragged and (self.tall or not self.overlap or self.out is DType.BF16X2):
            raise ValueError("masks are of results that are finished between products, in one part")
        if self.tall and (self.direct or self.parts != 2):
            raise ValueError("tall sums are of two parts, of rows in the scratch")
        if self.w24 and self.parts != 2:
            raise ValueError("second parts of B are bytes only where there are two")
        if self.half and (self.a is not DType.F32 or self.parts != 2 or self.direct or self.w24):
            raise ValueError("fp16 parts are two, of f32, and whole")
        if self.sections and (self.a is DType.F32 or self.parts != 1 or self.joined or self.lines or self.direct):
            raise ValueError("sections are of pixels of one part, which are brought as they are")
        if not set(self.operands) <= set(OPERAND_KINDS):
            raise ValueError(f"bad operand kinds {self.operands}")
        check_epilogue(self.epilogue, self.operands, self.sums, self.out)

    @property
    def product(self) -> Capability:
        """What multiplies two tiles."""
        if self.right is not None:
            return PRODUCTS_OF_BYTES[self.a, self.right]
        return can.TILE_DOT_F16 if self.half else can.TILE_DOT_BF16

    @property
    def sums(self) -> DType:
        """What products are summed in."""
        return DType.F32 if self.right is None else DType.I32

    @property
    def element(self) -> DType:
        """What A's tables count: its elements, or pairs of its bytes."""
        return self.a if self.right is None else DType.I16

    def slots(self) -> tuple[str, ...]:
        more = [*(PACE if self.overlap else ()), *(JOINED if self.joined else ())]
        more += SECTIONS if self.sections else ()
        return (*self.arguments, *more, *operand_slots(self.operands))

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        """The sums, A's parts and their scale, B's second parts of two steps (and the tile registers where the
        processor has none)."""
        behind = 4 * TILE_BYTES if self.w24 else SCALE_BYTES if self.half else 0
        return args["held"] + self.parts * args["plane"] + state_bytes(target, self.product) + behind

    def arithmetic(self, target: Target) -> str:
        return ARITHMETIC[self.parts, self.half] if self.right is None else OF_BYTES

    def traffic(self, args: Arguments) -> dict[str, int]:
        n, n_batch, chunks = (number(args, slot) for slot in ("n", "n_batch", "chunks"))
        m_blocks, step = number(args, "m_blocks"), number(args, "step")
        count = batch_record(len(self.operands)).count
        batch = table(args, "batch", n_batch * count, np.int64).reshape(n_batch, count)
        different = [np.unique(batch[:, i]) for i in range(count)]
        words = REGION.count
        regions = table(args, "regions", m_blocks * chunks * words).reshape(m_blocks, chunks, words)
        items = table(args, "items", int(regions[..., PAST].max()) * RUNS.count).reshape(-1, RUNS.count)
        m = int(table(args, "first", m_blocks * number(args, "pairs") + 1)[-1])
        if number(args, "shared"):  # rows that several blocks have
            m = np.unique(table(args, "rows_c", m)).size
        brought = different[0].size * m * int(regions[0, :, LENGTH].sum()) if self.direct else 0
        for chunk in range(0 if self.direct else chunks):
            part = np.concatenate([items[first:past] for first, past in regions[:, chunk, : PAST + 1]])
            if not part.size:  # it is all there
                continue
            runs = part[:, 2]
            nth = np.arange(runs.sum()) - np.repeat(np.cumsum(runs) - runs, runs)
            starts = np.unique(np.repeat(part[:, 0], runs) + nth * step)
            brought += union((starts[:, None] + different[0]).reshape(-1), int(regions[0, chunk, LENGTH]))
        found = {
            "a": brought * self.element.size,
            "b": different[1].size * -(-n // PANEL) * number(args, "panel"),
            "c": n_batch * m * n * self.out.size,
        }
        return found | operand_bytes(self.operands, self.epilogue, different[3:], m, n)

    def in_place(self, args: Arguments) -> overlay.Pairs:
        if "mn" not in self.operands:
            return ()
        results = int(table(args, "first", number(args, "m_blocks") * number(args, "pairs") + 1)[-1])
        return overlay.of_product(self.operands, self.epilogue, self.out, args, results, number(args, "n_batch"))
