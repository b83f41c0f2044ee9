"""Products with weights in few bits on integers, where the rows that they multiply may be rounded to 8 bits, or taken
apart into several parts of 8 bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.lowbit import codebook
from MNN.backends.cpu.lowbit.int8 import (
    LARGEST_OF_MERGED,
    Int8Spec,
    half_of,
    is_wide,
    sums_bytes,
    sums_fours,
    words_at_once,
)
from MNN.backends.cpu.lowbit.layout import VECTORS, Layout
from MNN.backends.cpu.lowbit.rounded_rows import WIDTH_OF_PAIRS, RoundedRowsSpec, bytes_of_codes, bytes_of_row, chunk
from MNN.backends.cpu.products.blocks import choose_grain
from MNN.backends.cpu.products.load_balance import split_evenly
from MNN.backends.cpu.products.operand_access import OperandAccess
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.compiler.open.plan import SMALL
from MNN.ir.dtype import DType
from MNN.ir.quant import COARSE_ROW_BITS, FEWEST_ROW_BITS
from MNN.ir.traced import room_of

_FEW_OF_PARTS = 8
"""Rows up to which three whole parts are faster than f32."""
_SHARES = 4
"""Blocks for each of several threads."""
_ROUNDING = 4.0
"""Cycles of a vector of a row that is rounded."""
_TILES_OF_EXPANDED = 4
"""Tiles of rows from which on codes in pieces, and entries of a codebook for rows of 16 bits, are taken apart once for
all (measured on Zen 1, where codes of 8 bits gain nothing by it up to 32 rows, and 4 % with 128)."""
_BEHIND = 4
"""Operations behind the sums of a block, of which a cycle has as many as multiply-adds."""


class Parts(NamedTuple):
    """The number of parts of 8 bits that rows have, and whether they are digits of one number."""

    number: int
    merged: bool = False
    coarse: bool = False
    """Whether the second of two digits is left out where it does little."""
    paired: bool = False
    """Whether the last of several digits is for two numbers."""
    wide: bool = False
    """Whether the only part has 16 bits."""


ROUNDED = Parts(1)
"""Rows rounded to 8 bits."""
_WIDE = Parts(1, wide=True)
"""Rows rounded to 16 bits: where codes have fewer than 8, to the same numbers as those of two digits."""


def possible(target: Target, layout: Layout) -> bool:
    """Whether the target has such products, and rows can be rounded block by block."""
    run = layout.groups * layout.steps
    return sums_bytes(target) and (layout.blocks == 1 or run % chunk(target, layout.width) == 0)


def parts_of(target: Target, layout: Layout, m: int, row_bits: int = 0) -> Parts | None:
    """The parts of rows that may be rounded to so many bits, or of those that lose no more than the precision
    ``normal`` may; None where f32 is faster for ``m`` rows. Few rows are of words that are being written: choices hang
    on small differences then, and one row waits for memory in any case. A size of its own is few where the range that
    it would be in is of few."""
    if is_wide(target, layout.bits):
        return _WIDE if row_bits else None
    rows = room_of(m)
    run, paired = layout.groups * layout.steps, layout.bits == WIDTH_OF_PAIRS and target.can(can.DOT4_UNSIGNED)
    if 0 < row_bits <= FEWEST_ROW_BITS and (sums_fours(target) or run > LARGEST_OF_MERGED):
        return ROUNDED
    if run <= LARGEST_OF_MERGED and row_bits:  # sums of pairs give 8 bits a second digit where blocks are large, too
        coarse = row_bits <= COARSE_ROW_BITS and (rows > SMALL.room or m > SMALL.most)
        several = not (sums_fours(target) or coarse or rows == 1)
        return _WIDE if several else Parts(2, True, coarse, paired)
    if not sums_fours(target):
        return None
    if run <= LARGEST_OF_MERGED and (paired or layout.bits != WIDTH_OF_PAIRS):
        return Parts(3, True, paired=paired)
    return Parts(3) if rows <= _FEW_OF_PARTS else None


def rounded(target: Target, width: int) -> Parts:
    """Rows rounded as far as they may be for codes of so many bits."""
    return _WIDE if is_wide(target, width) else ROUNDED


def candidate(e: Emitter, product: Product, layout: Layout, weights: Ref, parts: Parts = ROUNDED) -> Candidate:
    """The way over integers, with rows in so many parts of 8 bits."""
    m, n, k = room_of(product.m), room_of(product.n), room_of(product.k)
    lanes, run = e.target.lanes(DType.F32), layout.groups * layout.steps
    dots = (parts.number - 0.5 * parts.paired + parts.wide) * run / 4
    steps = layout.blocks * (dots + _BEHIND * (1 if parts.merged else parts.number))
    cycles = m * -(-n // lanes) * steps / e.target.fma_per_cycle + parts.number * m * k / lanes * _ROUNDING
    more = f" in {parts.number} parts" if parts.number > 1 else ""
    more += ", coarse blocks" if parts.coarse else ""
    name = f"{layout.bits}-bit weights, rows of bytes{more}"
    return Candidate(name, cycles, lambda: _emit(e, product, layout, weights, parts))


def tile_of(target: Target, m: int) -> tuple[int, int]:
    """Rows and vectors of a tile: as many sums as registers hold twice, beside codes."""
    if target.vector_registers >= 32:
        return min(m, 3), VECTORS
    if sums_fours(target):
        return min(m, 2), VECTORS if m == 1 else VECTORS // 2
    return min(m, 4), VECTORS if m <= 2 else VECTORS // 2


def expands(target: Target, layout: Layout, parts: Parts, m: int) -> bool:
    """Whether codes are taken apart once for all rows of a block, which has up to ``m``."""
    several = -(-m // tile_of(target, m)[0]) >= _TILES_OF_EXPANDED
    return several and (layout.high > 0 or (layout.codebook and parts.wide))


class Rounded(NamedTuple):
    """Rows of bytes: where they lie, bytes from row to row, and where the numbers of a row's blocks begin in it."""

    place: Place
    row: int
    meta: int


def round_rows(e: Emitter, a: OperandAccess, m: int, k: int, layout: Layout, parts: Parts = ROUNDED) -> Rounded:
    """Rounds ``m`` rows of ``k`` numbers, for products with weights in such a layout."""
    run = layout.groups * layout.steps
    depth = layout.blocks * run
    meta, row = bytes_of_codes(depth, parts.wide), parts.number * bytes_of_row(depth, layout.blocks, parts.wide)
    rounded = e.allocate(DType.U8, (m, row), (0, 1), roomy=True)
    spec = RoundedRowsSpec.of(a.dtype, layout.width, half_of(e.target, layout), *parts, layout.bits > layout.width)
    args: dict[str, int | Ref] = {
        "x": e.ref(a.place, a.dtype), "rows_x": e.offsets(a.table), "y": e.ref(rounded, DType.U8), "row": row,
        "m": m, "k": k, "blocks": layout.blocks, "run": run, "meta": meta,
    }  # fmt: skip
    e.command(spec, args, m, max(1, 4096 // max(depth, 1)))
    return Rounded(rounded, row, meta)


def _emit(e: Emitter, product: Product, layout: Layout, weights: Ref, parts: Parts) -> None:
    c, epilogue = product.c, product.epilogue
    m, n, k = product.m, product.n, product.k
    rows = room_of(m)
    rounded, row, meta = round_rows(e, product.a, m, k, layout, parts)
    mr, nv = tile_of(e.target, rows)
    kinds = DType.I8, DType.I8, DType.I32, c.dtype
    product_spec = Int8Spec.of(
        *kinds, mr, nv, True, epilogue.body, epilogue.kinds, 4,
        width=layout.width, zeros=layout.zeros, factors=layout.factors, parts=parts.number, merged=parts.merged,
        coarse=parts.coarse, paired=parts.paired, wide=parts.wide,
        words=words_at_once(e.target, layout.width, layout.groups, parts.wide),
        codebook=layout.codebook, high=layout.high, expanded=expands(e.target, layout, parts, rows),
    )  # fmt: skip
    mb = max(min(rows, e.target.l2_bytes // 2 // row), 1)
    mb = split_evenly(rows, -(-rows // mb), mr)
    nb = split_evenly(n, 1 if e.threads == 1 else e.threads * _SHARES, layout.columns, e.threads)
    args: dict[str, int | Ref] = {
        "a": e.ref(rounded, DType.I8), "b": weights, "c": e.ref(c.place, c.dtype),
        "rows_a": e.offsets(e.grid((m,), (row,))), "rows_c": e.offsets(c.table), "taps": e.offsets(product.taps),
        "n_taps": 1, "k": k, "ldb": 0, "panel": layout.panel, "m": m, "n": n,
        "batch": e.table(np.zeros((1, len(product.sides) + 1), np.int64)), "n_batch": 1, "mb": mb, "nb": nb, "ub": mb,
        "blocks": layout.blocks, "groups": layout.groups, "meta": meta, "part": row // parts.number,
    }  # fmt: skip
    args |= epilogue.args(e) | codebook.arguments(e, layout.entries)
    blocks = product_spec.blocks(m, n, 1, mb, nb)
    grain = choose_grain(e.target, rows, n, -(-k // 4), (mr, nv), 1, room_of(blocks))
    e.command(product_spec, args, blocks, grain, 2 * m * n * k)


__all__ = ["ROUNDED", "Parts", "Rounded", "candidate", "parts_of", "possible", "round_rows", "rounded", "tile_of"]
