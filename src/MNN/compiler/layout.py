"""In which order the dimensions of every tensor should lie in memory.

Images are channels-last: convolutions and windows give their outputs so and want their inputs so, and elementwise work
in between goes along. Other tensors are row-major, unless a later transposition becomes free by storing them
transposed (the heads of an attention layer).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

from MNN.compiler import strides as st
from MNN.compiler.usage import VIEWS
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

LOOK_AHEAD = 12
"""How far ahead a wish about order is looked for: a primitive is two steps, a map to another type is one, so that
numbers which are rounded to integers between all operators are seen through."""

_IN_SLOTS = (p.CausalConvolution, p.LinearAttention)
DimensionOrder = tuple[int, ...]
SpacedOrder = tuple[DimensionOrder, int]
"""An order, and elements that are unused behind each innermost run."""


@functools.cache
def channels_last(rank: int) -> DimensionOrder:
    """N, spatial..., C for a tensor listed as N, C, spatial..."""
    return (0, *range(2, rank), 1)


@functools.cache
def natural(rank: int) -> DimensionOrder:
    return tuple(range(rank))


def assign_layouts(
    prims: Sequence[Prim], inputs: Sequence[Tensor], uses: Mapping[Tensor, list[Prim]]
) -> dict[Tensor, DimensionOrder]:
    """The order of every tensor, as if all were dense; that of a view follows from what it looks at."""
    wishes: _Wishes = {}
    strides: dict[Tensor, st.Ints] = {t: st.dense(t.shape, natural(t.rank)) for t in inputs}
    orders: dict[Tensor, DimensionOrder] = {t: natural(t.rank) for t in inputs}

    def strides_of(t: Tensor) -> st.Ints:
        found = strides.get(t)
        if found is None:
            found = strides[t] = st.dense(t.shape, natural(len(t.shape)))
        return found

    for prim in prims:
        looks = isinstance(prim, VIEWS)
        for out in prim.outputs:
            view = view_strides(prim, strides_of(prim.inputs[0]), out) if looks else None
            if view is not None:
                strides[out] = view[1]
                orders[out] = st.order_of(out.shape, view[1])
            else:
                orders[out] = order = _choose(prim, out, strides_of, uses, wishes)
                strides[out] = st.dense(out.shape, order)
    return orders


def view_strides(prim: Prim, base: st.Ints, out: Tensor) -> tuple[int, st.Ints] | None:
    """Offset and strides of a view primitive's output over an operand with strides ``base``; None if it must copy."""
    if isinstance(prim, p.Permute):
        return 0, tuple(base[a] for a in prim.perm)
    if isinstance(prim, p.Slice):
        offset = sum(s * b for s, b, n in zip(prim.starts, base, out.shape, strict=True) if n)
        return offset, tuple(t * b for t, b in zip(prim.steps, base, strict=True))
    source = prim.inputs[0]
    if isinstance(prim, p.Expand):
        return 0, st.broadcast_strides(source.shape, base, out.shape)
    if 0 in out.shape:
        return 0, st.dense(out.shape, natural(out.rank))
    found = st.reshape_strides(source.shape, base, out.shape)
    return None if found is None else (0, found)


def _choose(
    prim: Prim,
    out: Tensor,
    strides_of: Callable[[Tensor], st.Ints],
    uses: Mapping[Tensor, list[Prim]],
    wishes: _Wishes,
) -> DimensionOrder:
    kind = type(prim)
    if kind is p.Conv or kind is p.Window:
        return channels_last(len(out.shape))
    wish = _wish(out, uses, LOOK_AHEAD, wishes)
    if kind is p.Map:
        return _like_operands(prim, out, strides_of) if wish is None else wish
    if isinstance(prim, (p.MatMul, p.CompressedMatMul, p.RoutedMatMul)):
        ends_right = wish is not None and st.order_of(out.shape, st.dense(out.shape, wish))[-1] == out.rank - 1
        return wish if wish is not None and ends_right else natural(out.rank)
    if isinstance(prim, (p.Host, p.Scatter, p.TopK, p.CacheWrite, p.PagedAttention, *_IN_SLOTS)):
        return natural(out.rank)
    if isinstance(prim, p.Recurrence):  # units are innermost
        return wish if wish is not None and wish[-1] == out.rank - 1 else natural(out.rank)
    if isinstance(prim, p.Reshape):  # a copy: it can bring any order that is a view of the operand's shape
        possible = wish and st.reshape_strides(out.shape, st.dense(out.shape, wish), prim.inputs[0].shape)
        return wish if wish is not None and possible is not None else natural(out.rank)
    if wish is not None:
        return wish
    if any(isinstance(u, p.MatMul) and u.inputs[1] is out for u in uses.get(out, [])):
        return natural(out.rank)  # rows of the right side are read as they lie; a map that transposes costs more
    if isinstance(prim, p.Gather):
        data = prim.inputs[0]
        base = strides_of(data)
        seen = [1 << 62] * out.rank
        for d, axis in enumerate(prim.walk):
            if axis >= 0:
                seen[axis] = base[d]
        for j, d in enumerate(prim.indexed):
            for axis, n in enumerate(out.shape):
                index = prim.inputs[1 + j]
                own = axis - (out.rank - index.rank)
                if n > 1 and own >= 0 and index.shape[own] > 1:
                    seen[axis] = min(seen[axis], base[d])
        return tuple(sorted(range(out.rank), key=lambda a: (-seen[a], a)))
    return _like_operands(prim, out, strides_of)


def _like_operands(prim: Prim, out: Tensor, strides_of: Callable[[Tensor], st.Ints]) -> DimensionOrder:
    """The order of the largest operand."""
    rank = len(out.shape)
    candidates = [t for t in prim.inputs if len(t.shape) == rank and t.const is None]
    if not candidates:
        return natural(rank)
    main = candidates[0]
    if len(candidates) > 1:
        main = max(candidates, key=lambda t: (math.prod(map(room_of, t.shape)), t.producer is not None))
    return st.order_of(main.shape, strides_of(main)) if elements(main.shape) > 1 else natural(out.rank)


_FOLLOWING = frozenset({p.Map, p.Pad, p.Concat, p.Slice})
"""Primitives whose result best lies in memory like their operand, of maps one of the same shape."""
_Wishes = dict[tuple[int, int], DimensionOrder | None]
"""Answers of :func:`_wish` so far, by the tensor's identity and the depth."""


def _wish(tensor: Tensor, uses: Mapping[Tensor, list[Prim]], depth: int, known: _Wishes) -> DimensionOrder | None:
    """The order that the users of a tensor would like, None when they do not care."""
    if depth <= 0 or len(tensor.shape) < 2:
        return None
    key = (id(tensor), depth)
    found = known.get(key, ())
    if found == ():
        found = known[key] = _asked(tensor, uses, depth, known)
    return found


def _asked(tensor: Tensor, uses: Mapping[Tensor, list[Prim]], depth: int, known: _Wishes) -> DimensionOrder | None:
    for prim in uses.get(tensor, ()):
        kind = type(prim)
        if kind is p.Conv or kind is p.Window:
            if prim.inputs[0] is tensor and tensor.shape[1] > 1:
                return channels_last(len(tensor.shape))
        elif kind in _FOLLOWING and (kind is not p.Map or prim.outputs[0].shape == tensor.shape):
            steps = 1 if kind is p.Map and prim.outputs[0].dtype is not tensor.dtype else 2
            wish = _wish(prim.outputs[0], uses, depth - steps, known)
            if wish is not None:
                return wish
        elif isinstance(prim, p.Permute):
            wish = _wish(prim.outputs[0], uses, depth - 2, known)
            if wish is None and _only_reshaped(prim.outputs[0], uses):
                wish = natural(tensor.rank)
            if wish is not None:
                return tuple(prim.perm[a] for a in wish)
    return None


def _only_reshaped(tensor: Tensor, uses: Mapping[Tensor, list[Prim]]) -> bool:
    users = uses.get(tensor, [])
    return bool(users) and all(isinstance(u, p.Reshape) for u in users)
