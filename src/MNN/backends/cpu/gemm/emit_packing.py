"""Packing the right side of a product while the program runs: once per matrix, not once per block of rows."""

from __future__ import annotations

import dataclasses

import numpy as np

from MNN.backends.base.program import Buffer, Command, Place, Ref
from MNN.backends.cpu.codegen.tables import batch_record
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.loops.emit_elementwise import emit_fill
from MNN.backends.cpu.packing.bf16 import Part, pack_dot2, pair_steps
from MNN.backends.cpu.packing.filters import columns_innermost
from MNN.backends.cpu.packing.weights import Weights, matrix_starts
from MNN.backends.cpu.products.dot import DOT2
from MNN.compiler import strides as st
from MNN.compiler.layout import natural
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements


def stand_in(tensor: Tensor) -> Place:
    """A row-major place that does not exist, for a product to be written as if its right side lay there."""
    return Place(Buffer(0), 0, st.dense(tensor.shape, natural(tensor.rank)))


def pack_columns(e: Emitter, tensor: Tensor, place: Place, nr: int) -> tuple[Buffer, int]:
    """Copies matrices ``[..., K, N]`` into panels of ``nr`` columns (see ``contract_cost.pack_b``), zeros past N.

    Gives the buffer and the elements of one packed matrix; matrices follow one another in row-major order.
    """
    *outer, k, n = tensor.shape
    size = -(-n // nr) * k * nr
    packed = e.allocate(tensor.dtype, (elements(outer), size), (0, 1)).buffer
    _copy_panels(e, tensor, n, place, packed, nr)
    with e.elsewhere():  # other sizes have several panels and a cut one, or one alone
        for other in (2 * nr + nr // 2, nr // 2):
            _copy_panels(e, tensor, other, place, packed, nr)
    return packed, size


def _copy_panels(e: Emitter, tensor: Tensor, n: int, place: Place, packed: Buffer, nr: int) -> None:
    """Copies the first ``n`` columns of matrices, and zeros behind them."""
    *outer, k, _ = tensor.shape
    panels, whole = -(-n // nr), n // nr
    lead = tuple(panels * k * nr * s for s in st.dense(outer, natural(len(outer))))
    steps, (row, column) = place.strides[:-2], place.strides[-2:]
    for first, count, width in ((0, whole, nr), (whole, panels - whole, n - whole * nr)):
        if count:
            source = Place(place.buffer, place.offset + first * nr * column, (*steps, nr * column, row, column))
            to = Place(packed, first * k * nr, (*lead, k * nr, nr, 1))
            e.copy(source, to, (*outer, count, k, width), tensor.dtype)
    if whole < panels:
        rest = Place(packed, whole * k * nr + n - whole * nr, (*lead, nr, 1))
        emit_fill(e, 0, rest, (*outer, k, panels * nr - n), tensor.dtype)


def pack_each_run(e: Emitter, weights: Weights, nr: int, n_batch: int) -> tuple[Ref, int, int, np.ndarray]:
    """Address, ldb, panel and batch offsets of a right side that is computed at run time, copied into panels of ``nr``
    columns (:func:`MNN.backends.cpu.products.register_tiles.pack_b`) by commands in front of the product."""
    if weights.group == DOT2:
        return _pack_pairs_each_run(e, weights, nr, n_batch)
    tensor, place = weights.tensor, e.place(weights.tensor)
    rows: tuple[int, ...]
    row_steps: tuple[int, ...]
    to_rows: tuple[int, ...]
    if weights.conv is None:
        *outer, k, n = tensor.shape
        *lead, row, column = place.strides
        rows, row_steps, to_rows = (k,), (row,), (nr,)
    else:
        kernel, per_in, n, groups = weights.conv
        column, channel, *taps = place.strides
        outer, lead, k = [groups], [n * column], per_in * elements(kernel)
        rows, row_steps = (*kernel, per_in), (*taps, channel)
        to_rows = tuple(nr * s for s in st.dense(rows, natural(len(rows))))
    panels, whole = -(-n // nr), n // nr
    size = panels * k * nr
    groups_of = 0 if weights.conv is None else weights.conv[3]
    starts = matrix_starts(e, tensor, groups_of, weights.outer, size, n_batch)
    key = tensor, ((-2, nr, k, n, weights.conv is None), 0)  # several products may share it, the steps of a sequence
    if key in e.copies:
        return Ref(e.copies[key].buffer, 0), nr, k * nr, starts
    e.copies[key] = e.allocate(tensor.dtype, (elements(outer), size), (0, 1))
    packed = e.copies[key].buffer
    ahead = tuple(size * s for s in st.dense(outer, natural(len(outer))))
    for first, count, width in ((0, whole, nr), (whole, panels - whole, n - whole * nr)):
        if count:
            begin = place.offset + first * nr * column
            source = Place(place.buffer, begin, (*lead, nr * column, *row_steps, column))
            to = Place(packed, first * k * nr, (*ahead, k * nr, *to_rows, 1))
            e.copy(source, to, (*outer, count, *rows, width), tensor.dtype)
    if whole < panels:
        rest = Place(packed, whole * k * nr + n - whole * nr, (*ahead, nr, 1))
        emit_fill(e, 0, rest, (*outer, k, panels * nr - n), tensor.dtype)
    return Ref(packed, 0), nr, k * nr, starts


def _pack_pairs_each_run(e: Emitter, weights: Weights, nr: int, n_batch: int) -> tuple[Ref, int, int, np.ndarray]:
    """The same in pairs of neighbouring bf16 along the sum."""
    tensor = weights.tensor
    if weights.conv is None:
        place = e.in_order(tensor, natural(tensor.rank), lambda pl: pl.strides[-1] == 1)
        *outer, k, n = tensor.shape
        *lead, channel, column = place.strides
        taps = [(1, 0)]
    else:
        place = columns_innermost(e, tensor)
        kernel, k, n, groups = weights.conv
        column, channel, *steps = place.strides
        outer, lead, taps = [groups], [n * column], list(zip(kernel, steps, strict=True))
    panels, whole = -(-n // nr), n // nr
    depth = pair_steps(weights.run, elements([count for count, _ in taps]) * k // weights.run)
    size = panels * depth * nr
    packed = e.allocate(DType.BF16, (elements(outer), DOT2 * size), (0, 1)).buffer
    ahead = [size * s for s in st.dense(outer, natural(len(outer)))]
    batches = list(zip(outer, lead, ahead, strict=True))
    parts: list[Part] = []
    for first, count, width in ((0, whole, nr), (whole, panels - whole, n - whole * nr)):
        axes = [*batches, (count, nr * column, depth * nr), (width, column, 1)]
        parts.append((first * nr * column, first * depth * nr, axes))
    pack_dot2(e, place, DType.BF16, Place(packed, 0, ()), parts, (k, channel), taps, weights.run, nr)
    if whole < panels:
        rest = Place(packed, whole * depth * nr + n - whole * nr, (*ahead, nr, 1))
        emit_fill(e, 0, rest, (*outer, depth, panels * nr - n), DType.U32)
    groups_of = 0 if weights.conv is None else weights.conv[3]
    starts = matrix_starts(e, tensor, groups_of, weights.outer, DOT2 * size, n_batch)
    return Ref(packed, 0), DOT2 * nr, DOT2 * depth * nr, starts


def with_packed(e: Emitter, command: Command, tensor: Tensor, imagined: Place, place: Place) -> Command | None:
    """The product that was written for the ``imagined`` right side, reading a packed one; None when it cannot.

    Emits the packing of the tensor, which lies at ``place``.
    """
    kernel, b, table = command.kernel, command.args.get("b"), command.args.get("batch")
    others = [v for name, v in command.args.items() if name != "b" and isinstance(v, Ref)]
    if (
        not isinstance(kernel, ContractSpec)
        or kernel.b_packed
        or not isinstance(b, Ref)
        or b != Ref(imagined.buffer, 0)
        or not isinstance(table, Ref)
        or table.buffer.const is None
        or any(ref.buffer is imagined.buffer for ref in others)
    ):
        return None
    k, n = tensor.shape[-2:]
    nr = kernel.nr(e.target)
    buffer, size = pack_columns(e, tensor, place, nr)
    offsets = table.buffer.const
    batch = np.array(offsets.reshape(-1, offsets.shape[-1]))
    right = batch_record(len(kernel.operands)).index("b")
    batch[:, right] = batch[:, right] // (k * n) * size
    args = {**command.args, "b": Ref(buffer, 0), "ldb": nr, "panel": k * nr, "batch": e.table(batch)}
    return dataclasses.replace(command, kernel=dataclasses.replace(kernel, b_packed=True), args=args)
