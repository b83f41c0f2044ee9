"""Quantised weights of recurrent layers, packed once; see :mod:`MNN.backends.cpu.recurrence.code_quantized`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from MNN.backends.base.program import Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.products import dot8
from MNN.backends.cpu.recurrence.spec import RecurrenceSpec, group_size
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor


def packed_quantized(e: Emitter, r: Tensor, scales: Tensor | None, spec: RecurrenceSpec, zero: int) -> tuple[Ref, int]:
    """Address of constant i8 weights ``[D, G*H, H]`` as the kernel reads them, and the elements of one direction."""
    data, scale = r.const, None if scales is None else scales.const
    assert data is not None
    keep = None if scales is None else scales.keep
    point = None
    if scale is None:  # the numbers of a state have the zero point ``zero``, and the instructions want them moved
        moves = spec.weights is DType.I8 and not spec.signs
        point = zero + (128 + dot8.moved(e.target, DType.U8) if moves else 0)
    lanes = spec.lanes(e.target)
    shape = spec.vectors, spec.columns, lanes
    key = ("recurrent quantised", id(data), id(scale), point, spec.gates, shape, spec.weights)
    buffer = e.pool.get(
        key,
        lambda: pack_recurrent(data, scale, spec.gates, shape, spec.weights, point).reshape(-1),
        (data, scale, r.keep, keep),
    )
    assert buffer.const is not None
    return Ref(buffer, 0), buffer.const.size // r.shape[0]


def pack_recurrent(
    r: npt.NDArray[np.int8],
    scales: npt.NDArray[np.float32] | None,
    gates: int,
    shape: tuple[int, int, int],
    weights: DType,
    point: int | None = None,
) -> npt.NDArray[np.generic]:
    """``r[D, G*H, H]`` with ``scales[D, G*H]`` in tiles ``[D, tiles, elements]`` of ``weights`` (I8 or F32), zeros past
    the last unit and the last value of the state; ``shape``: vectors and columns of a tile, lanes. ``point``: what the
    sums of columns are multiplied by beforehand, where there are no scales."""
    vectors, columns, lanes = shape
    directions, _, hidden = r.shape
    group, width = group_size(weights), vectors * lanes
    tiles, depth = -(-hidden // width), -(-hidden // group)
    wide = np.zeros((directions, gates, tiles * width, depth * group), np.int8)
    wide[:, :, :hidden, :hidden] = r.reshape(directions, gates, hidden, hidden)
    # direction, gate, tile, vector, lane, step, group -> direction, tile, vector, gate, lane, step, group
    body = wide.reshape(directions, gates, tiles, vectors, lanes, depth, group).transpose(0, 2, 3, 1, 4, 5, 6)
    # -> direction, tile, part, column, lane, step, group -> direction, tile, part, step, column, lane, group
    parted = body.reshape(directions, tiles, -1, columns, lanes, depth, group).transpose(0, 1, 2, 5, 3, 4, 6)
    numbers = np.ascontiguousarray(parted).reshape(directions, tiles, -1)
    head = np.zeros((directions, gates, tiles * width, 2), np.int32)
    head[:, :, :, 0] = wide.sum(-1, dtype=np.int32) * np.int32(1 if point is None else point)
    if scales is not None:
        head[:, :, :hidden, 1] = scales.astype(np.float32).reshape(directions, gates, hidden).view(np.int32)
    heads = head.reshape(directions, gates, tiles, vectors, lanes, 2).transpose(0, 2, 5, 3, 1, 4)
    first = np.ascontiguousarray(heads).reshape(directions, tiles, -1)
    if weights is DType.I8:
        return np.concatenate([first.view(np.int8), numbers], axis=-1)
    return np.concatenate([first.view(np.float32), numbers.astype(np.float32)], axis=-1)


__all__ = ["pack_recurrent", "packed_quantized"]
