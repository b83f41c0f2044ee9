"""Layers that order, cut, join and repeat."""

from __future__ import annotations

import numpy as np

from MNN.frontends.ncnn.context import PLACES, Context, Size
from MNN.frontends.ncnn.expressions import evaluated
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.ir.graph import Value

DROPPED = -233
_ORDERS = {
    2: ("wh", "hw"),
    3: ("whc", "hwc", "wch", "cwh", "hcw", "chw"),
    4: (
        "whdc", "hwdc", "wdhc", "dwhc", "hdwc", "dhwc", "whcd", "hwcd", "wchd", "cwhd", "hcwd", "chwd", "wdch", "dwch",
        "wcdh", "cwdh", "dcwh", "cdwh", "hdcw", "dhcw", "hcdw", "chdw", "dchw", "cdhw",
    ),
}  # fmt: skip
"""Axes by number of the order, the innermost first."""


@ncnn_layer("Permute")
def permute(ctx: Context, node: NcnnNode) -> Value:
    x, number = node.input(0), node.params.integer(0)
    dims = ctx.dims(node, x)
    if dims == 1:
        return x
    if not 0 <= number < len(_ORDERS[dims]):
        raise node.malformed(f"order {number} of {dims} dimensions")
    order = [0, *(PLACES[dims][axis] for axis in reversed(_ORDERS[dims][number]))]
    return x if order == sorted(order) else ctx.op("Permute", x, dims=order)


@ncnn_layer("Reshape")
def reshape(ctx: Context, node: NcnnNode) -> Value:
    """Sizes w, h, d, c: 0 takes that of the input, -1 what is left. Expressions (parameter 6) have them computed."""
    p, x = node.params, node.input(0)
    if p.has(12) or p.has(13):
        raise node.unsupported("a batch as an axis", "export the network without a batch")
    text = p.text(6)
    if text:
        found = evaluated(ctx, node, text)
        if not 1 <= len(found) <= 4:
            raise node.malformed(f"a shape of {len(found)} sizes")
        names = list(reversed(PLACES[len(found)]))
        sizes: dict[str, Size] = dict(zip(names, found, strict=True))
    else:
        given = {name: p.integer(key, DROPPED) for name, key in (("w", 0), ("h", 1), ("d", 11), ("c", 2))}
        dims = next((i for i, n in enumerate("whc", 0) if given[n] == DROPPED), 4 if given["d"] != DROPPED else 3)
        if dims == 0:
            raise node.malformed("it has no sizes")
        sizes = {name: given[name] for name in PLACES[dims]}
    plan = [sizes[name] for name in PLACES[len(sizes)]]
    ctx.dims(node, x)
    names = list(PLACES[len(sizes)])
    plan = [ctx.size(x, name) if n == 0 and isinstance(n, int) else n for name, n in zip(names, plan, strict=True)]
    open_ones = [i for i, n in enumerate(plan) if isinstance(n, Value)]
    if len(open_ones) == 1 and not any(isinstance(n, int) and n == -1 for n in plan):
        plan[open_ones[0]] = -1
    return ctx.reshape(x, plan)


@ncnn_layer("Flatten")
def flatten(ctx: Context, node: NcnnNode) -> Value:
    return ctx.reshape(node.input(0), [-1])


@ncnn_layer("Squeeze")
def squeeze(ctx: Context, node: NcnnNode) -> Value:
    """Axes of size 1 by name or by number; what is left of a tensor without any is a line of one."""
    p, x = node.params, node.input(0)
    dims = ctx.dims(node, x)
    if p.ints(3):
        axes = ctx.axes(node, x, p.ints(3))
    else:
        named = {name for name, key in (("w", 0), ("h", 1), ("d", 11), ("c", 2)) if p.flag(key)}
        axes = [place for name, place in PLACES[dims].items() if name in named]
    axes = sorted({a for a in axes if ctx.extent(x, a) == 1})
    if len(axes) == dims:
        return ctx.reshape(x, [1])
    return ctx.op("Squeeze", x, squeezeDims=axes) if axes else x


@ncnn_layer("ExpandDims")
def expand_dims(ctx: Context, node: NcnnNode) -> Value:
    x, axes = node.input(0), node.params.ints(3)
    dims = ctx.dims(node, x) + len(axes)
    if dims > 4 or any(not -dims <= a < dims for a in axes):
        raise node.malformed(f"axes {axes} of {dims} dimensions")
    places = sorted({a % dims + 1 for a in axes})
    return ctx.op("Unsqueeze", x, squeezeDims=places) if places else x


@ncnn_layer("Concat")
def concat(ctx: Context, node: NcnnNode) -> Value:
    axis = ctx.axis(node, node.input(0), node.params.integer(0))
    return ctx.op("Concat", *node.inputs, axis=axis) if len(node.inputs) > 1 else node.input(0)


@ncnn_layer("Slice")
def slice_(ctx: Context, node: NcnnNode) -> list[Value]:
    """Pieces by size (-233 is an equal share of what is left) or by the places where they end."""
    p, x = node.params, node.input(0)
    axis = ctx.axis(node, x, p.integer(1))
    count = len(node.outputs)
    if count == 1:
        return [x]
    places, sizes = p.ints(2), p.ints(0)
    if not places and all(n == DROPPED for n in sizes[:count]) and ctx.extent(x, axis) is None:
        return ctx.emit("Slice", [x], count, axis=axis, sourceType="TORCH")
    total = ctx.known_extent(node, x, axis, "a size that is cut into pieces")
    if len(places or sizes) < count - bool(places):
        raise node.malformed(f"{len(places or sizes)} places for {count} pieces")
    found: list[int] = []
    for i in range(count):
        start = sum(found)
        if places:
            end = total if i == count - 1 else places[i] + (total if places[i] < 0 else 0)
            found.append(end - start)
        else:
            found.append((total - start) // (count - i) if sizes[i] == DROPPED else sizes[i])
    if min(found) < 1 or sum(found) > total:
        raise node.malformed(f"pieces of {found} from {total}")
    left = total - sum(found)
    made = ctx.emit(
        "Slice", [x], count + bool(left), axis=axis, slicePoints=found + [left] * bool(left), sourceType="TORCH"
    )
    return made[:count]


@ncnn_layer("Flip")
def flip(ctx: Context, node: NcnnNode) -> Value:
    x = node.input(0)
    axes = ctx.axes(node, x, node.params.ints(0))
    return _turned(ctx, x, sorted(set(axes))) if axes else x


def _turned(ctx: Context, x: Value, axes: list[int]) -> Value:
    ends = [ctx.const([n] * len(axes)) for n in (-1, -(1 << 40))]
    return ctx.op("StridedSlice", x, *ends, ctx.const(axes), ctx.const([-1] * len(axes)), fromType=1)


@ncnn_layer("Tile")
def tile(ctx: Context, node: NcnnNode) -> Value:
    """Repeats along one axis, or as many as are listed along the last ones."""
    p, x = node.params, node.input(0)
    dims, repeats = ctx.dims(node, x), p.ints(2)
    if not repeats:
        repeats = [1] * dims
        repeats[ctx.axis(node, x, p.integer(0)) - 1] = p.integer(1, 1)
    if min(repeats) < 1 or len(repeats) > 4:
        raise node.malformed(f"repeats {repeats}")
    more = len(repeats) - dims
    if more > 0:
        first = 2 if dims == 3 else 1  # an image's channels stay in front of the depth that it gets
        x = ctx.op("Unsqueeze", x, squeezeDims=list(range(first, first + more)))
    return ctx.op("Tile", x, ctx.const([1, *[1] * -more, *repeats]))


@ncnn_layer("PixelShuffle")
def pixel_shuffle(ctx: Context, node: NcnnNode) -> Value:
    p, x = node.params, ctx.expect(node, node.input(0), 3)
    return ctx.op("DepthToSpace", x, blockSize=p.integer(0, 1), mode="DCR" if p.flag(1) else "CRD")


@ncnn_layer("Reorg")
def reorg(ctx: Context, node: NcnnNode) -> Value:
    """Space to channels: those of one channel side by side, or (parameter 1) those of one place."""
    p, x = node.params, ctx.expect(node, node.input(0), 3)
    return ctx.op("SpaceToDepth", x, blockSize=p.integer(0, 1), mode="DCR" if p.flag(1) else "CRD")


@ncnn_layer("ShuffleChannel")
def shuffle_channel(ctx: Context, node: NcnnNode) -> Value:
    p, x = node.params, node.input(0)
    channels = ctx.known_extent(node, x, 1, "a number of channels")
    group = p.integer(0, 1)
    if group < 1 or channels % group:
        raise node.malformed(f"{channels} channels in {group} groups")
    group = channels // group if p.flag(1) else group
    rest: list[Size] = [ctx.size(x, name) for name, place in PLACES[ctx.dims(node, x)].items() if place > 1]
    parts = ctx.reshape(x, [group, channels // group, -1])
    turned = ctx.op("Permute", parts, dims=[0, 2, 1, 3])
    return ctx.reshape(turned, [channels, *rest])


@ncnn_layer("Diag")
def diag(ctx: Context, node: NcnnNode) -> Value:
    """A line as a diagonal of a matrix, or the diagonal of a matrix as a line."""
    x, offset = node.input(0), node.params.integer(0)
    if ctx.dims(node, x) == 1:
        size = ctx.known_extent(node, x, 1, "the length of a diagonal")
        side = size + abs(offset)
        if side > 1 << 13:
            raise node.malformed(f"a matrix with sides of {side}")
        table = np.full((side, side), size, np.int64)
        table[np.arange(size) + max(-offset, 0), np.arange(size) + max(offset, 0)] = np.arange(size)
        padded = ctx.op("Padding", x, ctx.const([0, 0, 0, 1]), ctx.const(np.float32(0)), mode="CONSTANT")
        return ctx.op("GatherV2", padded, ctx.const(table), ctx.const(np.int32(1)))
    ctx.expect(node, x, 2)
    height, width = (ctx.known_extent(node, x, i, "the size of a matrix") for i in (1, 2))
    rows = np.arange(height)
    rows = rows[(rows + offset >= 0) & (rows + offset < width)]
    if not rows.size:
        raise node.unsupported(f"diagonal {offset} of a matrix {height} x {width}, which has no numbers")
    places = rows * width + rows + offset
    return ctx.op("GatherV2", ctx.reshape(x, [-1]), ctx.const(places.astype(np.int64)), ctx.const(np.int32(1)))


@ncnn_layer("Split", "Noop", "DeepCopy", "Packing")
def copies(ctx: Context, node: NcnnNode) -> list[Value]:
    """The same tensor under other names."""
    if not node.outputs:
        return []
    return [node.input(0)] * len(node.outputs)
