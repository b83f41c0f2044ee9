"""Hints for operators that change shapes; see :mod:`MNN.ops.inference.infer`."""

from __future__ import annotations

from MNN.ir.graph import Node, Value
from MNN.ir.shape import cut
from MNN.ir.symbolic import Size, add, ceil_divide, exact_quotient, lower_bound, maximum, minimum, multiply, subtract
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.inference.infer import (
    SMALL,
    Hint,
    Hints,
    Sizes,
    axis_of,
    broadcast,
    index_type,
    ints,
    number,
    operand,
    product,
    rule,
    sizes,
)

WHOLE = (1 << 31) - 1
"""Ends of slices from here on mean "to the end"."""


def _pass_numbers(h: Hints, node: Node) -> None:
    found = h.ints(node.inputs[0])
    if found is not None:
        h.numbers[node.outputs[0]] = found


@rule("Shape")
def shape(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    start = number(node, "start") if node.attrs.get("hasStart") else None
    end = number(node, "end") if node.attrs.get("hasEnd") else None
    known = sizes(x)
    if known is None:
        return [(index_type(node), (None,))]
    h.numbers[node.outputs[0]] = list(known[start:end])
    return [(index_type(node), (len(known[start:end]),))]


@rule("Size", "Rank")
def size(h: Hints, node: Node) -> list[Hint]:
    known = sizes(operand(node, 0))
    if known is not None:
        h.numbers[node.outputs[0]] = [product(known) if node.op == "Size" else len(known)]
    return [(index_type(node), ())]


@rule("Reshape", "ReshapeExact")
def reshape(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    _pass_numbers(h, node)
    wanted: list[Size] | None
    given = node.inputs[1] if len(node.inputs) > 1 else None
    wanted = list(ints(node, "dims")) if given is None else h.ints(given)
    if wanted is None:
        count = given.shape[0] if given is not None and given.shape else None
        return [(x.dtype, (None,) * count if isinstance(count, int) and count < 64 else None)]
    known = sizes(x)
    if node.op == "Reshape":
        wanted = [(known[i] if known and i < len(known) else None) if d == 0 else d for i, d in enumerate(wanted)]
    if -1 in wanted:
        wanted[wanted.index(-1)] = _rest(known, [d for d in wanted if d != -1])
    return [(x.dtype, tuple(wanted))]


def _rest(total: Sizes | None, parts: list[Size]) -> Size:
    """What ``total`` leaves beside ``parts``: names that occur in both cancel."""
    return None if total is None else exact_quotient(product(total), product(parts))


@rule("Flatten")
def flatten(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known, axis = sizes(x), number(node, "axis")
    if known is None:
        return [(x.dtype, (None, None))]
    axis += len(known) if axis < 0 else 0
    return [(x.dtype, (product(known[:axis]), product(known[axis:])))]


def _axes(h: Hints, node: Node, key: str) -> list[int] | None:
    given = node.inputs[1] if len(node.inputs) > 1 else None
    return ints(node, key) if given is None else h.known_ints(given)


@rule("Squeeze")
def squeeze(h: Hints, node: Node) -> list[Hint]:
    x, axes = operand(node, 0), _axes(h, node, "squeezeDims")
    _pass_numbers(h, node)
    known = sizes(x)
    if known is None or axes is None or (not axes and not all(isinstance(d, int) for d in known)):
        return [(x.dtype, None)]
    drop = {axis_of(a, len(known)) for a in axes} if axes else {i for i, d in enumerate(known) if d == 1}
    return [(x.dtype, tuple(d for i, d in enumerate(known) if i not in drop))]


@rule("Unsqueeze", "ExpandDims")
def unsqueeze(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    axes = _axes(h, node, "squeezeDims")
    if node.op == "ExpandDims" and len(node.inputs) < 2:
        axes = [number(node, "axis")]
    _pass_numbers(h, node)
    known = sizes(x)
    if known is None or axes is None:
        return [(x.dtype, None)]
    rank = len(known) + len(axes)
    new, rest = {axis_of(a, rank) for a in axes}, iter(known)
    return [(x.dtype, tuple(1 if i in new else next(rest) for i in range(rank)))]


@rule("Permute", "Transpose")
def permute(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known = sizes(x)
    order = h.known_ints(node.inputs[1]) if len(node.inputs) > 1 else ints(node, "dims")
    if known is None:
        return [(x.dtype, (None,) * len(order) if order else None)]
    if order is None:
        return [(x.dtype, (None,) * len(known))]
    return [(x.dtype, tuple(known[a] for a in order or reversed(range(len(known)))))]


@rule("BroadcastTo")
def broadcast_to(h: Hints, node: Node) -> list[Hint]:
    x, wanted = operand(node, 0), listed(h, node.inputs[1])
    return [(x.dtype, None if wanted is None else broadcast([sizes(x), tuple(wanted)]))]


def listed(h: Hints, value: Value | None) -> list[Size] | None:
    """The numbers of a list; unknown ones where only their count is known."""
    found = h.ints(value)
    if found is None and value is not None and value.shape is not None and len(value.shape) == 1:
        count = value.shape[0]
        return [None] * count if isinstance(count, int) and count <= SMALL else None
    return found


@rule("Tile")
def tile(h: Hints, node: Node) -> list[Hint]:
    x, repeats = operand(node, 0), h.ints(node.inputs[1])
    known = sizes(x)
    if known is None or repeats is None:
        return [(x.dtype, None if known is None else (None,) * len(known))]
    return [(x.dtype, tuple(product([d, r]) for d, r in zip(known, repeats, strict=True)))]


@rule("Fill")
def fill(h: Hints, node: Node) -> list[Hint]:
    dims, value = listed(h, node.inputs[0]), operand(node, 1)
    fixed = h.known_ints(node.inputs[0])
    content = h.ints(value)
    if fixed is not None and len(fixed) == 1 and 0 <= fixed[0] <= 64 and content is not None and len(content) == 1:
        h.numbers[node.outputs[0]] = content * fixed[0]
    return [(value.dtype, None if dims is None else tuple(dims))]


@rule("Range", "LinSpace")
def arange(h: Hints, node: Node) -> list[Hint]:
    bounds = [h.ints(v) for v in node.inputs]
    length: Size = None
    if node.op == "Range" and all(b is not None and len(b) == 1 for b in bounds):
        start, limit, delta = (b[0] for b in bounds if b is not None)
        if isinstance(delta, int) and delta:
            way = subtract(limit, start) if delta > 0 else subtract(start, limit)
            length = maximum(ceil_divide(way, abs(delta)), 0)
        if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int) and isinstance(length, int):
            h.numbers.update({node.outputs[0]: list(range(start, limit, delta))} if length <= SMALL else {})
    return [(operand(node, 0).dtype, (length,))]


@rule("EyeLike")
def eye_like(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    return [(index_type(node) if "outputDataType" in node.attrs else x.dtype, sizes(x))]


@rule("OneHot")
def one_hot(h: Hints, node: Node) -> list[Hint]:
    known, depth = sizes(operand(node, 0)), h.ints(node.inputs[1])
    if known is None:
        return [(operand(node, 2).dtype, None)]
    axis = axis_of(number(node, "axis", -1), len(known) + 1)
    return [(operand(node, 2).dtype, (*known[:axis], depth[0] if depth else None, *known[axis:]))]


@rule("Reduction", "ReductionOrNone")
def reduction(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known = sizes(x)
    axes = _axes(h, node, "dim")
    if known is None or axes is None or (node.op == "ReductionOrNone" and not axes):
        return [(x.dtype, (None,) * len(known) if known is not None and node.attrs.get("keepDims") else None)]
    drop = {axis_of(a, len(known)) for a in axes} or set(range(len(known)))
    if node.attrs.get("keepDims"):
        return [(x.dtype, tuple(1 if i in drop else d for i, d in enumerate(known)))]
    return [(x.dtype, tuple(d for i, d in enumerate(known) if i not in drop))]


@rule("ArgMax", "ArgMin")
def arg_extreme(h: Hints, node: Node) -> list[Hint]:
    known = sizes(operand(node, 0))
    if known is None:
        return [(index_type(node), None)]
    axis = axis_of(number(node, "axis"), len(known))
    return [(index_type(node), (*known[:axis], *known[axis + 1 :]))]


@rule("Concat")
def concat(h: Hints, node: Node) -> list[Hint]:
    parts = [operand(node, i) for i in range(len(node.inputs))]
    numbers = [h.ints(p) for p in parts]
    if any(n is not None for n in numbers):
        numbers = [listed(h, p) for p in parts]
    if all(n is not None for n in numbers) and all(p.shape is None or len(p.shape) == 1 for p in parts):
        h.numbers[node.outputs[0]] = [v for n in numbers if n is not None for v in n]
    shapes = [sizes(p) for p in parts]
    known = [s for s in shapes if s is not None]
    if not known:
        return [(parts[0].dtype, None)]
    axis = axis_of(number(node, "axis"), len(known[0]))
    out: list[Size] = []
    for i in range(len(known[0])):
        column = [s[i] for s in known]
        if i != axis:
            fixed = [d for d in column if isinstance(d, int)]
            out.append(fixed[0] if fixed else next((d for d in column if d is not None), None))
        else:
            out.append(add(*column) if len(known) == len(shapes) else None)
    return [(parts[0].dtype, tuple(out))]


@rule("Pack")
def pack(h: Hints, node: Node) -> list[Hint]:
    first = operand(node, 0)
    known = sizes(first)
    if known is None:
        return [(first.dtype, None)]
    axis = axis_of(number(node, "axis"), len(known) + 1)
    return [(first.dtype, (*known[:axis], len(node.inputs), *known[axis:]))]


@rule("Slice")
def split(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known, count = sizes(x), len(node.outputs)
    if known is None:
        return [(x.dtype, None)] * count
    axis = axis_of(number(node, "axis"), len(known))
    given = h.ints(node.inputs[1]) if len(node.inputs) > 1 else list(ints(node, "slicePoints"))
    size, pieces = known[axis], [None] * count  # type: tuple[Size, list[Size]]
    if given is not None and len(given) == count and node.attrs.get("sourceType") != "CAFFE":
        pieces = [None if d == -1 else d for d in given]
        if pieces.count(None) == 1:
            pieces[pieces.index(None)] = subtract(size, add(*(d for d in pieces if d is not None)))
    elif given == []:
        step = ceil_divide(size, count)
        pieces = [maximum(minimum(step, subtract(size, multiply(step, i))), 0) for i in range(count)]
    return [(x.dtype, (*known[:axis], p, *known[axis + 1 :])) for p in pieces]


@rule("StridedSlice")
def strided_slice(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known = sizes(x)
    if known is None or number(node, "fromType") != 1:
        return [(x.dtype, None)]
    begins, ends = h.ints(node.inputs[1]), h.ints(node.inputs[2])
    given = node.inputs[3] if len(node.inputs) > 3 else None
    axes = h.known_ints(given) if given is not None else None if begins is None else list(range(len(begins)))
    if axes is None:
        return [(x.dtype, (None,) * len(known))]
    steps = h.known_ints(node.inputs[4]) if len(node.inputs) > 4 else [1] * len(axes)
    at = [axis_of(a, len(known)) for a in axes]
    if begins is None or ends is None or steps is None:
        return [(x.dtype, tuple(None if i in at else d for i, d in enumerate(known)))]
    out = list(known)
    for axis, begin, end, step in zip(at, begins, ends, steps, strict=True):
        out[axis] = _cut(out[axis], begin, end, step)
    numbers = h.ints(x)
    if numbers is not None and len(known) == 1 and len(begins) == 1:
        begin, end = begins[0], ends[0]
        if isinstance(begin, int) and isinstance(end, int):
            h.numbers[node.outputs[0]] = numbers[cut(begin, end, steps[0], len(numbers))]
    return [(x.dtype, tuple(out))]


def _cut(size: Size, begin: Size, end: Size, step: int) -> Size:
    """How many elements a slice of an axis has."""
    if isinstance(size, int) and isinstance(begin, int) and isinstance(end, int):
        return len(range(*cut(begin, end, step, size).indices(size)))
    if step < 1:
        whole = step == -1 and begin in (-1, WHOLE) and isinstance(end, int) and end <= -WHOLE
        return size if whole else None
    first, last = _place(begin, size), _place(end, size)
    return maximum(ceil_divide(subtract(last, first), step), 0)


def _place(at: Size, size: Size) -> Size:
    """Where a bound of a slice that goes forward lies within an axis."""
    if isinstance(at, int) and at >= WHOLE:
        return size
    lowest, past = lower_bound(at), lower_bound(subtract(at, size))
    if lowest is not None and lowest >= 0:
        return size if past is not None and past >= 0 else minimum(at, size)
    return maximum(add(at, size), 0) if isinstance(at, int) else None


@rule("Padding", "PadWrap")
def padding(h: Hints, node: Node) -> list[Hint]:
    x, pads = operand(node, 0), h.ints(node.inputs[1])
    known = sizes(x)
    if known is None or pads is None:
        return [(x.dtype, None if known is None else (None,) * len(known))]
    return [(x.dtype, tuple(add(d, a, b) for d, a, b in zip(known, pads[0::2], pads[1::2], strict=True)))]


@rule("PadAxes")
def pad_axes(h: Hints, node: Node) -> list[Hint]:
    known = sizes(operand(node, 0))
    return [(operand(node, 0).dtype, None if known is None else (None,) * len(known))]


@rule("RandomUniform", "RandomNormal")
def random(h: Hints, node: Node) -> list[Hint]:
    dims = h.ints(node.inputs[0])
    return [(from_data_type(str(node.attrs.get("type", "DT_FLOAT"))), None if dims is None else tuple(dims))]
