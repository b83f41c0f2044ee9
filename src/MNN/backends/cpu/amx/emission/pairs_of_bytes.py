"""Products of bytes on tiles, as products of pairs: two neighbouring bytes of A take as much memory as a bf16, and two
rows of B do. What is said of elements, rows and steps of bf16 then holds; the unit sums four products instead of two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.backends.cpu.amx.emission.emit_weights import Right
from MNN.backends.cpu.amx.spec import PRODUCTS_OF_BYTES
from MNN.backends.cpu.amx.tiles import has_tiles
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.products.product import Product
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor

BYTES = (DType.U8, DType.I8)


def of_bytes(
    e: Emitter, product: Product, right: Right, window: Window | None
) -> tuple[Product, Right, Window | None] | None:
    """The product in pairs of bytes; None where A's bytes do not come in pairs, B is no constant of bytes, or the
    processor's tiles do not multiply them."""
    a, data, kind = product.a, right.tensor.const, right.tensor.dtype
    dot = PRODUCTS_OF_BYTES.get((a.dtype, kind))
    if dot is None or not has_tiles(e.target, dot) or data is None or e.options.open_sizes or product.k % 2:
        return None
    tables = [_halved(e, t) for t in (a.table, a.batch, product.taps)]
    rows, batch, taps = tables
    if rows is None or batch is None or taps is None:
        return None
    if window is not None:
        if window.channels % 2 or window.image_step % 2 or any(s % 2 for s in window.steps):
            return None
        steps = tuple([s // 2 for s in window.steps])
        window = replace(window, image_step=window.image_step // 2, steps=steps, channels=window.channels // 2)
    halved = replace(product, a=replace(a, rows=rows, batch=batch), taps=taps, k=product.k // 2)
    return halved, _paired(e, right, data, kind), window


def _halved(e: Emitter, table: np.ndarray) -> np.ndarray | None:
    """Offsets in pairs; None where one is odd. Equal grids give one array."""
    return None if (table % 2).any() else e.derived(table, "pairs", lambda t: t // 2)


def _paired(e: Emitter, right: Right, data: np.ndarray, kind: DType) -> Right:
    """B with two rows, of channels that follow each other, as one of 16 bits."""
    axis = data.ndim - 2 if right.conv is None else 1

    def pairs() -> np.ndarray:
        words = np.moveaxis(data, axis, -1).astype(kind.numpy).view(np.uint8).astype(np.uint16)
        both = words[..., ::2] | words[..., 1::2] << 8
        return np.ascontiguousarray(np.moveaxis(both, -1, axis)).view(np.int16)

    buffer = e.pool.get(("pairs of bytes", id(data)), pairs, (data, right.tensor.keep))
    shape = tuple([n // 2 if i == axis else n for i, n in enumerate(data.shape)])
    assert buffer.const is not None
    tensor = Tensor(DType.I16, shape, const=buffer.const.reshape(shape), name=right.tensor.name, keep=buffer)
    if right.conv is None:
        return Right(tensor, None, right.outer, kind)
    kernel, per_in, per_out, groups = right.conv
    return Right(tensor, (kernel, per_in // 2, per_out, groups), right.outer, kind)


__all__ = ["BYTES", "of_bytes"]
