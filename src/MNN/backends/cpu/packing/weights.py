"""The right side of a product: weights packed once when they are constant, else read in place."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import numpy as np

from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.packing.bf16 import pack_dot2, pair_steps
from MNN.backends.cpu.packing.int8 import packed_byte_pairs, packed_dot4, packed_int16, signed_parts
from MNN.backends.cpu.packing.weights24 import LEAST, fits, has_weights24, nbytes, pack_weights24, panel_bytes, pays
from MNN.backends.cpu.products.dot import DOT2
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.product import Product
from MNN.compiler import strides as st
from MNN.compiler.layout import natural
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.schema.files import release


class Preparation(Protocol):
    """What an algorithm does with panels of packed weights before the first run."""

    @property
    def head(self) -> int:
        """Rows before the weights of a panel, which it fills."""

    def whole(self, steps: int) -> int:
        """The depth of a panel for so many ``steps``, with zeros at its end."""

    def emit(self, e: Emitter, panels: Ref, count: int, steps: int, nr: int) -> None:
        """Commands that prepare ``count`` panels of ``nr`` columns, each ``steps`` deep."""


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
        self.words = group == DOT2 and tensor.dtype.is_int
        self.dtype = DType.I16 if self.words else {DOT2: DType.BF16, DOT4: DType.I8}.get(group, tensor.dtype)
        self.parts = signed_parts(tensor) if group == DOT4 else 1

    def packed(
        self, e: Emitter, nr: int, n_batch: int, a: DType = DType.F32, prepared: Preparation | None = None
    ) -> tuple[Ref, int, int, np.ndarray]:
        """Address, ldb, panel and batch offsets of packed constant weights, for a left side of type ``a``; see
        :func:`~MNN.backends.cpu.products.register_tiles.pack_b`. ``prepared``: what else is done with them."""
        data = self.tensor.const
        assert data is not None
        if self.group == DOT4:
            buffer, size, panel = packed_dot4(e, self.tensor, self.conv, self.run, self.parts, nr, a)
            return Ref(buffer, 0), nr * DOT4, panel, self._batches(e, size, n_batch)
        if self.words:
            buffer, size, panel = packed_int16(e, self.tensor, self.conv, self.run, nr)
            return Ref(buffer, 0), nr * DOT2, panel, self._batches(e, size, n_batch)
        transposed = self.conv is None and is_transposed(data)
        if self.conv is None:
            per_tap, n = self.tensor.shape[-2:]
            batches, taps, channel_step, tap_step, column = elements(self.tensor.shape[:-2]), 1, n, 0, 1
            if transposed:
                channel_step, column = 1, per_tap
        else:
            kernel, per_tap, n, batches = self.conv
            taps = elements(kernel)
            channel_step, tap_step, column = taps, 1, taps * per_tap
        k, group = taps * per_tap, self.group
        steps = k if group == 1 else pair_steps(self.run, k // self.run)
        panels = -(-n // nr)
        head = prepared.head if prepared else 0
        high = head + (prepared.whole(steps) if prepared else steps)
        size = panels * high * nr * group
        key = ("packed", id(data), nr, self.conv, group, self.run if group > 1 else 0, head)
        buffer, fresh = e.pool.reserve(key, batches * size, self.dtype, (data, self.tensor.keep))
        if fresh:
            base, whole = as_it_lies(e, self.tensor) if transposed else e.place(self.tensor), n // nr
            parts = []  # whole panels and the cut one: begin in the source, begin in the result, axes
            for first, count, width in ((0, whole, nr), (whole, panels - whole, n - whole * nr)):
                axes = [(batches, n * k, size // group), (count, nr * column, high * nr), (width, column, 1)]
                parts.append((first * nr * column, (first * high + head) * nr, axes))
            channels = per_tap, channel_step
            if group == DOT2:
                joined = self.run // per_tap
                all_taps = [(taps // joined, joined * tap_step), (joined, tap_step)]
                with e.collect() as commands:
                    pack_dot2(e, base, self.tensor.dtype, Place(buffer, 0, ()), parts, channels, all_taps, self.run, nr)
                buffer.setup += commands
            else:
                inner = [(*channels, nr), (taps, tap_step, per_tap * nr)]
                for begin, into, outer_axes in parts:
                    shape, frm, to = zip(*outer_axes, *inner, strict=True)
                    e.copy_once(Place(base.buffer, begin, frm), Place(buffer, into, to), shape, self.dtype)
            if prepared:
                with e.collect() as commands:
                    prepared.emit(e, Ref(buffer, 0), panels, high - head, nr)
                buffer.setup += commands
        return Ref(buffer, 0), nr * group, high * nr * group, self._batches(e, size, n_batch)

    def packed_in_pairs(
        self, e: Emitter, nr: int, n_batch: int, a: DType, light: bool = False
    ) -> tuple[Ref, int, int, np.ndarray]:
        """The same as :meth:`packed` for sums of pairs of bytes; ``light``: values of A are looked at."""
        buffer, size, panel = packed_byte_pairs(e, self.tensor, self.conv, self.run, nr, a, light)
        return Ref(buffer, 0), nr * DOT4, panel, self._batches(e, size, n_batch)

    def taken_once(self, e: Emitter, product: Product) -> bool:
        """Whether they are constants in one product of f32, of one batch and one tap and not within a chain: what
        algorithms other than the plain one need."""
        return self.tensor.const is not None and self.one_matrix(e, product)

    def one_matrix(self, e: Emitter, product: Product, results: Collection[DType] = (DType.F32,)) -> bool:
        """The same of weights that need not be constants; ``results``: types that the result may be stored as."""
        return (
            not e.collecting
            and self.group == 1
            and product.a.dtype is self.dtype is DType.F32
            and product.c.dtype in results
            and not any(side.batch.size != 1 or side.batch.any() for side in product.sides)
            and product.taps.size == 1
            and int(product.taps[0]) == 0
        )

    def mixable(self, e: Emitter) -> bool:
        """Whether constant weights may be multiplied in mixed-up sums, see ``ConstantPool.mixable``."""
        data = self.tensor.const
        assert data is not None
        return e.pool.mixable((e.origin, "mixable", id(data)), data)

    def satisfy(self, e: Emitter, what: str, test: Callable[[np.ndarray], bool]) -> bool:
        """Whether constant weights, as a matrix of one tap and one batch, pass a test; remembered as ``what``."""
        data = self.tensor.const
        assert data is not None
        key = (e.origin, what, id(data))
        found = e.pool.kept_choices.get(key)
        if found is None:
            found = e.pool.kept_choices.setdefault(key, test(self._matrix(data)))
            release(data)  # packing reads it again, when its turn comes
        return bool(found)

    def w24(self, e: Emitter) -> bool:
        """Whether constant weights are read from memory for one row alone, and lose nothing in 24 bits."""
        data = self.tensor.const
        if (
            data is None
            or not has_weights24(e.target)
            or self.tensor.dtype is not DType.F32
            or self.group != 1
            or data.nbytes < LEAST
            or not pays(e.target, e.weights_bytes)
            or (self.conv is not None and elements(self.conv[0]) > 1)
        ):
            return False
        return self.satisfy(e, "lean", fits)

    def _matrix(self, data: np.ndarray) -> np.ndarray:
        """``[K, N]``, of one tap and one batch."""
        return data.reshape(-1, data.shape[-1]) if self.conv is None else data.reshape(data.shape[0], -1).T

    def packed_weights24(self, e: Emitter, nr: int) -> tuple[Ref, int]:
        """Address and panel in bytes of weights in 24 bits."""
        data = self.tensor.const
        assert data is not None
        matrix = self._matrix(data)
        key = ("lean", id(data), nr, self.conv is None)
        (k, n), source = matrix.shape, (data, self.tensor.keep)
        buffer, fresh = e.pool.reserve(key, nbytes(k, n, nr), DType.U8, source)
        if fresh:
            assert buffer.const is not None
            pack_weights24(matrix, nr, buffer.const)
            e.pool.filled(buffer)
        return Ref(buffer, 0), panel_bytes(k, nr)

    def _batches(self, e: Emitter, size: int, n_batch: int) -> np.ndarray:
        groups = 0 if self.conv is None else self.conv[3]
        return matrix_starts(e, self.tensor, groups, self.outer, size, n_batch)

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


def matrix_starts(
    e: Emitter, tensor: Tensor, groups: int, outer: tuple[int, ...], size: int, n_batch: int
) -> np.ndarray:
    """Where each batch's matrix begins, of matrices of ``size`` elements or bytes one after the other: those of a
    convolution's ``groups``, or of a ``tensor`` ``[..., K, N]`` where there are none."""
    if groups:
        return _broadcast_batch(e.grid((groups,), (size,)), n_batch)
    own = tuple(tensor.shape[:-2])
    per_matrix = tuple(size * s for s in st.dense(own, natural(len(own))))
    strides = st.broadcast_strides(own, per_matrix, outer) if outer else ()
    return _broadcast_batch(e.grid(outer, strides), n_batch)


def is_transposed(data: np.ndarray) -> bool:
    """Whether a matrix is a transposed view of one that lies in order, such as weights ``[N, K]`` of a file."""
    return data.ndim == 2 and not data.flags.c_contiguous and data.T.flags.c_contiguous


def as_it_lies(e: Emitter, tensor: Tensor) -> Place:
    """Such a matrix where it is, without a copy in its own order."""
    data = tensor.const
    assert data is not None
    buffer = e.pool.get(("turned", id(data)), lambda: data.T.reshape(-1), (data, tensor.keep))
    return Place(buffer, 0, (1, tensor.shape[-2]))


def _broadcast_batch(table: np.ndarray, n_batch: int) -> np.ndarray:
    return np.broadcast_to(table, (n_batch,)) if table.size == 1 else table
