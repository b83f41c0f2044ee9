"""TensorList (TensorFlow 2) and TensorArray (TensorFlow 1)."""

from __future__ import annotations

from dataclasses import replace

from MNN.frontends.tensorflow import lists
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.handles import ListHandle
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import Shape


def _element(ctx: Context, value: Value) -> tuple[Shape | None, Value | None]:
    """What an operand tells of the elements' shape: as far as it is constant, or the operand itself."""
    known = ctx.constant_ints(value)
    if known is None:
        return (None, value) if value.shape != () else (None, None)
    if value.shape == () or any(d < 0 for d in known):
        return None, None
    return tuple(known), None


@tf_op("TensorListReserve")
def reserve(ctx: Context, node: TfNode) -> Value:
    element, sizes = _element(ctx, node.input(0))
    return lists.reserved(ctx, node.input(1), element, sizes, node.known_dtype("element_dtype"))


@tf_op("EmptyTensorList")
def empty(ctx: Context, node: TfNode) -> Value:
    element, _ = _element(ctx, node.input(0))
    made = lists.reserved(ctx, ctx.const(0, DType.I32), None, None, node.known_dtype("element_dtype"))
    made.element = element
    return made


@tf_op("TensorListFromTensor")
def from_tensor(ctx: Context, node: TfNode) -> Value:
    return lists.of_stacked(ctx, node.input(0))


@tf_op("TensorListScatter", "TensorListScatterV2")
def scatter(ctx: Context, node: TfNode) -> Value:
    return _scattered(ctx, node, node.input(0), node.input(1))


@tf_op("TensorListScatterIntoExistingList")
def scatter_into(ctx: Context, node: TfNode) -> Value:
    source, at = node.list_input(0), node.input(2)
    if source.stacked is None or source.growing:
        return _scattered(ctx, node, node.input(1), at)
    row = ctx.op("Unsqueeze", at, squeezeDims=[1])
    whole = source.stacked
    stacked = ctx.op("ScatterNd", row, node.input(1), ctx.op("Shape", whole), whole)
    stacked.dtype, stacked.shape = whole.dtype, whole.shape
    return replace(source, stacked=stacked)


def _scattered(ctx: Context, node: TfNode, values: Value, at: Value) -> Value:
    """A list whose elements are put at places: here, all of them in order."""
    places = ctx.constant_ints(at)
    count = at.shape[0] if at.shape else None
    if places is not None and places != list(range(len(places))):
        if sorted(places) != list(range(len(places))):
            raise node.unsupported(f"writing to the places {places[:8]} alone", "write all elements")
        row = ctx.op("Unsqueeze", at, squeezeDims=[1])
        return lists.of_stacked(ctx, ctx.op("ScatterNd", row, values, ctx.op("Shape", values)))
    if places is None and not _counted(ctx, at):
        raise node.unsupported(f"writing to {count} places that are not known to be in order", "write all in order")
    return lists.of_stacked(ctx, values)


def _counted(ctx: Context, at: Value) -> bool:
    """Whether these are the numbers from 0 on: a Range by one."""
    made = next((n for n in reversed(ctx.graph.nodes) if at in n.outputs), None)
    if made is None or made.op != "Range":
        return False
    return ctx.constant_ints(made.inputs[0]) == [0] and ctx.constant_ints(made.inputs[2]) == [1]


@tf_op("TensorListSetItem")
def set_item(ctx: Context, node: TfNode) -> Value:
    source = node.list_input(0)
    growing = node.bool_attr("resize_if_index_out_of_bounds", False) or source.growing
    return lists.write(ctx, replace(source, growing=growing), node.input(1), node.input(2), node.where)


@tf_op("TensorListGetItem")
def get_item(ctx: Context, node: TfNode) -> Value:
    return lists.read(ctx, node.list_input(0), node.input(1), node.where)


@tf_op("TensorListPushBack")
def push_back(ctx: Context, node: TfNode) -> Value:
    return lists.push(ctx, node.list_input(0), node.input(1))


@tf_op("TensorListConcatLists")
def concat_lists(ctx: Context, node: TfNode) -> Value:
    first, second = (lists.stack(ctx, node.list_input(i), node.where) for i in (0, 1))
    return lists.of_stacked(ctx, ctx.op("Concat", first, second, axis=0))


@tf_op("TensorListResize")
def resize(ctx: Context, node: TfNode) -> Value:
    """As many elements; new ones at the end are not written yet."""
    return lists.resized(ctx, node.list_input(0), node.input(1), node.where)


@tf_op("TensorListPopBack")
def pop_back(ctx: Context, node: TfNode) -> list[Value]:
    return list(lists.pop(ctx, node.list_input(0), node.where))


@tf_op("TensorListStack")
def stack(ctx: Context, node: TfNode) -> Value:
    node.ignore("num_elements")
    return lists.stack(ctx, node.list_input(0), node.where)


@tf_op("TensorListGather")
def gather(ctx: Context, node: TfNode) -> Value:
    return _gathered(ctx, node, node.list_input(0))


def _gathered(ctx: Context, node: TfNode, source: ListHandle) -> Value:
    whole = lists.stack(ctx, source, node.where)
    if _counted(ctx, node.input(1)):  # all of them, usually
        made = next(n for n in ctx.graph.nodes if node.input(1) in n.outputs)
        last = ctx.constant_ints(made.inputs[1])
        if last and whole.shape and last[0] == whole.shape[0]:
            return whole
    return ctx.op("GatherV2", whole, node.input(1), ctx.const(0, DType.I32))


@tf_op("TensorListLength")
def length(ctx: Context, node: TfNode) -> Value:
    return lists.length(ctx, node.list_input(0))


@tf_op("TensorListElementShape")
def element_shape(ctx: Context, node: TfNode) -> Value:
    whole = lists.stack(ctx, node.list_input(0), node.where)
    kind = "DT_INT64" if node.known_dtype("shape_type") is DType.I64 else "DT_INT32"
    return ctx.op("Shape", whole, hasStart=True, start=1, outputDataType=kind)


@tf_op("TensorListConcat", "TensorListConcatV2")
def concat(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("element_shape")
    return _joined(ctx, node, node.list_input(0))


def _joined(ctx: Context, node: TfNode, source: ListHandle) -> list[Value]:
    """The elements one after the other along their first axis, and how long each was."""
    if source.items is not None and all(v is not None for v in source.items) and source.items:
        items = [v for v in source.items if v is not None]
        firsts = [_sizes(ctx, v, 1) for v in items]
        return [ctx.op("Concat", *v, axis=0) if len(v) > 1 else v[0] for v in (items, firsts)]
    whole = lists.stack(ctx, source, node.where)
    tail = ctx.op("Shape", whole, hasStart=True, start=2)
    shape = ctx.op("Concat", ctx.const([-1], DType.I32), tail, axis=0)
    count, each = ctx.emit("Slice", [_sizes(ctx, whole, 2)], 2, axis=0, slicePoints=[1, 1], sourceType="TORCH")
    lengths = ctx.op("Fill", count, ctx.op("Squeeze", each, squeezeDims=[0]))
    return [ctx.op("Reshape", whole, shape), lengths]


def _sizes(ctx: Context, x: Value, count: int) -> Value:
    """The first sizes of a tensor, i64."""
    return ctx.op("Shape", x, hasStart=True, start=0, hasEnd=True, end=count, outputDataType="DT_INT64")


# -- TensorFlow 1: operators take a handle and the "flow", which is what carries the elements here ---------------------


@tf_op("TensorArrayV3")
def array(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("clear_after_read", "tensor_array_name", "identical_element_shapes")
    element = node.shape_attr("element_shape", node.name)
    made = lists.reserved(ctx, node.input(0), element, None, node.known_dtype("dtype"))
    made.growing = node.bool_attr("dynamic_size", False)
    return [made, made]


@tf_op("TensorArrayReadV3")
def array_read(ctx: Context, node: TfNode) -> Value:
    return lists.read(ctx, node.list_input(2), node.input(1), node.where)


@tf_op("TensorArrayWriteV3")
def array_write(ctx: Context, node: TfNode) -> Value:
    return lists.write(ctx, node.list_input(3), node.input(1), node.input(2), node.where)


@tf_op("TensorArrayGatherV3")
def array_gather(ctx: Context, node: TfNode) -> Value:
    node.ignore("element_shape")
    return _gathered(ctx, node, node.list_input(2))


@tf_op("TensorArrayScatterV3")
def array_scatter(ctx: Context, node: TfNode) -> Value:
    return _scattered(ctx, node, node.input(2), node.input(1))


@tf_op("TensorArrayConcatV3")
def array_concat(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("element_shape_except0")
    return _joined(ctx, node, node.list_input(1))


@tf_op("TensorArraySplitV3", "TensorListSplit")
def array_split(ctx: Context, node: TfNode) -> Value:
    """Pieces of one tensor as elements."""
    values, sizes = (
        (node.input(1), node.input(2)) if node.op.startswith("TensorArray") else (node.input(0), node.input(2))
    )
    counts = ctx.constant_ints(sizes)
    if counts is None:
        raise node.unsupported("sizes that are not constant", "use constants")
    parts = ctx.emit("Slice", [values], len(counts), axis=0, slicePoints=counts, sourceType="TORCH")
    parts = parts if len(counts) > 1 else [values]
    return ListHandle(ctx.unique(f"{ctx.stem()}/list"), values.dtype, items=tuple(parts))


@tf_op("TensorArraySizeV3")
def array_size(ctx: Context, node: TfNode) -> Value:
    return lists.length(ctx, node.list_input(1))


@tf_op("TensorArrayCloseV3")
def array_close(ctx: Context, node: TfNode) -> list[Value]:
    return []
