"""Products of bytes whose columns are an odd number of half vectors (:mod:`MNN.backends.cpu.gemm.row_pairs`)."""

from __future__ import annotations

from MNN.backends.base.candidates import Candidate
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.emit_gemm import last_steps
from MNN.backends.cpu.gemm.emit_packed import emit_packed, finished_body
from MNN.backends.cpu.gemm.row_pairs import choose_pairs, pairs_cycles, shared_halves
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.product import Product
from MNN.ir.dtype import DType
from MNN.ir.traced import OpenSize, room_of

_NAME = "rows in pairs"


@contraction_algorithm(_NAME, rank=1)
def pair_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """The product with rows that share a vector, where columns leave half of one."""
    product, weights = work.product, work.weights
    k, n = product.k, product.n
    if weights.group != DOT4 or weights.tensor.const is None or isinstance(k, OpenSize) or isinstance(n, OpenSize):
        return []
    if k % DOT4 or finished_body(product) is None:
        return []
    steps = product.taps.size * weights.parts * (k // DOT4)
    tile = choose_pairs(e.target, n, steps)
    if tile is None or room_of(product.m) < tile[0]:
        return []
    cycles = room_of(product.batches) * pairs_cycles(e.target, room_of(product.m), n, steps, tile)
    return [Candidate(_NAME, cycles, lambda: _emit(e, product, weights, tile))]


def _emit(e: Emitter, product: Product, weights: Weights, tile: tuple[int, int]) -> None:
    body, epilogue = finished_body(product), product.epilogue
    mr, nv = tile
    spec = ContractSpec.of(
        product.a.dtype, weights.dtype, DType.I32, product.c.dtype, mr, nv, True, body, epilogue.kinds, weights.group,
        beside=last_steps(e.target, product, weights, body), fits=epilogue.fits, rows_in_pairs=True,
    )  # fmt: skip
    emit_packed(e, product, weights, spec, product.k, (e.target.narrowed(), (mr, shared_halves(nv))))
