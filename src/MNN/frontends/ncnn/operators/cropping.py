"""Layers that cut regions out, write into them, and put borders around."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.ncnn.context import PLACES, SHAPES, Context, Size
from MNN.frontends.ncnn.expressions import evaluated
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value

_WHOLE = -233
_OFFSETS = {"w": (0, 6, 3), "h": (1, 7, 4), "d": (13, 15, 14), "c": (2, 8, 5)}
"""Ids of what is cut off at the begin and at the end of an axis, and of the size that is left."""
_END = 1 << 40


@ncnn_layer("Crop")
def crop(ctx: Context, node: NcnnNode) -> Value:
    """By begins and ends of axes as in numpy, by what is cut off each axis, or to the shape of a second operand."""
    p, x = node.params, node.input(0)
    dims = ctx.dims(node, x)
    if p.text(19) or p.text(20):
        starts, ends = (evaluated(ctx, node, p.text(i)) for i in (19, 20))
        axes = [n for n in evaluated(ctx, node, p.text(21)) if isinstance(n, int)] if p.text(21) else []
        return _numpy_style(ctx, node, x, starts, ends, axes or list(range(len(starts))))
    if p.ints(9) and p.ints(10):
        return _numpy_style(ctx, node, x, list(p.ints(9)), list(p.ints(10)), p.ints(11) or list(range(len(p.ints(9)))))
    if p.integer(0) == _WHOLE:
        raise node.unsupported("a region that an operand gives", "export the network with fixed regions")
    reference = node.optional(1)
    begins: list[Size] = []
    stops: list[Size] = []
    for name in PLACES[dims]:
        at, cut, size = (p.integer(i) for i in _OFFSETS[name])
        begins.append(at)
        if reference is not None:
            wanted = _reference(ctx, node, reference, name, dims)
            stops.append(_end(ctx, at, wanted) if wanted is not None else _END)
        elif size == _WHOLE:
            stops.append(-cut if cut else _END)
        else:
            stops.append(at + size if size > 0 else -cut if cut else _END)
    return _cut(ctx, x, list(range(1, dims + 1)), begins, stops)


def _reference(ctx: Context, node: NcnnNode, reference: Value, name: str, dims: int) -> Size | None:
    """How large an axis is to be; that of channels stays where the reference has fewer axes."""
    theirs = PLACES[ctx.dims(node, reference)]
    return ctx.size(reference, name) if name in theirs and (len(theirs) == dims or name != "c") else None


def _end(ctx: Context, start: int, size: Size) -> Size:
    if isinstance(size, int):
        return start + size
    return ctx.binary("ADD", size, start) if start else size


def _numpy_style(
    ctx: Context, node: NcnnNode, x: Value, starts: list[Size], ends: list[Size], axes: list[int]
) -> Value:
    """-233 stands for the begin or the end of an axis; an end of 0 is the end too."""
    if not len(starts) == len(ends) == len(axes):
        raise node.malformed(f"{len(starts)} begins and {len(ends)} ends of {len(axes)} axes")
    begins: list[Size] = [0 if isinstance(n, int) and n == _WHOLE else n for n in starts]
    stops: list[Size] = [_END if isinstance(n, int) and n in (_WHOLE, 0) else n for n in ends]
    return _cut(ctx, x, ctx.axes(node, x, axes), begins, stops)


def _cut(ctx: Context, x: Value, axes: list[int], begins: list[Size], ends: list[Size]) -> Value:
    kept = [i for i in range(len(axes)) if not (begins[i] == 0 and ends[i] == _END)]
    if not kept:
        return x
    bounds = [ctx.sizes([side[i] for i in kept]) for side in (begins, ends)]
    return ctx.op("StridedSlice", x, *bounds, ctx.const([axes[i] for i in kept]), fromType=1)


@ncnn_layer("CopyTo")
def copy_to(ctx: Context, node: NcnnNode) -> Value:
    """The second operand written over the first one, from offsets on."""
    p, x, part = node.params, node.input(0), node.input(1)
    dims = ctx.dims(node, x)
    starts = {place: p.integer(_OFFSETS[name][0]) for name, place in PLACES[dims].items()}
    given = p.ints(9)
    if given:
        axes = p.ints(11) or list(range(dims))
        starts = dict.fromkeys(starts, 0) | dict(zip(ctx.axes(node, x, axes), given, strict=False))
    sizes, inner = ctx.static_shape(x), ctx.static_shape(part)
    if sizes is None or inner is None or len(inner) != len(sizes):
        raise node.unsupported("a part of unknown shape", SHAPES)
    if sizes == inner:
        return part
    whole = math.prod(sizes)
    places = np.arange(whole, dtype=np.int64).reshape(sizes)
    first = [0] + [0 if starts[a] == _WHOLE else starts[a] % sizes[a] for a in range(1, dims + 1)]
    region = tuple(slice(a, a + n) for a, n in zip(first, inner, strict=True))
    if places[region].shape != inner:
        raise node.malformed(f"a part {list(inner[1:])} does not fit into {list(sizes[1:])} at {first[1:]}")
    flat = ctx.op("Reshape", x, ctx.const([-1]))
    written = ctx.op(
        "ScatterElements", flat, ctx.const(places[region].reshape(-1)), ctx.op("Reshape", part, ctx.const([-1])),
        ctx.const(np.int32(0)),
    )  # fmt: skip
    return ctx.op("Reshape", written, ctx.const(list(sizes)))


def _weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    return {"values": r.plain(p.integer(6))} if p.integer(6) else {}


_MODES = {0: "CONSTANT", 1: "EDGE", 2: "REFLECT"}


@ncnn_layer("Padding", weights=_weights)
def padding(ctx: Context, node: NcnnNode) -> Value:
    """Parameter 4: 0 a number (or one a channel), 1 the border's numbers, 2 mirrored without the border."""
    p, x = node.params, node.input(0)
    dims = ctx.dims(node, x)
    mode = _MODES.get(p.integer(4))
    if mode is None:
        raise node.unsupported(f"kind {p.integer(4)} of a border")
    low = {"h": p.integer(0), "w": p.integer(2), "c": p.integer(7) if dims == 3 else 0, "d": p.integer(7)}
    high = {"h": p.integer(1), "w": p.integer(3), "c": p.integer(8) if dims == 3 else 0, "d": p.integer(8)}
    if min(*low.values(), *high.values()) < 0:
        raise node.unsupported("a negative border")
    pads = [0, 0, *(n for name in PLACES[dims] for n in (low[name], high[name]))]
    if not any(pads):
        return x
    value = p.real(5)
    if not node.has_weight("values") or mode != "CONSTANT" or dims < 3:
        given = [ctx.const(np.float32(value))] if mode == "CONSTANT" and value else []
        return ctx.op("Padding", x, ctx.const(pads), *given, mode=mode)
    if low["c"] or high["c"]:
        raise node.unsupported("a number a channel, and more channels")
    # what is outside of a padded tensor of ones has the channel's number
    values = ctx.along(x, node.weights("values"))
    shifted = ctx.op("Padding", ctx.binary("SUB", x, values), ctx.const(pads), mode="CONSTANT")
    return ctx.binary("ADD", shifted, values)
