"""TensorLists and TensorArrays as tensors: the elements along axis 0."""

from __future__ import annotations

from dataclasses import replace

from MNN.errors import UnsupportedError
from MNN.frontends.common.expressions import binary, insert_axis
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.handles import ListHandle
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import Shape, static

MAX_ITEMS = 1 << 16


def reserved(ctx: Context, count: Value, element: Shape | None, sizes: Value | None, dtype: DType | None) -> ListHandle:
    """A list of ``count`` elements; zeros where their shape is known (``element``, or ``sizes`` while running)."""
    made = ListHandle(ctx.unique(f"{ctx.stem()}/list"), dtype, count=count, element=element)
    known = static(element)
    if known is not None:
        sizes = ctx.const(list(known), DType.I32)
    if sizes is not None and dtype is not None:
        whole = ctx.op("Concat", one(ctx, count), sizes, axis=0)
        made.stacked = ctx.op("Fill", whole, ctx.const_like(0, Value("", dtype)))
        return made
    counted = ctx.constant_ints(count)
    if counted is not None and 0 <= counted[0] <= MAX_ITEMS:
        made.items = (None,) * counted[0]
    return made


def one(ctx: Context, number: Value) -> Value:
    """A scalar as a vector of one i32."""
    out = ctx.op("Reshape", number, ctx.const([1]))
    out.dtype = number.dtype
    return out if number.dtype is DType.I32 else ctx.op("Cast", out, dstT="DT_INT32")


def of_stacked(ctx: Context, stacked: Value) -> ListHandle:
    """A list of the elements along axis 0."""
    return ListHandle(ctx.unique(f"{ctx.stem()}/list"), stacked.dtype, stacked=stacked)


def settled(ctx: Context, source: ListHandle, where: str) -> ListHandle:
    """The same list with its elements in one tensor, if any are there."""
    if source.stacked is not None or not source.items or all(v is None for v in source.items):
        return source
    return replace(source, stacked=stack(ctx, source, where), items=None)


def write(ctx: Context, source: ListHandle, index: Value, item: Value, where: str) -> ListHandle:
    """The list with an element written."""
    if source.stacked is None and source.items is None and source.count is not None and not source.unseen:
        source = _of_zeros(ctx, source, source.count, insert_axis(ctx, item, 0))
    if source.stacked is not None:
        whole = source.stacked.shape
        if whole and whole[0] == 1 and whole[1:] == item.shape and ctx.constant_ints(index) == [0]:
            return replace(source, stacked=insert_axis(ctx, item, 0))
        before = _grown(ctx, source.stacked, index) if source.growing else source.stacked
        at = ctx.op("Reshape", index, ctx.const([1, 1]))
        stacked = ctx.op("ScatterNd", at, insert_axis(ctx, item, 0), ctx.op("Shape", before), before)
        stacked.dtype, stacked.shape = before.dtype, before.shape
        return replace(source, stacked=stacked)
    at_number = ctx.constant_ints(index)
    if source.items is not None and at_number is not None:
        items = list(source.items)
        if not 0 <= at_number[0] < MAX_ITEMS:
            raise UnsupportedError(f"{where}: element {at_number[0]} of a list is not supported")
        items += [None] * (at_number[0] + 1 - len(items))
        items[at_number[0]] = item
        return replace(source, items=tuple(items))
    return _written(source, item, index)


def _written(source: ListHandle, item: Value, index: Value | None) -> ListHandle:
    """The list with the element that this turn writes."""
    if source.unseen is not None:
        source.unseen.item = item
        source.unseen.needed = source.unseen.needed or source.written is not None
    return replace(source, written=item, written_at=index)


def _of_zeros(ctx: Context, source: ListHandle, count: Value, like: Value) -> ListHandle:
    """As many elements as are to be, each of the type and the sizes of one of ``like``, which has them along axis 0;
    of ``like`` no number is read."""
    element = None if like.shape is None else like.shape[1:]
    known = static(element)
    sizes = ctx.op("Shape", like, hasStart=True, start=1) if known is None else ctx.const(list(known), DType.I32)
    whole = ctx.op("Concat", one(ctx, count), sizes, axis=0)
    stacked = ctx.op("Fill", whole, ctx.const_like(0, like))
    stacked.dtype = like.dtype
    if element is not None:
        number = ctx.constant_ints(count)
        stacked.shape = (number[0] if number else f"{stacked.name}.0", *element)
    return replace(source, stacked=stacked, items=None)


def of_zeros_like(ctx: Context, source: ListHandle, like: Value) -> ListHandle:
    """A list nothing has been written to, with zeros as its elements, each of the type and the sizes of one of ``like``
    (``[any number, ...]``)."""
    return _of_zeros(ctx, source, length(ctx, source), like)


def some_elements(ctx: Context, source: ListHandle) -> Value | None:
    """Elements along axis 0 that tell what a list's are like, none of them perhaps; None where none is told."""
    if source.stacked is not None:
        return source.stacked
    item = source.written or next((v for v in source.items or () if v is not None), None)
    return None if item is None else insert_axis(ctx, item, 0)


def resized(ctx: Context, source: ListHandle, count: Value, where: str) -> ListHandle:
    """The first ``count`` elements; where there are fewer, zeros behind them."""
    number = ctx.constant_ints(count)
    if source.items is not None and number is not None and 0 <= number[0] <= MAX_ITEMS:
        items = source.items[: number[0]]
        return replace(source, items=(*items, *[None] * (number[0] - len(items))), count=count)
    whole = stack(ctx, source, where)
    if whole.shape is None:
        raise UnsupportedError(f"{where}: a list whose elements have an unknown number of axes is not supported")
    wanted = one(ctx, count)
    longer = _padded(ctx, whole, wanted)
    bounds = (ctx.const([0], DType.I32), wanted, ctx.const([0], DType.I32), ctx.const([1], DType.I32))
    stacked = ctx.op("StridedSlice", longer, *bounds, fromType=1)
    size = number[0] if number is not None else f"{stacked.name}.0"
    stacked.dtype, stacked.shape = whole.dtype, (size, *whole.shape[1:])
    return replace(source, stacked=stacked, items=None, count=count)


def _padded(ctx: Context, stacked: Value, count: Value) -> Value:
    """The elements with zeros behind them, so that there are ``count`` (one i32) at least."""
    here = ctx.op("Shape", stacked, hasStart=True, start=0, hasEnd=True, end=1)
    missing = binary(ctx, "MAXIMUM", binary(ctx, "SUB", count, here), 0)
    others = ctx.const([0] * (2 * len(stacked.shape or ()) - 2), DType.I32)
    pads = ctx.op("Concat", ctx.const([0], DType.I32), missing, others, axis=0)
    return ctx.op("Padding", stacked, pads, mode="CONSTANT")


def _grown(ctx: Context, stacked: Value, index: Value) -> Value:
    """The elements with zeros behind them, so that there is one at ``index``."""
    shape = stacked.shape or ()
    longer = _padded(ctx, stacked, binary(ctx, "ADD", one(ctx, index), 1))
    at = ctx.constant_ints(index)
    known = at is not None and isinstance(shape[0], int)
    size = max(int(shape[0]), at[0] + 1) if at and known else f"{longer.name}.0"
    longer.dtype, longer.shape = stacked.dtype, (size, *shape[1:])
    return longer


def pop(ctx: Context, source: ListHandle, where: str) -> tuple[ListHandle, Value]:
    """The list without its last element, and that element."""
    if source.items:
        last = source.items[-1]
        if last is not None:
            return replace(source, items=source.items[:-1]), last
    whole = stack(ctx, source, where)
    last = ctx.op("GatherV2", whole, ctx.const(-1, DType.I32), ctx.const(0, DType.I32))
    bounds = (ctx.const([n]) for n in (0, -1, 0, 1))
    rest = ctx.op("StridedSlice", whole, *bounds, fromType=1)
    return replace(source, stacked=rest, items=None), last


def push(ctx: Context, source: ListHandle, item: Value) -> ListHandle:
    """The list with one element more."""
    if source.stacked is not None:
        return replace(source, stacked=ctx.op("Concat", source.stacked, insert_axis(ctx, item, 0), axis=0))
    if source.items is not None:
        return replace(source, items=(*source.items, item))
    return _written(source, item, None)


def read(ctx: Context, source: ListHandle, index: Value, where: str) -> Value:
    """An element."""
    number = ctx.constant_ints(index)
    if source.items is not None and number is not None and 0 <= number[0] < len(source.items):
        found = source.items[number[0]]
        if found is not None:
            return found
    return ctx.op("GatherV2", stack(ctx, source, where), index, ctx.const(0, DType.I32))


def stack(ctx: Context, source: ListHandle, where: str) -> Value:
    """All elements along a new axis 0. Raises :class:`UnsupportedError` when they cannot be told."""
    if source.stacked is not None:
        return source.stacked
    items = source.items or ()
    found = [v for v in items if v is not None]
    if not found:
        raise UnsupportedError(
            f"{where}: a list of which elements are read before they are written, of unknown shape, is not supported; "
            "give the list an element shape"
        )
    if len(found) < len(items):  # those not written are zeros of the others' shape
        empty = ctx.op("ZerosLike", found[0])
        found = [empty if v is None else v for v in items]
    return ctx.op("Pack", *found, axis=0)


def length(ctx: Context, source: ListHandle) -> Value:
    """The number of elements, a scalar i32."""
    if source.stacked is not None:
        first = ctx.op("Shape", source.stacked, hasStart=True, start=0, hasEnd=True, end=1)
        return ctx.op("Squeeze", first, squeezeDims=[0])
    if source.items is not None:
        return ctx.const(len(source.items), DType.I32)
    if source.unseen is not None:
        source.unseen.needed = True
    return source.count if source.count is not None else ctx.const(0, DType.I32)
