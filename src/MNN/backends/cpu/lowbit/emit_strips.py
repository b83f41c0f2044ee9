"""Products of many rows with weights in few bits on matrix units."""

from __future__ import annotations

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Ref
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.amx.split import PRODUCTS
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.lowbit.layout import Layout
from MNN.backends.cpu.lowbit.strips import STEP, STRIP, StripRowsSpec, StripTilesSpec, step_bytes
from MNN.backends.cpu.products.epilogue import SUM
from MNN.backends.cpu.products.load_balance import split_evenly
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
_BRING = {1: 6.0, 2: 12.0, 3: 18.0}
"""Cycles to bring 32 numbers of a row, by parts."""
_MOST_ROWS = 544
"""Of a block: those that a range of up to 512 has room for are one."""
_SHARES = 4
"""Blocks for each of several threads."""


def possible(e: Emitter, layout: Layout, k: int) -> bool:
    """Whether rows of ``k`` numbers are whole steps, and so are the blocks of the weights, or parts of one."""
    run = layout.groups * layout.steps
    return k % STEP == 0 and k == layout.blocks * run and amx.available(e.target) and e.target.lanes(DType.F32) == LANES


def candidate(
    e: Emitter, product: Product, layout: Layout, weights: Ref, rounds: bool, halves: Body | None = None
) -> Candidate:
    """The product in strips, of one bf16 part where that ``rounds`` enough. ``halves``: what makes a result of the sums
    of two columns (:class:`~.strips.StripTilesSpec`)."""
    parts = 1 if rounds or product.a.dtype is DType.BF16 else _PARTS[e.precision]
    cycles = _cycles(e.target, product, layout, parts, product.n * (1 if halves is None else 2))
    name = f"{layout.width}-bit weights, strips of {parts} bf16 part{'s' if parts > 1 else ''}"
    return Candidate(name, cycles, lambda: _emit(e, product, layout, weights, parts, halves))


def _cycles(target: Target, product: Product, layout: Layout, parts: int, n: int) -> float:
    """Of a product with ``n`` columns of weights."""
    m, steps = room_of(product.m), product.k // STEP
    strips, panels = -(-m // STRIP), -(-n // STRIP)
    mb, chunk = _block(target, m, layout, parts)
    pairs = strips * panels * -(-steps // chunk)
    cycles = 4 * strips * panels * steps * len(PRODUCTS[parts]) * _DOT + pairs * _PAIR
    return cycles + -(-m // mb) * panels * steps * STEP * _APART[parts] + m * steps * _BRING[parts]


def _block(target: Target, m: int, layout: Layout, parts: int) -> tuple[int, int]:
    """Rows of a block, and steps of a chunk: such a part of these rows stays in the second-level cache."""
    steps = layout.blocks * layout.groups * layout.steps // STEP
    mb = split_evenly(m, -(-m // _MOST_ROWS), STRIP)
    most = max(target.l2_bytes * 5 // 8 // ((mb // STRIP + 1) * step_bytes(parts)), 1)
    return mb, split_evenly(steps, -(-steps // most), 1)


def _emit(e: Emitter, product: Product, layout: Layout, weights: Ref, parts: int, halves: Body | None) -> None:
    a, c, epilogue = product.a, product.c, product.epilogue
    m, n, steps = product.m, product.n, product.k // STEP
    rows = room_of(m)
    strips = e.allocate(DType.U8, (-(-rows // STRIP), steps * step_bytes(parts)), (0, 1))
    args: dict[str, int | Ref] = {
        "x": e.ref(a.place, a.dtype), "rows_x": e.offsets(a.table), "y": e.ref(strips, DType.U8),
        "m": m, "steps": steps,
    }  # fmt: skip
    e.command(StripRowsSpec.of(a.dtype, parts), args, m, max(1, 4096 // product.k))
    behind = (epilogue.body, epilogue.kinds) if halves is None else (halves, (SUM,))
    spec = StripTilesSpec.of(c.dtype, layout.width, layout.zeros, parts, *behind)
    mb, chunk = _block(e.target, rows, layout, parts)
    nb = split_evenly(n, 1 if e.threads == 1 else e.threads * _SHARES, layout.columns)
    args = {
        "a": e.ref(strips, DType.U8), "b": weights, "c": e.ref(c.place, c.dtype), "rows_c": e.offsets(c.table),
        "m": m, "n": n, "mb": mb, "nb": nb, "steps": steps, "chunk": chunk,
        "blocks": layout.blocks, "groups": layout.groups,
    }  # fmt: skip
    args |= epilogue.args(e)
    flops = 2 * m * n * product.k * (1 if halves is None else 2)
    e.command(spec, args, -(-m // mb) * -(-n // nb), 1, flops)


__all__ = ["LANES", "candidate", "possible"]
