"""Operators that give the same elements another shape or order, and those that tell shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir import symbolic
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import broadcast, elements, normalize_axis
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.common import numbers
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand, optional
from MNN.ops.inference import infer


@register("Reshape")
class Reshape(Operator):
    """Reshapes to ``dims`` or to the second operand: 0 copies a size of the input, -1 is computed."""

    reshapes = moves = True
    sizes_from = 1
    repeats = True
    attributes = {"dims": None, "dimType": "NCHW"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        given = optional(inputs, 1)
        dims = list(self.ints_attr(node, "dims") if given is None else b.ints(given, "the new shape"))
        for i, d in enumerate(dims):
            if d == 0:
                if i >= x.rank:
                    raise ShapeError(f"{b.where}: shape {dims} copies size {i} of an input of shape {list(x.shape)}")
                dims[i] = x.shape[i]
        return [reshape(b, x, dims)]


def reshape(b: Builder, x: Tensor, dims: Sequence[int]) -> Tensor:
    """``b.reshape`` with a check of what is to be computed."""
    if any(d < -1 for d in dims) or list(dims).count(-1) > 1:
        raise ShapeError(f"{b.where}: {list(dims)} is no shape: at most one size may be -1, none below")
    rest = elements([d for d in dims if d != -1])
    if -1 in dims and (not rest or elements(x.shape) % rest):
        raise ShapeError(f"{b.where}: cannot reshape {list(x.shape)} to {list(dims)}")
    return b.reshape(x, dims)


@register("ReshapeExact")
class ReshapeExact(Operator):
    """Reshape in which 0 means no elements (ONNX ``allowzero``)."""

    reshapes = moves = True
    sizes_from = 1
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        return [reshape(b, x, b.ints(operand(b, inputs, 1), "the new shape"))]


@register("Flatten")
class Flatten(Operator):
    """A matrix: axes before ``axis`` become rows, the others columns."""

    reshapes = moves = True
    repeats = True
    attributes = {"axis": 0, "endAxis": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        axis = self.int_attr(node, "axis")
        if not -x.rank <= axis <= x.rank:
            raise ShapeError(f"{b.where}: axis {axis} is outside a tensor of rank {x.rank}")
        axis += x.rank if axis < 0 else 0
        return [b.reshape(x, (elements(x.shape[:axis]), elements(x.shape[axis:])))]


def _axes(op: Operator, b: Builder, node: Node, inputs: Sequence[Tensor | None], key: str) -> tuple[int, ...]:
    given = optional(inputs, 1)
    return op.ints_attr(node, key) if given is None else b.ints(given, "the axes")


@register("Squeeze")
class Squeeze(Operator):
    """Drops axes of size 1: ``squeezeDims``, the second operand, or all."""

    reshapes = moves = True
    repeats = True
    attributes = {"squeezeDims": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        axes = _axes(self, b, node, inputs, "squeezeDims") or tuple(i for i, d in enumerate(x.shape) if d == 1)
        for a in axes:
            if x.shape[normalize_axis(a, x.rank, b.where)] != 1:
                raise ShapeError(f"{b.where}: axis {a} of {list(x.shape)} cannot be dropped, its size is not 1")
        return [b.squeeze(x, axes)]


@register("Unsqueeze")
class Unsqueeze(Operator):
    """Inserts axes of size 1 at the positions ``squeezeDims`` (or the second operand) of the result."""

    reshapes = moves = True
    repeats = True
    attributes = {"squeezeDims": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        axes = _axes(self, b, node, inputs, "squeezeDims")
        rank = x.rank + len(axes)
        if len({normalize_axis(a, rank, b.where) for a in axes}) != len(axes):
            raise ShapeError(f"{b.where}: axes {list(axes)} name one position twice")
        return [b.unsqueeze(x, axes)]


@register("ExpandDims")
class ExpandDims(Operator):
    """Inserts one axis of size 1 at ``axis`` (or the second operand) of the result."""

    attributes = {"T": "DT_INVALID", "Tdim": "DT_INVALID", "axis": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        given = optional(inputs, 1)
        axes = (self.int_attr(node, "axis"),) if given is None else b.ints(given, "the axis")
        return [b.unsqueeze(operand(b, inputs, 0), axes)]


@register("Permute")
class Permute(Operator):
    """Reorders axes: ``y.shape[i] = x.shape[dims[i]]``; reverses them when ``dims`` is absent."""

    moves = True
    repeats = True
    attributes = {"dims": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        dims = self.ints_attr(node, "dims") or tuple(reversed(range(x.rank)))
        return [b.permute(x, [d + x.rank if d < 0 else d for d in dims])]


@register("Transpose")
class Transpose(Operator):
    """Like Permute, with the order in the second operand."""

    attributes = {"Tperm": "DT_INVALID"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, given = operand(b, inputs, 0), optional(inputs, 1)
        dims = tuple(reversed(range(x.rank))) if given is None else b.ints(given, "the order of axes")
        return [b.permute(x, [d + x.rank if d < 0 else d for d in dims])]


@register("BroadcastTo")
class BroadcastTo(Operator):
    """Broadcasts to the shape in the second operand; a size of 1 there keeps the input's."""

    sizes_from = 1
    attributes = {"axis": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        wanted = b.ints(operand(b, inputs, 1), "the new shape")
        if any(d < 0 for d in wanted):
            raise ShapeError(f"{b.where}: {list(wanted)} is no shape")
        return [b.expand(x, broadcast(x.shape, wanted, where=b.where))]


@register("Tile")
class Tile(Operator):
    """Repeats the input along each axis as often as the second operand says."""

    sizes_from = 1

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        repeats = b.ints(operand(b, inputs, 1), "the repeats")
        if len(repeats) != x.rank or any(r < 0 for r in repeats):
            raise ShapeError(f"{b.where}: repeats {list(repeats)} do not fit an input of shape {list(x.shape)}")
        apart = [d for size in x.shape for d in (1, size)]
        spread = [d for size, r in zip(x.shape, repeats, strict=True) for d in (r, size)]
        whole = [size * r for size, r in zip(x.shape, repeats, strict=True)]
        return [b.reshape(b.expand(b.reshape(x, apart), spread), whole)]


@register("Shape")
class ShapeOf(Operator):
    """The input's sizes from ``start`` to ``end``; i32 unless ``outputDataType`` says otherwise."""

    attributes = {"hasStart": False, "start": 0, "hasEnd": False, "end": 0, "outputDataType": "DT_INT32"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        start = self.int_attr(node, "start") if self.bool_attr(node, "hasStart") else None
        end = self.int_attr(node, "end") if self.bool_attr(node, "hasEnd") else None
        dtype = from_data_type(self.str_attr(node, "outputDataType"), b.where)
        return [numbers(b, x.shape[start:end], dtype)]


@register("Size")
class Size(Operator):
    """The number of elements, a scalar."""

    attributes = {"outputDataType": "DT_INT32"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        dtype = from_data_type(self.str_attr(node, "outputDataType"), b.where)
        return [numbers(b, elements(operand(b, inputs, 0).shape), dtype)]


@register("Rank")
class Rank(Operator):
    """The number of axes, a scalar i32."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [b.const(np.asarray(operand(b, inputs, 0).rank), DType.I32)]


@infer.rule(ShapeOf)
def _infer_shape(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    start = infer.number(node, "start") if node.attrs.get("hasStart") else None
    end = infer.number(node, "end") if node.attrs.get("hasEnd") else None
    known = infer.sizes(x)
    if known is None:
        return [(infer.index_type(node), (None,))]
    h.numbers[node.outputs[0]] = list(known[start:end])
    return [(infer.index_type(node), (len(known[start:end]),))]


@infer.rule(Size, Rank)
def _infer_size(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    known = infer.sizes(infer.operand(node, 0))
    if known is not None:
        h.numbers[node.outputs[0]] = [infer.product(known) if node.op == "Size" else len(known)]
    return [(infer.index_type(node), ())]


@infer.rule(Reshape, ReshapeExact)
def _infer_reshape(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    infer.pass_numbers(h, node)
    wanted: list[symbolic.Size] | None
    given = node.inputs[1] if len(node.inputs) > 1 else None
    wanted = list(infer.ints(node, "dims")) if given is None else h.ints(given)
    if wanted is None:
        count = given.shape[0] if given is not None and given.shape else None
        return [(x.dtype, (None,) * count if isinstance(count, int) and count < 64 else None)]
    known = infer.sizes(x)
    if node.op == "Reshape":
        wanted = [(known[i] if known and i < len(known) else None) if d == 0 else d for i, d in enumerate(wanted)]
    if -1 in wanted:
        wanted[wanted.index(-1)] = _rest(known, [d for d in wanted if d != -1])
    return [(x.dtype, tuple(wanted))]


def _rest(total: infer.Sizes | None, parts: list[symbolic.Size]) -> symbolic.Size:
    """What ``total`` leaves beside ``parts``: names that occur in both cancel."""
    return None if total is None else symbolic.exact_quotient(infer.product(total), infer.product(parts))


@infer.rule(Flatten)
def _infer_flatten(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known, axis = infer.sizes(x), infer.number(node, "axis")
    if known is None:
        return [(x.dtype, (None, None))]
    axis += len(known) if axis < 0 else 0
    return [(x.dtype, (infer.product(known[:axis]), infer.product(known[axis:])))]


@infer.rule(Squeeze)
def _infer_squeeze(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, axes = infer.operand(node, 0), infer.axes_of(h, node, "squeezeDims")
    infer.pass_numbers(h, node)
    known = infer.sizes(x)
    if known is None or axes is None or (not axes and not all(isinstance(d, int) for d in known)):
        return [(x.dtype, None)]
    drop = {infer.axis_of(a, len(known)) for a in axes} if axes else {i for i, d in enumerate(known) if d == 1}
    return [(x.dtype, tuple(d for i, d in enumerate(known) if i not in drop))]


@infer.rule(Unsqueeze, ExpandDims)
def _infer_unsqueeze(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    axes = infer.axes_of(h, node, "squeezeDims")
    if node.op == "ExpandDims" and len(node.inputs) < 2:
        axes = [infer.number(node, "axis")]
    infer.pass_numbers(h, node)
    known = infer.sizes(x)
    if known is None or axes is None:
        return [(x.dtype, None)]
    rank = len(known) + len(axes)
    new, rest = {infer.axis_of(a, rank) for a in axes}, iter(known)
    return [(x.dtype, tuple(1 if i in new else next(rest) for i in range(rank)))]


@infer.rule(Permute, Transpose)
def _infer_permute(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known = infer.sizes(x)
    order = h.known_ints(node.inputs[1]) if len(node.inputs) > 1 else infer.ints(node, "dims")
    if known is None:
        return [(x.dtype, (None,) * len(order) if order else None)]
    if order is None:
        return [(x.dtype, (None,) * len(known))]
    return [(x.dtype, tuple(known[a] for a in order or reversed(range(len(known)))))]


@infer.rule(BroadcastTo)
def _infer_broadcast_to(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, wanted = infer.operand(node, 0), infer.listed(h, node.inputs[1])
    return [(x.dtype, None if wanted is None else infer.broadcast([infer.sizes(x), tuple(wanted)]))]


@infer.rule(Tile)
def _infer_tile(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, repeats = infer.operand(node, 0), h.ints(node.inputs[1])
    known = infer.sizes(x)
    if known is None or repeats is None:
        return [(x.dtype, None if known is None else (None,) * len(known))]
    return [(x.dtype, tuple(infer.product([d, r]) for d, r in zip(known, repeats, strict=True)))]
