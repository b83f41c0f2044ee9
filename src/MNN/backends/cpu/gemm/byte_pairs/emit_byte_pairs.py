"""Products of bytes with constant weights where sums of pairs saturate
(:mod:`MNN.backends.cpu.packing.byte_pairs`)."""

from __future__ import annotations

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import LIGHT_ROWS, ContractSpec
from MNN.backends.cpu.gemm.emit_packed import emit_packed, finished_body
from MNN.backends.cpu.packing.byte_pairs import EIGHT, multiplies_pairs, tells_little
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.products.register_tiles import contract_cycles
from MNN.ir.dtype import DType
from MNN.ir.traced import OpenSize, room_of

_NAME = "bytes in pairs"
_STEP = 1.5
"""What a step of four products takes beside one of two of 16 bits, which tiles' costs are meant for: 64 GMAC/s of these
at 98 rows, 256 channels and columns, of bytes 78 with weights of 8 bits for each channel, 91 to 97 with 7 bits."""
_WIDE, _NARROW = (4, 2), (6, 1)
"""The tiles: sums, two rows of weights, the ones that pairs are multiplied by and values of A are in 16 registers."""
_OF_ONE = 1.2
"""What a vector's products take in the second (1152 deep: 73 GMAC/s, in the first 81)."""

_LEAST_PANELS = 4
"""Panels of columns from which on values of A are looked at."""
_SOME_PANELS = 4
"""Panels by which it is judged what weights tell."""


@contraction_algorithm(_NAME, rank=1)
def byte_pair_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """The product, where its left side was left in bytes for it."""
    product, weights, rows = work.product, work.weights, room_of(work.product.m)
    k, n = product.k, product.n
    if weights.group != DOT4 or isinstance(k, OpenSize) or isinstance(n, OpenSize):
        return []
    if not multiplies_pairs(e.target, weights.tensor, rows * room_of(product.batches), k, n):
        return []
    steps, tile = product.taps.size * -(-k // DOT4), _tile(-(-n // e.target.lanes(DType.I32)))
    cycles = _STEP * room_of(product.batches) * contract_cycles(e.target, rows, n, steps)
    return [Candidate(_NAME, cycles, lambda: _emit(e, product, weights, tile))]


def _tile(vectors: int) -> tuple[int, int]:
    """Rows and vectors of a tile for so many vectors of columns; the same for all numbers of rows, so that weights are
    packed once."""
    return _NARROW if vectors * _OF_ONE < -(-vectors // 2) * 2 else _WIDE


def _looks(e: Emitter, product: Product, weights: Weights, tile: tuple[int, int]) -> bool:
    """Whether to look at values of A."""
    nr = tile[1] * e.target.lanes(DType.I32)
    if tile[0] != LIGHT_ROWS or weights.run < EIGHT or product.n < _LEAST_PANELS * nr:
        return False
    some = _SOME_PANELS * nr
    return weights.satisfy(
        e, "light", lambda matrix: tells_little(np.ascontiguousarray(matrix[:, :some]), weights.run, nr)
    )


def _emit(e: Emitter, product: Product, weights: Weights, tile: tuple[int, int]) -> None:
    body, epilogue = finished_body(product), product.epilogue
    spec = ContractSpec.of(
        product.a.dtype, weights.dtype, DType.I32, product.c.dtype, *tile, True, body, epilogue.kinds, weights.group,
        fits=epilogue.fits, byte_pairs=True, light=_looks(e, product, weights, tile),
    )  # fmt: skip
    emit_packed(e, product, weights, spec, product.k, (e.target, tile))
