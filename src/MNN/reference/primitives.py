"""The meaning of every primitive, in numpy. This is the reference that kernels and rewrites are checked against."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.errors import MISFITS, RunError
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.quant import QuantizedArray
from MNN.reference import scalar as reference_scalar
from MNN.reference.linear_attention import causal_convolution, linear_attention
from MNN.reference.paged import cache_write, paged_attention
from MNN.reference.recurrent import recurrence

Types = Sequence[tuple[DType, tuple[int, ...]]]
Arrays = Sequence[np.ndarray]


def evaluate(prim: p.Prim, arrays: Arrays, types: Types) -> list[np.ndarray]:
    """The outputs of a primitive for these inputs; ``types`` are the outputs' dtypes and shapes."""
    try:
        with np.errstate(all="ignore"):
            results = MEANING[type(prim)](prim, arrays, types)
        return [np.asarray(r).astype(d.numpy, copy=False) for r, (d, _) in zip(results, types, strict=True)]
    except MISFITS as error:  # not enough memory, or a host function met numbers it was not made for
        sizes = " and ".join(f"{d.value}{list(s)}" for d, s in types)
        what = f"{type(error).__name__}: {error}"
        raise RunError(f"{prim.origin}: its result {sizes} cannot be computed ({what}); check its inputs") from error


def _reshape(prim: p.Prim, x: Arrays, types: Types) -> Arrays:
    return [x[0].reshape(types[0][1])]


def _permute(prim: p.Permute, x: Arrays, types: Types) -> Arrays:
    return [x[0].transpose(prim.perm)]


def _slice(prim: p.Slice, x: Arrays, types: Types) -> Arrays:
    key: list[slice] = []
    repeated = x[0]
    for axis, (start, step, count) in enumerate(zip(prim.starts, prim.steps, types[0][1], strict=True)):
        if step or count < 2:
            end = start + step * count  # below 0: all there is
            key.append(slice(start, end if end >= 0 else None, step or 1) if count > 1 else slice(start, start + count))
        else:
            repeated = np.take(repeated, [start] * count, axis=axis)
            key.append(slice(None))
    return [repeated[tuple(key)].copy()]


def _expand(prim: p.Prim, x: Arrays, types: Types) -> Arrays:
    return [np.broadcast_to(x[0], types[0][1])]


def _pad(prim: p.Pad, x: Arrays, types: Types) -> Arrays:
    out = np.full(types[0][1], prim.value, dtype=x[0].dtype)
    out[tuple(slice(a, a + d) for a, d in zip(prim.low, x[0].shape, strict=True))] = x[0]
    return [out]


def _concat(prim: p.Concat, x: Arrays, types: Types) -> Arrays:
    return [np.concatenate(x, axis=prim.axis)]


def _map(prim: p.Map, x: Arrays, types: Types) -> Arrays:
    outs = reference_scalar.evaluate(prim.body, list(x))
    return [np.broadcast_to(o, shape) for o, (_, shape) in zip(outs, types, strict=True)]


def _wide(x: np.ndarray) -> np.ndarray:
    """f16 and bf16 are accumulated in f32."""
    return x.astype(np.float32) if DType.of(x) in (DType.F16, DType.BF16) else x


_REDUCE: dict[str, Callable[..., np.ndarray]] = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


def _reduce(prim: p.Reduce, x: Arrays, types: Types) -> Arrays:
    wide = _wide(x[0])
    if wide.size == 0 and prim.op in ("max", "min"):
        return [np.full(types[0][1], _extreme(wide.dtype, lowest=prim.op == "max"), dtype=wide.dtype)]
    kwargs = {"dtype": wide.dtype} if prim.op in ("sum", "prod") else {}
    return [_REDUCE[prim.op](wide, axis=prim.axes, keepdims=True, **kwargs)]


def _extreme(dtype: np.dtype[np.generic], lowest: bool) -> float | int | bool:
    """The neutral element of max (lowest) or min."""
    if dtype.kind == "b":
        return not lowest
    if dtype.kind in "iu":
        info = np.iinfo(dtype.name)
        return info.min if lowest else info.max
    return -np.inf if lowest else np.inf


def _argreduce(prim: p.ArgReduce, x: Arrays, types: Types) -> Arrays:
    find = np.argmax if prim.op.startswith("argmax") else np.argmin
    data = _wide(x[0])
    if prim.op.endswith("_last"):
        flipped = find(np.flip(data, prim.axis), axis=prim.axis, keepdims=True)
        return [data.shape[prim.axis] - 1 - flipped]
    return [find(data, axis=prim.axis, keepdims=True)]


def _accumulator(types: Types) -> np.dtype[np.generic]:
    dtype = types[0][0]
    return (DType.F32 if dtype in (DType.F16, DType.BF16) else dtype).numpy


def _matmul(prim: p.MatMul, x: Arrays, types: Types) -> Arrays:
    acc = _accumulator(types)
    return [np.matmul(x[0].astype(acc, copy=False), x[1].astype(acc, copy=False))]


def _compressed(prim: p.CompressedMatMul, x: Arrays, types: Types) -> Arrays:
    shape = (x[1].shape[0], x[0].shape[-1])
    weight = QuantizedArray(x[1], x[2], x[3] if len(x) > 3 else None, prim.width, shape, prim.width)
    return [np.matmul(_wide(x[0]), weight.dequantize().T)]


def _routed(prim: p.RoutedMatMul, x: Arrays, types: Types) -> Arrays:
    shape = types[0][1]
    rows = np.broadcast_to(_wide(x[0]), (*shape[:-1], x[0].shape[-1])).reshape(-1, x[0].shape[-1])
    index = np.broadcast_to(x[1], shape[:-1]).reshape(-1)
    if index.size and not 0 <= int(index.min()) <= int(index.max()) < prim.count:
        raise RunError(f"an index is outside 0..{prim.count - 1}")
    matrices = _wide(x[2])
    if prim.width:
        size = (x[2].shape[0], x[0].shape[-1])
        held = QuantizedArray(x[2], x[3], x[4] if len(x) > 4 else None, prim.width, size, prim.width)
        matrices = held.dequantize()
    each = matrices.reshape(prim.count, shape[-1], -1)
    out = np.zeros((len(rows), shape[-1]), rows.dtype)
    for chosen in np.unique(index):
        here = index == chosen
        out[here] = np.matmul(rows[here], each[chosen].T)
    return [out.reshape(shape)]


def _windows(
    x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], out: Sequence[int]
) -> np.ndarray:
    """A view ``[N, C, out..., kernel...]`` of a padded input, which may reach beyond the last window."""
    spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
    axes = tuple(range(2, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(x, spans, axis=axes)
    places = tuple(slice(0, (n - 1) * s + 1, s) for s, n in zip(strides, out, strict=True))
    pick = places + tuple(slice(None, None, d) for d in dilations)
    index = (slice(None), slice(None), *pick)
    found: np.ndarray = view[index]
    return found


def _conv(prim: p.Conv, x: Arrays, types: Types) -> Arrays:
    acc = _accumulator(types)
    data, weight, groups = x[0].astype(acc, copy=False), x[1].astype(acc, copy=False), prim.groups
    view = _windows(data, weight.shape[2:], prim.strides, prim.dilations, types[0][1][2:])
    n, spatial = data.shape[0], types[0][1][2:]
    per_in, per_out, k = weight.shape[1], weight.shape[0] // groups, weight.ndim - 2
    out = np.empty(types[0][1], dtype=acc)
    # [N, C, out..., kernel...] -> [N, out..., C, kernel...], a matrix per group
    order = (0, *range(2, 2 + k), 1, *range(2 + k, 2 + 2 * k))
    for g in range(groups):
        part = view[:, g * per_in : (g + 1) * per_in].transpose(order)
        rows = part.reshape(n * int(np.prod(spatial)), per_in * int(np.prod(weight.shape[2:])))
        product = rows @ weight[g * per_out : (g + 1) * per_out].reshape(per_out, -1).T
        out[:, g * per_out : (g + 1) * per_out] = np.moveaxis(product.reshape(n, *spatial, per_out), -1, 1)
    return [out]


def _window(prim: p.Window, x: Arrays, types: Types) -> Arrays:
    view = _windows(_wide(x[0]), prim.kernel, prim.strides, prim.dilations, types[0][1][2:])
    axes = tuple(range(x[0].ndim, view.ndim))
    return [_REDUCE[prim.op](view, axis=axes)]


def _address(
    data: np.ndarray, indices: Arrays, indexed: Sequence[int], walk: Sequence[int], shape: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """Index arrays (broadcastable to ``shape``) for every dimension of ``data``; negatives wrapped, range checked."""
    where: list[np.ndarray] = [np.zeros(0)] * data.ndim
    for d, index in zip(indexed, indices, strict=True):
        size = data.shape[d]
        wrapped = np.where(index < 0, index + size, index)
        if wrapped.size and (wrapped.min() < 0 or wrapped.max() >= size):
            raise RunError(
                f"an index is outside [{-size}, {size - 1}], the range of dimension {d} of {list(data.shape)}"
            )
        where[d] = wrapped
    for d, axis in enumerate(walk):
        if axis >= 0:
            line = [1] * len(shape)
            line[axis] = shape[axis]
            where[d] = np.arange(shape[axis]).reshape(line)
    return tuple(where)


def _gather(prim: p.Gather, x: Arrays, types: Types) -> Arrays:
    shape = types[0][1]
    if x[0].ndim == 0 or 0 in shape:
        return [np.broadcast_to(x[0], shape) if 0 not in shape else np.empty(shape, x[0].dtype)]
    return [np.broadcast_to(x[0][_address(x[0], x[1:], prim.indexed, prim.walk, shape)], shape)]


_SCATTER: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter(prim: p.Scatter, x: Arrays, types: Types) -> Arrays:
    out, updates = x[0].copy(), x[1]
    if updates.size == 0:
        return [out]
    if out.ndim == 0:
        return [
            updates.reshape(-1)[-1].reshape(())
            if prim.op == "set"
            else _SCATTER[prim.op].reduce(updates, None, initial=out)
        ]
    where = np.broadcast_arrays(*_address(out, x[2:], prim.indexed, prim.walk, updates.shape), np.empty(updates.shape))[
        :-1
    ]
    if prim.op == "set":
        # numpy does not promise which of several writes to one place wins; flat order makes it the last
        flat = np.ravel_multi_index(tuple(w.reshape(-1) for w in where), out.shape)
        reverse, first = np.unique(flat[::-1], return_index=True)
        out.reshape(-1)[reverse] = updates.reshape(-1)[::-1][first]
    elif DType.of(out) in (DType.F16, DType.BF16):
        wide = out.astype(np.float32)
        _SCATTER[prim.op].at(wide, where, updates.astype(np.float32))
        out = wide.astype(out.dtype)
    else:
        _SCATTER[prim.op].at(out, where, updates)
    return [out]


_SCAN: dict[str, np.ufunc] = {**_SCATTER}


def _scan(prim: p.Scan, x: Arrays, types: Types) -> Arrays:
    data = np.flip(_wide(x[0]), prim.axis) if prim.reverse else _wide(x[0])
    out = _SCAN[prim.op].accumulate(data, axis=prim.axis, dtype=data.dtype)
    if prim.exclusive and out.shape[prim.axis]:
        neutral: float | int | bool = {"add": 0, "mul": 1}.get(prim.op, 0)
        if prim.op in ("max", "min"):
            neutral = _extreme(data.dtype, lowest=prim.op == "max")
        out = np.roll(out, 1, axis=prim.axis)
        out[(slice(None),) * prim.axis + (0,)] = neutral
    return [np.flip(out, prim.axis) if prim.reverse else out]


def _topk(prim: p.TopK, x: Arrays, types: Types) -> Arrays:
    order = order_of(x[0], prim.axis, prim.largest)
    first = np.take(order, np.arange(types[0][1][prim.axis]), axis=prim.axis)
    return [np.take_along_axis(x[0], first, prim.axis), first]


def order_of(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Positions that sort ``x`` along an axis; equals keep their order, NaN counts as the largest."""
    x = _wide(x)
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    flipped = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return np.asarray(x.shape[axis] - 1 - flipped)


def _host(prim: p.Host, x: Arrays, types: Types) -> Arrays:
    return list(prim.fn(x))


MEANING: dict[type[p.Prim], Callable[..., Arrays]] = {
    p.Reshape: _reshape,
    p.Permute: _permute,
    p.Slice: _slice,
    p.Expand: _expand,
    p.Pad: _pad,
    p.Concat: _concat,
    p.Map: _map,
    p.Reduce: _reduce,
    p.ArgReduce: _argreduce,
    p.MatMul: _matmul,
    p.CompressedMatMul: _compressed,
    p.RoutedMatMul: _routed,
    p.Conv: _conv,
    p.Window: _window,
    p.Gather: _gather,
    p.Scatter: _scatter,
    p.TopK: _topk,
    p.Scan: _scan,
    p.Recurrence: recurrence,
    p.CacheWrite: cache_write,
    p.PagedAttention: paged_attention,
    p.CausalConvolution: causal_convolution,
    p.LinearAttention: linear_attention,
    p.Host: _host,
}
"""What computes each primitive from itself, its operands and the types of its results; numpy may warn."""
