"""The right side of a product: weights packed once when they are constant, else read in place."""

from __future__ import annotations

import numpy as np

from MNN.compiler import strides as st
from MNN.compiler.emit.pairs import pack_pairs, pair_steps
from MNN.compiler.emit.quads import packed_quads, packed_words, signed_parts
from MNN.compiler.emitter import Emitter
from MNN.compiler.order import natural
from MNN.compiler.program import Place, Ref
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.kernels.dot import PAIR
from MNN.kernels.dot8 import QUAD


class Weights:
    """The right side: packed once when constant, else read in place or from a transposed copy.

    ``conv`` is (kernel, channels in and out per group, groups) for convolution weights ``[O, C, kernel...]``; a matrix
    ``[..., K, N]`` otherwise, with ``outer`` the batch extents of the result. ``group`` products are summed at once,
    along runs of ``run`` values of the left side.
    """

    def __init__(
        self,
        tensor: Tensor,
        conv: tuple[st.Ints, int, int, int] | None,
        group: int,
        run: int,
        outer: tuple[int, ...] = (),
    ) -> None:
        self.tensor, self.conv, self.group, self.run, self.outer = tensor, conv, group, run, outer
        self.words = group == PAIR and tensor.dtype.is_int
        self.dtype = DType.I16 if self.words else {PAIR: DType.BF16, QUAD: DType.I8}.get(group, tensor.dtype)
        self.parts = signed_parts(tensor) if group == QUAD else 1

    def packed(self, e: Emitter, nr: int, n_batch: int, a: DType = DType.F32) -> tuple[Ref, int, int, np.ndarray]:
        """Address, ldb, panel and batch offsets of packed constant weights, for a left side of type ``a``; see
        ``contract_cost.pack_b``."""
        data = self.tensor.const
        assert data is not None
        if self.group == QUAD:
            buffer, size, panel = packed_quads(e, self.tensor, self.conv, self.run, self.parts, nr, a)
            return Ref(buffer, 0), nr * QUAD, panel, self._batches(e, size, n_batch)
        if self.words:
            buffer, size, panel = packed_words(e, self.tensor, self.conv, self.run, nr)
            return Ref(buffer, 0), nr * PAIR, panel, self._batches(e, size, n_batch)
        if self.conv is None:
            per_tap, n = self.tensor.shape[-2:]
            batches, taps, channel_step, tap_step, column = elements(self.tensor.shape[:-2]), 1, n, 0, 1
        else:
            kernel, per_tap, n, batches = self.conv
            taps = elements(kernel)
            channel_step, tap_step, column = taps, 1, taps * per_tap
        k, group = taps * per_tap, self.group
        steps = k if group == 1 else pair_steps(self.run, k // self.run)
        panels = -(-n // nr)
        size = panels * steps * nr * group
        key = ("packed", id(data), nr, self.conv, group, self.run if group > 1 else 0)
        buffer, fresh = e.pool.reserve(key, batches * size, self.dtype, (data, self.tensor.keep))
        if fresh:
            base, whole = e.place(self.tensor), n // nr
            parts = []  # whole panels and the cut one: begin in the source, begin in the result, axes
            for first, count, width in ((0, whole, nr), (whole, panels - whole, n - whole * nr)):
                axes = [(batches, n * k, size // group), (count, nr * column, steps * nr), (width, column, 1)]
                parts.append((first * nr * column, first * steps * nr, axes))
            channels, every_tap = (per_tap, channel_step), (taps, tap_step)
            if group == PAIR:
                pack_pairs(e, base, self.tensor.dtype, buffer, parts, channels, every_tap, self.run, nr)
            else:
                inner = [(*channels, nr), (*every_tap, per_tap * nr)]
                for begin, into, outer_axes in parts:
                    shape, frm, to = zip(*outer_axes, *inner, strict=True)
                    e.copy_once(Place(base.buffer, begin, frm), Place(buffer, into, to), shape, self.dtype)
        return Ref(buffer, 0), nr * group, steps * nr * group, self._batches(e, size, n_batch)

    def _batches(self, e: Emitter, size: int, n_batch: int) -> np.ndarray:
        """Where each batch's matrix begins, of matrices of ``size`` elements one after the other."""
        if self.conv is not None:
            outer: tuple[int, ...] = (self.conv[3],)
            strides: tuple[int, ...] = (size,)
        else:
            own = tuple(self.tensor.shape[:-2])
            per_matrix = tuple(size * s for s in st.dense(own, natural(len(own))))
            outer, strides = self.outer, st.broadcast_strides(own, per_matrix, self.outer) if self.outer else ()
        return _broadcast_batch(e.grid(outer, strides), n_batch)

    def plain(self, e: Emitter, nr: int, n_batch: int, a: DType = DType.F32) -> tuple[Ref, int, int, np.ndarray]:
        """Address, ldb, panel and batch offsets of weights read as rows of contiguous columns."""
        tensor = self.tensor
        if self.conv is not None:
            kernel, per_in, per_out, groups = self.conv
            place, order = e.place(tensor), (*range(2, tensor.rank), 1, 0)
            size = elements(kernel) * per_in
            moved = e.allocate(tensor.dtype, (groups, size, per_out), (0, 1, 2))
            strides = st.dense((per_out, per_in, *kernel), order)
            for g in range(groups):
                part = Place(place.buffer, place.offset + g * per_out * place.strides[0], place.strides)
                to = Place(moved.buffer, g * size * per_out, strides)
                e.copy(part, to, (per_out, *tensor.shape[1:]), tensor.dtype)
            return e.ref(moved, tensor.dtype), per_out, nr, np.arange(groups, dtype=np.int64) * size * per_out
        n = tensor.shape[-1]
        place = e.in_order(tensor, natural(tensor.rank), lambda pl: pl.strides[-1] == 1 or n == 1)
        strides = st.broadcast_strides(tensor.shape[:-2], place.strides[:-2], self.outer) if self.outer else ()
        batch = _broadcast_batch(e.grid(self.outer, strides), n_batch)
        return e.ref(place, tensor.dtype), place.strides[-2] if tensor.shape[-2] > 1 else nr, nr, batch


def _broadcast_batch(table: np.ndarray, n_batch: int) -> np.ndarray:
    return np.broadcast_to(table, (n_batch,)) if table.size == 1 else table
