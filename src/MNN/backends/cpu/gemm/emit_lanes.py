"""Convolutions of integers in small groups, the groups side by side in lanes
(:mod:`MNN.backends.cpu.products.lane_groups`)."""

from __future__ import annotations

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.blocks import choose_blocks, choose_grain
from MNN.backends.cpu.products.lane_groups import Lanes
from MNN.backends.cpu.products.operand_access import batch_starts
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.products.register_tiles import tile_cycles
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from MNN.ir.traced import room_of

_NAME = "groups in lanes"
_PERMUTED = 1.5
"""What a product costs with the permutation of its left side."""
_KEPT = 6
"""A part of so many of the registers is for vectors of the left side, their permutations, and weights. (3x3 windows of
256 channels in 32 groups: 105 us with seven rows of four vectors, 99 with six.)"""
_MOST_ROWS = 12


@contraction_algorithm(_NAME, rank=1)
def lane_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """The product with groups in lanes, where they are small."""
    found = work.in_lanes()
    if found is None:
        return []
    product, weights, lanes = found
    m, tile = room_of(product.m), _tile(e.target, lanes)
    steps = product.taps.size * weights.parts * -(-lanes.ins // weights.group)
    tiles = -(-m // tile[0]) * room_of(product.batches)
    cycles = tiles * tile_cycles(e.target, DType.F32, steps, *tile) * _PERMUTED
    return [Candidate(_NAME, cycles, lambda: _emit(e, product, weights, lanes))]


def _tile(target: Target, lanes: Lanes) -> tuple[int, int]:
    """Rows and vectors; the same for all numbers of rows, so that open ones have one kernel."""
    free = target.vector_registers - target.vector_registers // _KEPT
    return max(1, min(free // lanes.vectors, _MOST_ROWS)), lanes.vectors


def _emit(e: Emitter, product: Product, weights: Weights, lanes: Lanes) -> None:
    a, c, epilogue, tile = product.a, product.c, product.epilogue, _tile(e.target, lanes)
    m, n, n_batch = product.m, product.n, product.batches
    taps = np.tile(product.taps, weights.parts)
    mr, nv = tile
    nr = nv * e.target.lanes(DType.I32)
    b_ref, ldb, panel, b_batch = weights.packed(e, nr, n_batch, a.dtype)
    body = epilogue.body
    if body is None and c.dtype is not DType.I32:
        body = body_of([DType.I32], lambda b, v: b.cast(v, c.dtype))
    spec = ContractSpec.of(
        a.dtype, weights.dtype, DType.I32, c.dtype, mr, nv, True, body, epilogue.kinds, weights.group,
        fits=epilogue.fits, channels=(lanes.ins, lanes.outs),
    )  # fmt: skip
    steps = taps.size * -(-lanes.ins // weights.group)
    mb, nb, ub = choose_blocks(e.target, room_of(m), n, steps, e.threads, tile, DType.F32, True)
    args: dict[str, int | Ref] = {
        "a": e.ref(a.place, a.dtype), "b": b_ref, "c": e.ref(c.place, c.dtype), "rows_a": e.offsets(a.table),
        "rows_c": e.offsets(c.table), "taps": e.offsets(taps), "n_taps": taps.size, "k": product.k, "ldb": ldb,
        "panel": panel, "m": m, "n": n,
        "batch": batch_starts(e, [a.batch, b_batch, c.batch, *[s.batch for s in epilogue.sides]], n_batch),
        "n_batch": n_batch, "mb": mb, "nb": nb, "ub": ub,
    }  # fmt: skip
    args |= epilogue.args(e)
    blocks = spec.blocks(m, n, n_batch, ub, nb)
    grain = choose_grain(
        e.target, room_of(m), n, steps, tile, room_of(n_batch), room_of(blocks), DType.F32, e.threads
    )  # fmt: skip
    e.command(spec, args, blocks, grain, 2 * m * n * product.taps.size * lanes.ins * n_batch)
