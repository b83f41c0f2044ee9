"""Products of bytes on tiles, as products of pairs: two neighbouring bytes of A take as much memory as a bf16, and two
rows of B do. What is said of elements, rows and steps of bf16 then holds; the unit sums four products instead of two.

An odd number of channels (a picture's three) has pairs along lines of pixels, where windows move by an even number of
bytes: a run of taps ends with a byte that is not its own, and meets a weight of zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from MNN.backends.cpu.amx.emission.emit_weights import Right
from MNN.backends.cpu.amx.lines import Lines, has_lines, lines_of
from MNN.backends.cpu.amx.spec import PRODUCTS_OF_BYTES
from MNN.backends.cpu.amx.tiles import has_tiles
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.products.product import Product
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor

BYTES = (DType.U8, DType.I8)


@dataclass(frozen=True)
class Paired:
    """A product in pairs of bytes; with ``lines`` its rows are there along these alone."""

    product: Product
    right: Right
    window: Window | None
    lines: Lines | None = None


def of_bytes(e: Emitter, product: Product, right: Right, window: Window | None) -> Paired | None:
    """The product in pairs of bytes; None where A's bytes do not come in pairs, B is no constant of bytes, or the
    processor's tiles do not multiply them."""
    a, data, kind = product.a, right.tensor.const, right.tensor.dtype
    dot = PRODUCTS_OF_BYTES.get((a.dtype, kind))
    if dot is None or not has_tiles(e.target, dot) or data is None or e.options.open_sizes:
        return None
    return _of_pixels(e, product, right, window) or _of_lines(e, product, right, window)


def _of_pixels(e: Emitter, product: Product, right: Right, window: Window | None) -> Paired | None:
    a = product.a
    if product.k % 2:
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
    return Paired(halved, _paired(e, right), window)


def _of_lines(e: Emitter, product: Product, right: Right, window: Window | None) -> Paired | None:
    if window is None or product.batches > 1 or not has_lines(window):
        return None
    lines = lines_of(window)
    runs = lines.runs
    if runs.image_step % 2 or any(s % 2 for s in runs.steps):
        return None
    half = replace(
        runs,
        image_step=runs.image_step // 2,
        steps=tuple([s // 2 for s in runs.steps]),
        channels=-(-runs.channels // 2),
    )
    return Paired(product, _paired_runs(e, right), None, Lines(half, -(-lines.length // 2)))


def _halved(e: Emitter, table: np.ndarray) -> np.ndarray | None:
    """Offsets in pairs; None where one is odd. Equal grids give one array."""
    return None if (table % 2).any() else e.derived(table, "pairs", lambda t: t // 2)


def _paired(e: Emitter, right: Right) -> Right:
    """B with two rows, of channels that follow each other, as one of 16 bits."""
    data, kind = _constant(right), right.tensor.dtype
    axis = data.ndim - 2 if right.conv is None else 1
    shape = tuple([n // 2 if i == axis else n for i, n in enumerate(data.shape)])
    tensor = _words(e, right, "pairs of bytes", shape, lambda: _joined(data, axis, kind))
    if right.conv is None:
        return Right(tensor, None, right.outer, kind)
    kernel, per_in, per_out, groups = right.conv
    return Right(tensor, (kernel, per_in // 2, per_out, groups), right.outer, kind)


def _paired_runs(e: Emitter, right: Right) -> Right:
    """The same of whole runs of taps along lines, with a row of zeros where one ends with half a pair."""
    data, kind = _constant(right), right.tensor.dtype
    results, channels, *kernel = data.shape
    run, lines = kernel[-1] * channels, math.prod(kernel[:-1])

    def pairs() -> np.ndarray:
        rows = np.moveaxis(data, (0, 1), (-1, -2)).reshape(lines, run, results)
        return _joined(np.pad(rows, ((0, 0), (0, run % 2), (0, 0))), 1, kind)

    shape = lines * -(-run // 2), results
    return Right(_words(e, right, "pairs of runs", shape, pairs), None, right.outer, kind)


def _constant(right: Right) -> np.ndarray:
    assert right.tensor.const is not None
    return right.tensor.const


def _joined(data: np.ndarray, axis: int, kind: DType) -> np.ndarray:
    words = np.moveaxis(data, axis, -1).astype(kind.numpy).view(np.uint8).astype(np.uint16)
    both = words[..., ::2] | words[..., 1::2] << 8
    return np.ascontiguousarray(np.moveaxis(both, -1, axis)).view(np.int16)


def _words(e: Emitter, right: Right, what: str, shape: tuple[int, ...], make: Callable[[], np.ndarray]) -> Tensor:
    data, name = _constant(right), right.tensor.name
    buffer = e.pool.get((what, id(data)), make, (data, right.tensor.keep))
    assert buffer.const is not None
    return Tensor(DType.I16, shape, const=buffer.const.reshape(shape), name=name, keep=buffer)


__all__ = ["BYTES", "Paired", "of_bytes"]
