"""Convolutions of f32 in small groups, whose sums are rotated (:mod:`MNN.backends.cpu.gemm.rotated_groups`)."""

from __future__ import annotations

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.rotated_groups import Choice, choose_rotated
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.blocks import choose_blocks, choose_grain
from MNN.backends.cpu.products.operand_access import batch_starts
from MNN.backends.cpu.products.product import Product
from MNN.compiler.bodies import WIDE
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import body_of
from MNN.ir.traced import room_of

_NAME = "rotated groups"


@contraction_algorithm(_NAME, rank=1)
def rotated_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """The product with small groups in panels, where weights are constants."""
    found = work.in_panels()
    if found is None:
        return []
    product, w, groups = found
    if w.const is None or not product.a.dtype is w.dtype is DType.F32:
        return []
    choice = choose_rotated(e.target, w.shape[1], w.shape[0] // groups, groups, product.taps.size)
    if choice is None:
        return []
    tiles = -(-room_of(product.m) // choice.rows) * (groups // choice.panel.groups)
    return [Candidate(_NAME, tiles * choice.cycles, lambda: _emit(e, product, w, choice))]


def _emit(e: Emitter, product: Product, w: Tensor, choice: Choice) -> None:
    a, c, epilogue, m, n = product.a, product.c, product.epilogue, product.m, product.n
    panel, data = choice.panel, w.const
    assert data is not None
    if m == 0 or n == 0:
        return
    body = epilogue.body
    if body is None and WIDE.get(DType.F32, DType.F32) is not c.dtype:
        body = body_of([DType.F32], lambda b, v: b.cast(v, c.dtype))
    tile = choice.rows, panel.vectors
    spec = ContractSpec.of(
        DType.F32, DType.F32, DType.F32, c.dtype, *tile, True, body, epilogue.kinds,
        channels=(panel.ins, panel.outs), rotations=(panel.groups, panel.rotations),
    )  # fmt: skip
    packed = e.pool.get(("rotated", id(data), panel), lambda: panel.pack(data).reshape(-1), (data, w.keep))
    taps, lanes = product.taps, panel.vectors * panel.lanes
    panels = n // panel.columns
    steps = taps.size * panel.ins
    few = packed.nbytes <= e.target.l2_bytes // 2
    most = e.target.l1_bytes // 2 // ((room_of(product.k) + n) * DType.F32.size) if few else 0
    mb, nb, ub = choose_blocks(e.target, room_of(m), panels * lanes, steps, e.threads, tile, DType.F32, most=most)
    nb = nb // lanes * panel.columns
    args: dict[str, int | Ref] = {
        "a": e.ref(a.place, a.dtype), "b": Ref(packed, 0), "c": e.ref(c.place, c.dtype), "rows_a": e.offsets(a.table),
        "rows_c": e.offsets(c.table), "taps": e.offsets(taps), "n_taps": taps.size, "k": product.k, "ldb": 0,
        "panel": steps * lanes, "m": m, "n": n,
        "batch": batch_starts(e, [a.batch, np.zeros(1, np.int64), c.batch, *[s.batch for s in epilogue.sides]], 1),
        "n_batch": 1, "mb": mb, "nb": nb, "ub": ub,
    }  # fmt: skip
    args |= epilogue.args(e)
    count = spec.blocks(m, n, 1, ub, nb)
    grain = choose_grain(e.target, room_of(m), panels * lanes, steps, tile, 1, room_of(count), DType.F32, e.threads)
    e.command(spec, args, count, grain, 2 * m * n * taps.size * panel.ins)
