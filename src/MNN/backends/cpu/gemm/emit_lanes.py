"""Convolutions of integers in small groups, the groups side by side in lanes
(:mod:`MNN.backends.cpu.products.lane_groups`)."""

from __future__ import annotations

from MNN.backends.base.candidates import Candidate
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.emit_packed import emit_packed, finished_body
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.lane_groups import Lanes
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.products.register_tiles import tile_cycles
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
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
    tile, epilogue = _tile(e.target, lanes), product.epilogue
    spec = ContractSpec.of(
        product.a.dtype, weights.dtype, DType.I32, product.c.dtype, *tile, True, finished_body(product), epilogue.kinds,
        weights.group, fits=epilogue.fits, channels=(lanes.ins, lanes.outs),
    )  # fmt: skip
    emit_packed(e, product, weights, spec, lanes.ins, (e.target, tile))
