"""The command of a product of integers with constant weights, for kernels with tiles of their own."""

from __future__ import annotations

import numpy as np

from MNN.backends.base.program import Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.blocks import choose_blocks, choose_grain
from MNN.backends.cpu.products.operand_access import batch_starts
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.targets.base import Target
from MNN.compiler.bodies import WIDE
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.ir.traced import room_of


def finished_body(product: Product) -> Body | None:
    """The epilogue of whole sums, at least a conversion where results are of another type."""
    body, c = product.epilogue.body, product.c
    if body is not None or WIDE.get(DType.I32, DType.I32) is c.dtype:
        return body
    return body_of([DType.I32], lambda b, v: b.cast(v, c.dtype))


def emit_packed(
    e: Emitter,
    product: Product,
    weights: Weights,
    spec: ContractSpec,
    depth: int,
    blocks: tuple[Target, tuple[int, int]],
) -> None:
    """Emits the product by the kernel ``spec``, with ``depth`` products of a tap for each sum; ``blocks``: the target
    and the tile, in its vectors, that rows and columns are dealt out for."""
    a, c, epilogue, m, n, n_batch = (
        product.a, product.c, product.epilogue, product.m, product.n, product.batches
    )  # fmt: skip
    target, tile = blocks
    taps = np.tile(product.taps, weights.parts)
    if spec.byte_pairs:
        b_ref, ldb, panel, b_batch = weights.packed_in_pairs(e, spec.nr(e.target), n_batch, a.dtype, spec.light)
    else:
        b_ref, ldb, panel, b_batch = weights.packed(e, spec.nr(e.target), n_batch, a.dtype)
    steps = taps.size * -(-depth // weights.group)
    mb, nb, ub = choose_blocks(
        target, room_of(m), n, steps, e.threads, tile, DType.F32, True, c.dtype.size % DType.I32.size
    )
    args: dict[str, int | Ref] = {
        "a": e.ref(a.place, a.dtype), "b": b_ref, "c": e.ref(c.place, c.dtype), "rows_a": e.offsets(a.table),
        "rows_c": e.offsets(c.table), "taps": e.offsets(taps), "n_taps": taps.size, "k": product.k, "ldb": ldb,
        "panel": panel, "m": m, "n": n,
        "batch": batch_starts(e, [a.batch, b_batch, c.batch, *[s.batch for s in epilogue.sides]], n_batch),
        "n_batch": n_batch, "mb": mb, "nb": nb, "ub": ub,
    }  # fmt: skip
    args |= epilogue.args(e)
    count = spec.blocks(m, n, n_batch, ub, nb)
    grain = choose_grain(
        target, room_of(m), n, steps, tile, room_of(n_batch), room_of(count), DType.F32, e.threads
    )  # fmt: skip
    e.command(spec, args, count, grain, 2 * m * n * product.taps.size * depth * n_batch)


__all__ = ["emit_packed", "finished_body"]
