"""The check of lowered programs: every primitive's results have the types and sizes that its operands give.

What primitives mean is in :mod:`MNN.ir.prims`; a program that fails here is a bug of this engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import ENTRIES

_INDICES = (DType.I32, DType.I64)


class ProgramError(AssertionError):
    """A stage of this engine produced a malformed program: a bug here, not a user's mistake."""


def verify_primitives(
    prims: Sequence[Prim], inputs: Sequence[Tensor], outputs: Sequence[Tensor], stage: str, typed: bool = True
) -> None:
    """Checks that every tensor is made once, before its uses, and fits its primitive.

    ``typed``: element types too; they do not agree any more once some tensors are stored in fewer bits. Raises
    :class:`ProgramError` naming ``stage``, the primitive and what is wrong.
    """
    made = set(inputs)
    for prim in prims:
        for tensor in prim.inputs:
            if tensor not in made and tensor.const is None:
                raise _wrong(stage, prim, f"{tensor} is used before it is made")
        for tensor in prim.outputs:
            if tensor in made or tensor.const is not None:
                raise _wrong(stage, prim, f"{tensor} is made twice")
            if any(n < 0 for n in tensor.shape):
                raise _wrong(stage, prim, f"{tensor} has a negative size")
            made.add(tensor)
        try:
            wrong = _RULES[type(prim)](prim)
            if not wrong and typed:
                wrong = _types(prim)
        except (IndexError, ValueError) as error:  # ranks that do not match
            wrong = str(error)
        if wrong:
            raise _wrong(stage, prim, wrong)
    for tensor in outputs:
        if tensor not in made and tensor.const is None:
            raise ProgramError(f"{stage}: the output {tensor} is never made")


def _wrong(stage: str, prim: Prim, wrong: str) -> ProgramError:
    what = f"{type(prim).__name__} of {prim.inputs} to {prim.outputs}"
    return ProgramError(f"{stage}: {what} ({prim.origin}): {wrong}")


def _unlike(prim: Prim, *shapes: Sequence[int]) -> str:
    """What is wrong where the results' shapes are others than these."""
    found = [t.shape for t in prim.outputs]
    return "" if found == [tuple(s) for s in shapes] else f"the results should have the shapes {[*map(list, shapes)]}"


def _reshape(prim: p.Reshape) -> str:
    same = math.prod(prim.inputs[0].shape) == math.prod(prim.outputs[0].shape)
    return "" if same else "it changes the number of elements"


def _permute(prim: p.Permute) -> str:
    x = prim.inputs[0]
    if sorted(prim.perm) != list(range(x.rank)):
        return f"{prim.perm} is no permutation"
    return _unlike(prim, [x.shape[i] for i in prim.perm])


def _slice(prim: p.Slice) -> str:
    counts = prim.outputs[0].shape
    for size, start, step, count in zip(prim.inputs[0].shape, prim.starts, prim.steps, counts, strict=True):
        if count and not (0 <= start < size and 0 <= start + step * (count - 1) < size):
            return f"{count} elements from {start} in steps of {step} are not within {size}"
    return ""


def _expand(prim: p.Expand) -> str:
    pairs = zip(prim.inputs[0].shape, prim.outputs[0].shape, strict=True)
    return "" if all(a in (b, 1) for a, b in pairs) else "only sizes of 1 can be repeated"


def _pad(prim: p.Pad) -> str:
    if min((*prim.low, *prim.high), default=0) < 0:
        return "a border is negative"
    return _unlike(prim, [a + n + b for n, a, b in zip(prim.inputs[0].shape, prim.low, prim.high, strict=True)])


def _concat(prim: p.Concat) -> str:
    shapes = [list(t.shape) for t in prim.inputs]
    whole = [*shapes[0][: prim.axis], sum(s[prim.axis] for s in shapes), *shapes[0][prim.axis + 1 :]]
    for shape in shapes:
        shape[prim.axis] = whole[prim.axis]
    return _unlike(prim, whole) if all(s == whole for s in shapes) else "the parts differ in other dimensions"


def _map(prim: p.Map) -> str:
    if len(prim.body.args) != len(prim.inputs):
        return f"its program takes {len(prim.body.args)} operands"
    shape = np.broadcast_shapes(*[t.shape for t in prim.inputs])
    if not prim.inputs:  # a constant has the size that it is given
        shape = prim.outputs[0].shape
    return _unlike(prim, *[shape] * len(prim.body.outputs))


def _reduced(prim: Prim, axes: Sequence[int]) -> str:
    return _unlike(prim, [1 if i in axes else n for i, n in enumerate(prim.inputs[0].shape)])


def _matmul(prim: p.MatMul) -> str:
    a, b = (t.shape for t in prim.inputs)
    if len(a) != len(b) or a[-1] != b[-2]:
        return "the depths of both sides differ"
    return _unlike(prim, (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1]))


def _compressed(prim: p.CompressedMatMul) -> str:
    x, codes = prim.inputs[0].shape, prim.inputs[1].shape
    if codes[1] != -(-x[-1] * prim.width // 8):
        return f"a row of {x[-1]} numbers of {prim.width} bits has no {codes[1]} bytes"
    return _unlike(prim, (*x[:-1], codes[0]))


def _routed(prim: p.RoutedMatMul) -> str:
    x, index, matrices = (t.shape for t in prim.inputs[:3])
    if prim.inputs[1].dtype not in _INDICES:
        return f"an index is {prim.inputs[1].dtype.value}"
    wide = -(-x[-1] * prim.width // 8) if prim.width else x[-1]
    if len(index) != len(x) - 1 or matrices[0] % prim.count or matrices[1] != wide:
        return f"{prim.count} matrices, one above the other, are not of the shape {list(matrices)}"
    return _unlike(prim, (*np.broadcast_shapes(x[:-1], index), matrices[0] // prim.count))


def _topk(prim: p.TopK) -> str:
    x, found = prim.inputs[0].shape, prim.outputs[0].shape
    fits = found[prim.axis] <= x[prim.axis]
    if not fits or any(a != b for i, (a, b) in enumerate(zip(x, found, strict=True)) if i != prim.axis):
        return "it gives other elements than those along its axis"
    return _unlike(prim, found, found)


def _sliding(prim: Prim, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> str:
    x, out = prim.inputs[0].shape, prim.outputs[0].shape
    for size, count, taps, stride, dilation in zip(x[2:], out[2:], kernel, strides, dilations, strict=True):
        reach = (count - 1) * stride + (taps - 1) * dilation + 1
        if stride < 1 or dilation < 1 or (count and reach > size):
            return f"{count} windows of {taps} (stride {stride}, dilation {dilation}) are not within {size}"
    return ""


def _conv(prim: p.Conv) -> str:
    x, w = (t.shape for t in prim.inputs)
    if prim.groups < 1 or w[1] * prim.groups != x[1] or w[0] % prim.groups:
        return f"its channels are not {prim.groups} groups"
    if prim.outputs[0].shape[:2] != (x[0], w[0]):
        return "the result has other samples or channels"
    return _sliding(prim, w[2:], prim.strides, prim.dilations)


def _window(prim: p.Window) -> str:
    if prim.outputs[0].shape[:2] != prim.inputs[0].shape[:2]:
        return "the result has other samples or channels"
    return _sliding(prim, prim.kernel, prim.strides, prim.dilations)


def _addressed(prim: p.Gather | p.Scatter, indices: Sequence[Tensor], shape: Sequence[int]) -> str:
    data = prim.inputs[0]
    if len(prim.indexed) != len(indices) or len(prim.walk) != data.rank:
        return f"{len(indices)} indices do not address the dimensions {prim.indexed} of {data.rank}"
    for d, axis in enumerate(prim.walk):
        if (axis < 0) != (d in prim.indexed):
            return f"dimension {d} is addressed twice, or not at all"
        if axis >= 0 and shape[axis] > data.shape[d] and 0 not in shape:
            return f"dimension {d} has no {shape[axis]} elements"
    for index in indices:
        if index.dtype not in _INDICES:
            return f"an index is {index.dtype.value}"
        if np.broadcast_shapes(index.shape, tuple(shape)) != tuple(shape):
            return "an index does not broadcast"
    return ""


def _gather(prim: p.Gather) -> str:
    return _addressed(prim, prim.inputs[1:], prim.outputs[0].shape)


def _scatter(prim: p.Scatter) -> str:
    return _addressed(prim, prim.inputs[2:], prim.inputs[1].shape) or _unlike(prim, prim.inputs[0].shape)


def _scan(prim: p.Scan) -> str:
    return _unlike(prim, prim.inputs[0].shape)


def _recurrence(prim: p.Recurrence) -> str:
    given, r = prim.inputs[0].shape, prim.inputs[1].shape
    steps, batch, directions, width = given
    if r != (directions, width, width // prim.gates) or len(prim.reverse) != directions:
        return f"the weights are not those of {prim.gates} gates and {directions} directions"
    hidden = width // prim.gates
    state = (directions, batch, hidden)
    if any(t.shape != state for t in prim.inputs[2 : 2 + prim.states]):
        return f"the states do not have the shape {list(state)}"
    tables = prim.inputs[len(prim.inputs) - prim.tables :]
    if any(t.shape != (ENTRIES,) or t.dtype is not DType.I16 for t in tables):
        return f"a table does not hold {ENTRIES} numbers of 16 bits"
    return _unlike(prim, (steps, directions, batch, hidden), *[state] * prim.states)


def _cache_write(prim: p.CacheWrite) -> str:
    *pools, k, v, places = prim.inputs
    page = pools[0].shape[3]
    bad = _pools(pools, prim, k.shape[2], v.shape[2])
    if bad or k.shape[:2] != v.shape[:2] or k.shape[1] != pools[0].shape[1] or places.shape != k.shape[:1]:
        return bad or f"keys {list(k.shape)}, values {list(v.shape)} and places do not fit pages of {page}"
    return _unlike(prim, *[t.shape for t in pools])


def _paged_attention(prim: p.PagedAttention) -> str:
    q, *pools, table, tiles = prim.inputs
    bad = _pools(pools, prim, q.shape[2], prim.size)
    if bad or q.rank != 3 or q.shape[1] % pools[0].shape[1] or table.rank != 1 or tiles.shape[1:] != (4,):
        return bad or f"queries {list(q.shape)}, the table or the tiles do not fit"
    if any(part and len(part) != q.shape[1] for part in (prim.slopes, prim.sinks)):
        return f"slopes or sinks are not one for each of {q.shape[1]} heads"
    return _unlike(prim, (*q.shape[:2], prim.size))


def _causal_convolution(prim: p.CausalConvolution) -> str:
    pool, x, w, segments = prim.inputs
    if x.rank != 2 or w.shape[1:] != x.shape[1:] or pool.shape[1:] != (w.shape[0] - 1, w.shape[1]):
        return f"{list(x.shape)}, weights {list(w.shape)} and the pool {list(pool.shape)} do not fit"
    if segments.rank != 2 or segments.shape[1:] != (4,):
        return f"segments are {list(segments.shape)}"
    return _unlike(prim, pool.shape, x.shape)


def _linear_attention(prim: p.LinearAttention) -> str:
    pool, q, k, v, *weights, segments = prim.inputs
    if v.rank != 3 or q.rank != 3 or q.shape != k.shape or v.shape[1] % max(q.shape[1], 1):
        return f"queries {list(q.shape)}, keys {list(k.shape)} and values {list(v.shape)} do not fit"
    if pool.shape[1:] != (v.shape[1], q.shape[2], v.shape[2]) or q.shape[0] != v.shape[0]:
        return f"the pool {list(pool.shape)} does not fit keys {list(k.shape)} and values {list(v.shape)}"
    fading = (v.shape[:2], (*v.shape[:2], q.shape[2]))
    if (
        len(weights) != 1 + prim.delta
        or weights[0].shape not in fading
        or any(t.shape != fading[0] for t in weights[1:])
    ):
        return "decays are not one for each head of a token, nor for each number of its keys"
    if segments.rank != 2 or segments.shape[1:] != (4,):
        return f"segments are {list(segments.shape)}"
    return _unlike(prim, pool.shape, v.shape)


def _pools(pools: Sequence[Tensor], prim: p.CacheWrite | p.PagedAttention, size: int, value_size: int) -> str:
    """What is wrong with the pools of a cache, for heads of these sizes."""
    bits = (prim.key_bits, prim.value_bits)
    if any(t.rank != 4 for t in pools) or len(pools) != 2 + sum(n > 0 for n in bits):
        return "the cache has other pools"
    pages, groups, rows, page = pools[0].shape
    wanted = [(pages, groups, 1 if n == 16 else 2, page) for n in bits if n]
    kept, held = (n * (2 if b == 4 else 1) for n, b in zip((rows, pools[1].shape[3]), bits, strict=True))
    odd = (bits[0] and rows % 2) or (bits[1] and page % 2)
    if odd or [t.shape for t in pools[2:]] != wanted or pools[1].shape[:3] != (pages, groups, page):
        return "the pools of the cache do not fit each other"
    if kept < size or (kept > size and not bits[0]):
        return f"keys of {size} numbers are kept as {kept}"
    return "" if held >= value_size else f"values of {value_size} numbers are kept as {held}"


def _types(prim: Prim) -> str:
    """What is wrong with element types."""
    want = [prim.inputs[0].dtype] if prim.inputs else []
    if isinstance(prim, p.Map):
        taken = [t.dtype for t in prim.inputs]
        if taken != list(prim.body.args):
            return f"its program takes {[t.value for t in prim.body.args]}"
        want = list(prim.body.result_dtypes)
    elif isinstance(prim, p.ArgReduce):
        want = [DType.I64]
    elif isinstance(prim, (p.MatMul, p.Conv)) and prim.inputs[0].dtype.is_int:
        want = [prim.outputs[0].dtype]  # sums of integers may be wider
    elif isinstance(prim, p.Concat) and any(t.dtype is not want[0] for t in prim.inputs):
        return "the parts are of different types"
    elif isinstance(prim, p.Recurrence):
        want = [prim.inputs[0].dtype] * len(prim.outputs)
    elif isinstance(prim, p.TopK):
        if not prim.outputs[1].dtype.is_int:
            return "the positions should be integers"
        want = [prim.inputs[0].dtype, prim.outputs[1].dtype]
    elif isinstance(prim, (p.CacheWrite, p.CausalConvolution, p.LinearAttention)):
        want = [t.dtype for t in prim.inputs[: len(prim.outputs)]]
    elif isinstance(prim, p.Host):
        return ""
    found = [t.dtype for t in prim.outputs]
    return "" if found == want else f"the results should be {[t.value for t in want]}"


_RULES: dict[type[Prim], Callable[..., str]] = {
    p.Reshape: _reshape,
    p.Permute: _permute,
    p.Slice: _slice,
    p.Expand: _expand,
    p.Pad: _pad,
    p.Concat: _concat,
    p.Map: _map,
    p.Reduce: lambda prim: _reduced(prim, prim.axes),
    p.ArgReduce: lambda prim: _reduced(prim, (prim.axis,)),
    p.MatMul: _matmul,
    p.CompressedMatMul: _compressed,
    p.RoutedMatMul: _routed,
    p.Conv: _conv,
    p.Window: _window,
    p.Gather: _gather,
    p.Scatter: _scatter,
    p.TopK: _topk,
    p.Scan: _scan,
    p.Recurrence: _recurrence,
    p.CacheWrite: _cache_write,
    p.PagedAttention: _paged_attention,
    p.CausalConvolution: _causal_convolution,
    p.LinearAttention: _linear_attention,
    p.Host: lambda prim: "",
}

__all__ = ["ProgramError", "verify_primitives"]
