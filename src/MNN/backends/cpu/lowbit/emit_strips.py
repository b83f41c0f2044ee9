"""Products of many rows with weights in few bits on matrix units."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Ref
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.amx.split import PRODUCTS
from MNN.backends.cpu.amx.tiles import ROWS
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.lowbit import codebook
from MNN.backends.cpu.lowbit.layout import Layout
from MNN.backends.cpu.lowbit.strips import STEP, STRIP, StripRowsSpec, StripTilesSpec, step_bytes
from MNN.backends.cpu.products.epilogue import SUM
from MNN.backends.cpu.products.load_balance import longest, split_evenly
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body
from MNN.ir.traced import room_of

_PARTS = {"high": 3, "normal": 2, "low": 1}
LANES = 16
"""Columns of a tile, and lanes of a vector."""
_DOT = 20.0
"""Cycles of a product of two tiles, with its loads."""
_PAIR = 150.0
"""Cycles to begin and end the sums of a strip and a panel, beside the epilogue."""
_APART = {1: 5.0, 2: 12.0, 3: 18.0}
"""Cycles to take two numbers of 16 columns apart, by parts."""
_BESIDE = 0.3
"""Of that, what is left where it is done beside products."""
_BRING = {1: 6.0, 2: 12.0, 3: 18.0}
"""Cycles to bring 32 numbers of a row, by parts."""
_MOST_ROWS = 544
"""Of a block: those that a range of up to 512 has room for are one."""
_SHARES = 1, 2, 4
"""Blocks for each of several threads."""
_FAR = 13.0
"""Bytes of rows that a cycle brings from behind the second-level cache."""
_LATE = 0.3
"""Of a block: what threads wait for one another where they do not run at the same speed. With one block for each, two
threads took up to 1.15 times as long as with four, where others used the matrix unit of one core."""


def possible(target: Target, layout: Layout, k: int) -> bool:
    """Whether rows of ``k`` numbers are whole steps, and so are the blocks of the weights, or parts of one."""
    run = layout.groups * layout.steps
    return k % STEP == 0 and k == layout.blocks * run and amx.available(target) and target.lanes(DType.F32) == LANES


def candidate(
    e: Emitter, product: Product, layout: Layout, weights: Ref, rounds: bool, halves: Body | None = None
) -> Candidate:
    """The product in strips, of one bf16 part where that ``rounds`` enough. ``halves``: what makes a result of the sums
    of two columns (:class:`~.strips.StripTilesSpec`)."""
    parts = 1 if rounds or product.a.dtype is DType.BF16 else _PARTS[e.precision]
    cycles = _cycles(e, product, layout, parts, 1 if halves is None else 2)
    name = f"{layout.bits}-bit weights, strips of {parts} bf16 part{'s' if parts > 1 else ''}"
    return Candidate(name, cycles, lambda: _emit(e, product, layout, weights, parts, halves))


@dataclass(frozen=True)
class Cut:
    """Rows and columns of a block, steps of a chunk, and cycles that the thread with most of them takes."""

    mb: int
    nb: int
    chunk: int
    cycles: float


def _cycles(e: Emitter, product: Product, layout: Layout, parts: int, sides: int) -> float:
    """Of all threads together; ``sides``: columns of weights for each result."""
    rows, steps = room_of(product.m), product.k // STEP
    shares = cut(e.target, rows, product.n, layout, parts, sides, e.threads)
    return shares.cycles * e.threads + rows * steps * _BRING[parts]


@functools.lru_cache(maxsize=256)
def cut(target: Target, m: int, n: int, layout: Layout, parts: int, sides: int, threads: int) -> Cut:
    """How threads share ``m`` rows and ``n`` results. Blocks of all rows take no weights apart that others do, too; but
    where rows do not fit the second-level cache, each block of columns brings all of them once more."""
    width, steps = STRIP // sides, layout.blocks * layout.groups * layout.steps // STEP
    strips, panels = -(-m // STRIP), -(-n // width)
    fewest, found = -(-m // _MOST_ROWS), []
    for down in {fewest, max(fewest, threads)}:
        high = -(-strips // down)
        most = max(target.l2_bytes * 5 // 8 // ((high + 2) * step_bytes(parts)), 1)
        chunk = split_evenly(steps, -(-steps // most), 1)
        chunks = -(-steps // chunk)
        wanted = {1, *(threads * share for share in _SHARES)} if threads > 1 else {1}
        for wide in sorted({split_evenly(panels, across, 1, even) for across in wanted for even in (1, threads)}):
            tiles = longest(strips, high, panels, wide, threads) + (_LATE * high * wide if threads > 1 else 0.0)
            pair = 4 * steps * len(PRODUCTS[parts]) * _DOT + chunks * _PAIR
            # Of a panel, which all strips of a block share; those behind the first one beside products.
            apart = steps * STEP * _APART[parts] / high * (_BESIDE + (1 - _BESIDE) / wide)
            again = steps * step_bytes(parts) / _FAR / wide if chunks > 1 else 0.0
            found.append(Cut(high * STRIP, wide * width, chunk, tiles * (pair + apart + again)))
    return min(found, key=lambda c: (c.cycles, c.nb))


def _emit(e: Emitter, product: Product, layout: Layout, weights: Ref, parts: int, halves: Body | None) -> None:
    a, c, epilogue = product.a, product.c, product.epilogue
    m, n, steps = product.m, product.n, product.k // STEP
    rows = room_of(m)
    strips = e.allocate(DType.U8, (-(-rows // STRIP), steps * step_bytes(parts)), (0, 1))
    args: dict[str, int | Ref] = {
        "x": e.ref(a.place, a.dtype), "rows_x": e.offsets(a.table), "y": e.ref(strips, DType.U8),
        "m": m, "steps": steps,
    }  # fmt: skip
    e.command(StripRowsSpec.of(a.dtype, parts), args, -(-m // ROWS), max(1, 4096 // (ROWS * product.k)))
    behind = (epilogue.body, epilogue.kinds) if halves is None else (halves, (SUM,))
    spec = StripTilesSpec.of(
        c.dtype, layout.width, layout.zeros, layout.factors, parts, *behind, codebook=layout.codebook, high=layout.high
    )
    shares = cut(e.target, rows, n, layout, parts, 1 if halves is None else 2, e.threads)
    mb, nb = shares.mb, shares.nb
    args = {
        "a": e.ref(strips, DType.U8), "b": weights, "c": e.ref(c.place, c.dtype), "rows_c": e.offsets(c.table),
        "m": m, "n": n, "mb": mb, "nb": nb, "steps": steps, "chunk": shares.chunk,
        "blocks": layout.blocks, "groups": layout.groups,
    }  # fmt: skip
    args |= epilogue.args(e) | codebook.arguments(e, layout.entries)
    flops = 2 * m * n * product.k * (1 if halves is None else 2)
    e.command(spec, args, -(-m // mb) * -(-n // nb), 1, flops)


__all__ = ["LANES", "Cut", "candidate", "cut", "possible"]
