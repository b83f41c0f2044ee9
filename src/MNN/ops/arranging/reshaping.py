"""Operators that give the same elements another shape or order, and those that tell shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import broadcast, elements, normalize_axis
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand, optional


@register("Reshape")
class Reshape(Operator):
    """Reshapes to ``dims`` or to the second operand: 0 copies a size of the input, -1 is computed."""

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

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        return [reshape(b, x, b.ints(operand(b, inputs, 1), "the new shape"))]


@register("Flatten")
class Flatten(Operator):
    """A matrix: axes before ``axis`` become rows, the others columns."""

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
        return [b.const(np.asarray(x.shape[start:end], np.int64), dtype)]


@register("Size")
class Size(Operator):
    """The number of elements, a scalar."""

    attributes = {"outputDataType": "DT_INT32"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        dtype = from_data_type(self.str_attr(node, "outputDataType"), b.where)
        return [b.const(np.asarray(elements(operand(b, inputs, 0).shape), np.int64), dtype)]


@register("Rank")
class Rank(Operator):
    """The number of axes, a scalar i32."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [b.const(np.asarray(operand(b, inputs, 0).rank), DType.I32)]
