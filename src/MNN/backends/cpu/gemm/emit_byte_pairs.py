"""Products of bytes with weights most of which are multiplied as bytes where sums of pairs saturate
(:mod:`MNN.backends.cpu.packing.byte_pairs`)."""

from __future__ import annotations

import dataclasses
import functools

from MNN.backends.base.candidates import Candidate
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.emit_packed import emit_packed, finished_body
from MNN.backends.cpu.packing.byte_pairs import taken_in_pairs
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.products.register_tiles import choose_tile, contract_cycles
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.traced import room_of

_NAME = "bytes in pairs"
_FASTER = 0.8
"""Beside groups that are all taken apart in registers, which the plain way is."""
_EVEN_ROWS = 2520
"""Rows that suit all tiles: so one is taken for all sizes of an input, and weights are packed once."""


@contraction_algorithm(_NAME, rank=1)
def byte_pair_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """The product, where it was decided so before its left side was widened."""
    product, weights, rows = work.product, work.weights, room_of(work.product.m)
    if weights.group != DOT4 or not taken_in_pairs(e, weights.tensor, weights.conv is not None, rows):
        return []
    if product.taps.size != 1 or room_of(product.batches) != 1:
        return []
    target, steps = _tiled(e.target), room_of(product.k) // DOT4
    tile = choose_tile(target, min(rows, _EVEN_ROWS), room_of(product.n), steps, DType.F32)
    cycles = _FASTER * contract_cycles(target, rows, room_of(product.n), steps)
    return [Candidate(_NAME, cycles, lambda: _emit(e, product, weights, tile))]


@functools.cache
def _tiled(target: Target) -> Target:
    """The target as tiles are chosen: one register holds the ones that pairs are multiplied by."""
    return dataclasses.replace(target, vector_registers=target.vector_registers - 1)


def _emit(e: Emitter, product: Product, weights: Weights, tile: tuple[int, int]) -> None:
    body, epilogue = finished_body(product), product.epilogue
    spec = ContractSpec.of(
        product.a.dtype, weights.dtype, DType.I32, product.c.dtype, *tile, True, body, epilogue.kinds, weights.group,
        fits=epilogue.fits, byte_pairs=True,
    )  # fmt: skip
    emit_packed(e, product, weights, spec, product.k, (e.target, tile))
