"""Reading and writing at computed positions, and sorting."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Gather as GatherPrim
from MNN.ir.prims import Tensor, TopK
from MNN.ir.shape import elements, normalize_axis
from MNN.ops.arranging.creating import checked_shape, iota
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand, optional
from MNN.ops.inference import infer


def as_index(b: Builder, indices: Tensor) -> Tensor:
    """Indices as i32 or i64. Raises :class:`ShapeError` for other kinds of numbers."""
    if indices.dtype in (DType.I32, DType.I64):
        return indices
    if not indices.dtype.is_int:
        raise ShapeError(f"{b.where}: indices must be integers, found {indices.dtype.value}")
    return b.cast(indices, DType.I64)


def _axis(b: Builder, given: Tensor | None, default: int, rank: int) -> int:
    axis = default if given is None else b.ints(given, "the axis")[0]
    return normalize_axis(axis, rank, b.where)


@register("GatherV2")
class GatherV2(Operator):
    """data, indices, axis?: whole slices of data along an axis; the indices' shape takes the axis' place.
    ``paddingIndex`` is that of the slice that is not trained, -1 where all are."""

    attributes = {"Taxis": "DT_INVALID", "Tindices": "DT_INVALID", "Tparams": "DT_INVALID", "paddingIndex": -1}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        data, indices = operand(b, inputs, 0), as_index(b, operand(b, inputs, 1))
        axis, padding = _axis(b, optional(inputs, 2), 0, data.rank), self.int_attr(node, "paddingIndex")
        if padding >= 0 and axis == 0 and data.rank > 0:
            return [_embedding(b, data, indices, padding)]
        return [take(b, data, indices, axis)]


def _embedding(b: Builder, data: Tensor, indices: Tensor, padding: int) -> Tensor:
    """Rows of data, one of which gets no gradient."""
    index = b.reshape(indices, (*indices.shape, *[1] * (data.rank - 1)))
    walk = (-1, *[indices.rank + d for d in range(data.rank - 1)])
    prim = GatherPrim([data, index], indexed=(0,), walk=walk, still=padding)
    return b.emit(prim, (data.dtype, (*indices.shape, *data.shape[1:])))[0]


@register("Gather")
class Gather(Operator):
    """Like GatherV2, with the axis as an attribute."""

    attributes = {"Tindices": "DT_INVALID", "Tparams": "DT_INVALID", "validateIndices": False, "axis": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        data = operand(b, inputs, 0)
        axis = normalize_axis(self.int_attr(node, "axis"), data.rank, b.where)
        return [take(b, data, as_index(b, operand(b, inputs, 1)), axis)]


def take(b: Builder, data: Tensor, indices: Tensor, axis: int) -> Tensor:
    """``b.take``; a single constant index becomes a slice, which costs nothing."""
    if data.rank == 0:
        raise ShapeError(f"{b.where}: cannot index a scalar")
    if indices.const is not None and indices.const.size == 1:
        at, size = int(indices.const.reshape(-1)[0]), data.shape[axis]
        if -size <= at < size:
            starts, counts = [0] * data.rank, list(data.shape)
            starts[axis], counts[axis] = at % size, 1
            one = b.slice(data, starts, counts)
            return b.reshape(one, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]))
    return b.take(data, indices, axis)


@register("GatherElements")
class GatherElements(Operator):
    """data, indices, axis?: one element per index; other coordinates are those of the index."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        data, indices = operand(b, inputs, 0), as_index(b, operand(b, inputs, 1))
        axis = _axis(b, optional(inputs, 2), 0, data.rank)
        _check_elementwise(b, data, indices, axis)
        return [b.gather(data, [indices], [axis], _walk(data.rank, axis), indices.shape)]


def _walk(rank: int, axis: int) -> list[int]:
    return [-1 if d == axis else d for d in range(rank)]


def _check_elementwise(b: Builder, data: Tensor, indices: Tensor, axis: int) -> None:
    fits = data.rank == indices.rank and all(
        i <= d for k, (i, d) in enumerate(zip(indices.shape, data.shape, strict=True)) if k != axis
    )
    if not fits:
        raise ShapeError(
            f"{b.where}: indices of shape {list(indices.shape)} do not fit data of shape {list(data.shape)}"
        )


@register("GatherND")
class GatherND(Operator):
    """data, indices: the last axis of indices holds coordinates into data, after ``batchDims`` common axes."""

    attributes = {"batchDims": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        data, indices = operand(b, inputs, 0), as_index(b, operand(b, inputs, 1))
        batch = self.int_attr(node, "batchDims")
        depth = indices.shape[-1] if indices.rank else 0
        if not (0 <= batch < max(indices.rank, 1) and batch + depth <= data.rank and indices.rank):
            raise ShapeError(
                f"{b.where}: indices {list(indices.shape)} do not fit data {list(data.shape)} with {batch} batch axes"
            )
        if data.shape[:batch] != indices.shape[:batch]:
            raise ShapeError(f"{b.where}: batch axes of {list(data.shape)} and {list(indices.shape)} differ")
        rest = data.rank - batch - depth
        shape = (*indices.shape[:-1], *data.shape[batch + depth :])
        lines = [b.reshape(t, t.shape[:-1] + (1,) * rest) for t in _columns(b, indices)]
        walk = [
            d if d < batch else -1 if d < batch + depth else d - batch - depth + indices.rank - 1
            for d in range(data.rank)
        ]
        return [b.gather(data, lines, range(batch, batch + depth), walk, shape)]


def _columns(b: Builder, indices: Tensor) -> list[Tensor]:
    """The coordinates along the last axis, each of shape ``[..., 1]``."""
    out = []
    for j in range(indices.shape[-1]):
        starts, counts = [0] * indices.rank, list(indices.shape)
        starts[-1], counts[-1] = j, 1
        out.append(b.slice(indices, starts, counts))
    return [b.reshape(t, t.shape) for t in out]


_REDUCTION = {"NONE": "set", "ADD": "add", "MUL": "mul", "MAXIMUM": "max", "MINIMUM": "min"}


def _combine(op: Operator, b: Builder, node: Node) -> str:
    name = op.str_attr(node, "opType")
    if name not in _REDUCTION:
        raise ShapeError(f"{b.where}: opType {name} is not one of {', '.join(_REDUCTION)}")
    return _REDUCTION[name]


@register("ScatterElements")
class ScatterElements(Operator):
    """data, indices, updates, axis?: data with updates at the indices; ``opType`` combines with what is there."""

    keeps_shape = True
    attributes = {"opType": "NONE", "T": "DT_FLOAT", "activationType": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        data, indices, updates = operand(b, inputs, 0), as_index(b, operand(b, inputs, 1)), operand(b, inputs, 2)
        axis = _axis(b, optional(inputs, 3), 0, data.rank)
        _check_elementwise(b, data, indices, axis)
        if updates.shape != indices.shape or updates.dtype is not data.dtype:
            raise ShapeError(f"{b.where}: updates {updates} do not fit indices {list(indices.shape)} and {data}")
        return [b.scatter(_combine(self, b, node), data, updates, [indices], [axis], _walk(data.rank, axis))]


@register("ScatterNd")
class ScatterNd(Operator):
    """indices, updates, shape, data?: updates at coordinates held by the indices' last axis.

    Without data they are added into zeros of the given shape; with data, ``opType`` combines with what is there.
    """

    attributes = {"opType": "NONE", "T": "DT_FLOAT", "activationType": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        indices, updates = as_index(b, operand(b, inputs, 0)), operand(b, inputs, 1)
        data = optional(inputs, 3)
        combine = _combine(self, b, node)
        if data is None:
            dims = checked_shape(b, b.ints(operand(b, inputs, 2), "the shape"))
            data, combine = b.expand(b.like(0, updates), dims), "add"
        depth = indices.shape[-1] if indices.rank else 0
        wanted = (*indices.shape[:-1], *data.shape[depth:])
        if not indices.rank or depth > data.rank or updates.shape != wanted or updates.dtype is not data.dtype:
            raise ShapeError(
                f"{b.where}: updates {updates} do not fit indices {list(indices.shape)} and data {data}, "
                f"expected shape {list(wanted)}"
            )
        rest = data.rank - depth
        lines = [b.reshape(t, t.shape[:-1] + (1,) * rest) for t in _columns(b, indices)]
        walk = [-1 if d < depth else d - depth + indices.rank - 1 for d in range(data.rank)]
        return [b.scatter(combine, data, updates, lines, range(depth), walk)]


@register("TopKV2")
class TopKV2(Operator):
    """x, k, axis?: the k largest (or smallest) along an axis, in order, and their positions (``outputDataType``)."""

    sizes_from = 1
    attributes = {"T": "DT_FLOAT", "sorted": False, "largest": True, "outputDataType": "DT_INT32"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        ks = b.ints(operand(b, inputs, 1), "k")
        axis = _axis(b, optional(inputs, 2), -1, x.rank)
        if len(ks) != 1 or not x.rank or not 0 <= ks[0] <= x.shape[axis]:
            raise ShapeError(f"{b.where}: cannot take the first {list(ks)} along axis {axis} of {list(x.shape)}")
        k, largest = ks[0], self.bool_attr(node, "largest")
        dtype = from_data_type(self.str_attr(node, "outputDataType"), b.where)
        last = [i for i in range(x.rank) if i != axis] + [axis]  # kernels look along the last axis
        x = b.permute(x, last)
        shape = (*x.shape[:-1], k)
        found = b.emit(TopK([x], axis=x.rank - 1, largest=largest), (x.dtype, shape), (dtype, shape))
        return [b.permute(t, sorted(range(x.rank), key=last.__getitem__)) for t in found]


@register("ReverseSequence")
class ReverseSequence(Operator):
    """x, lengths: the first ``lengths[i]`` elements along ``seqDim`` of batch entry i in the opposite order."""

    keeps_shape = True
    attributes = {"batchDim": 0, "seqDim": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, lengths = operand(b, inputs, 0), b.cast(as_index(b, operand(b, inputs, 1)), DType.I64)
        batch = normalize_axis(self.int_attr(node, "batchDim"), x.rank, b.where)
        line = normalize_axis(self.int_attr(node, "seqDim"), x.rank, b.where)
        if batch == line or lengths.shape != (x.shape[batch],):
            raise ShapeError(
                f"{b.where}: {list(lengths.shape)} lengths for an input of shape {list(x.shape)}, batch axis {batch}, "
                f"sequence axis {line}"
            )
        count = b.reshape(lengths, [x.shape[batch] if i == batch else 1 for i in range(x.rank)])
        step = b.reshape(iota(b, x.shape[line]), [x.shape[line] if i == line else 1 for i in range(x.rank)])
        index = b.map(
            lambda s, n, i: s("select", s("lt", i, n), s("sub", s("sub", n, s.const(1, DType.I64)), i), i), count, step
        )
        return [b.gather(x, [index], [line], [-1 if d == line else d for d in range(x.rank)], x.shape)]


@register("UnravelIndex")
class UnravelIndex(Operator):
    """indices, dims: coordinates of flat positions, one row per axis."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        flat, dims = operand(b, inputs, 0), b.ints(operand(b, inputs, 1), "the sizes")
        rows = []
        for i, size in enumerate(dims):
            below = elements(dims[i + 1 :])
            part = b.op("floordiv", flat, b.like(below, flat))
            rows.append(b.unsqueeze(b.op("mod", part, b.like(size, flat)), [0]))
        return [b.concat(rows, 0)]


@register("TensorScatter")
class TensorScatter(Operator):
    """cache, update, first positions?: the update written along ``axis`` from each batch entry's position on.

    ``mode`` circular wraps around at the end of the cache; linear must fit.
    """

    keeps_shape = True
    in_mnn = False
    attributes = {"axis": -2, "mode": "linear"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        cache, update, first = operand(b, inputs, 0), operand(b, inputs, 1), optional(inputs, 2)
        axis = normalize_axis(self.int_attr(node, "axis"), cache.rank, b.where)
        fits = cache.rank == update.rank and all(
            c == u or (i == axis and u <= c) for i, (c, u) in enumerate(zip(cache.shape, update.shape, strict=False))
        )
        if not fits or axis == 0 or cache.dtype is not update.dtype:
            raise ShapeError(f"{b.where}: update {update} does not fit cache {cache} along axis {axis}")
        line = b.reshape(iota(b, update.shape[axis]), [-1 if i == axis else 1 for i in range(cache.rank)])
        if first is not None:
            if elements(first.shape) != cache.shape[0]:
                raise ShapeError(f"{b.where}: {list(first.shape)} positions for a batch of {cache.shape[0]}")
            start = b.reshape(b.cast(first, DType.I64), [-1] + [1] * (cache.rank - 1))
            line = b.op("add", line, start)
        if self.str_attr(node, "mode") == "circular":
            line = b.op("mod", line, b.like(cache.shape[axis], line))
        walk = [-1 if d == axis else d for d in range(cache.rank)]
        return [b.scatter("set", cache, update, [line], [axis], walk)]


@infer.rule(GatherV2, Gather)
def _infer_gather(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    data, indices = infer.operand(node, 0), infer.operand(node, 1)
    known, picked = infer.sizes(data), infer.sizes(indices)
    given = h.known_ints(node.inputs[2]) if len(node.inputs) > 2 else [infer.number(node, "axis")]
    numbers, at = h.ints(data), h.known_ints(indices)
    if numbers is not None and at is not None and all(-len(numbers) <= i < len(numbers) for i in at):
        h.numbers[node.outputs[0]] = [numbers[i] for i in at]
    if known is None or picked is None or given is None:
        return [(data.dtype, None)]
    axis = infer.axis_of(given[0], len(known))
    return [(data.dtype, (*known[:axis], *picked, *known[axis + 1 :]))]


@infer.rule(GatherElements)
def _infer_gather_elements(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(infer.operand(node, 0).dtype, infer.sizes(infer.operand(node, 1)))]


@infer.rule(GatherND)
def _infer_gather_nd(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    data, indices = infer.operand(node, 0), infer.operand(node, 1)
    known, picked = infer.sizes(data), infer.sizes(indices)
    if known is None or not picked or not isinstance(picked[-1], int):
        return [(data.dtype, None)]
    return [(data.dtype, (*picked[:-1], *known[infer.number(node, "batchDims") + picked[-1] :]))]


@infer.rule(ScatterNd)
def _infer_scatter_nd(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        return [(node.inputs[3].dtype, infer.sizes(node.inputs[3]))]
    dims = h.ints(node.inputs[2])
    return [(infer.operand(node, 1).dtype, None if dims is None else tuple(dims))]


@infer.rule(TopKV2)
def _infer_top_k(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, k = infer.operand(node, 0), h.ints(node.inputs[1])
    known, given = infer.sizes(x), h.known_ints(node.inputs[2]) if len(node.inputs) > 2 else [-1]
    if known is None or given is None:
        return [(x.dtype, None), (infer.index_type(node), None)]
    axis = infer.axis_of(given[0], len(known))
    out = (*known[:axis], k[0] if k else None, *known[axis + 1 :])
    return [(x.dtype, out), (infer.index_type(node), out)]
