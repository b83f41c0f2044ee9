"""Sequences and optionals: lists of tensors whose length is known when the program is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import normalize_axis
from MNN.ops.arranging.slicing import split
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand, optional
from MNN.ops.inference import infer


@dataclass(eq=False)
class ListTensor(Tensor):
    """A sequence of tensors passed around as one value; it never reaches a kernel.

    ``items`` is None for an optional that is absent. ``shape`` is ``(length,)``, ``dtype`` that of the items.
    """

    items: tuple[Tensor, ...] | None = None

    @property
    def absent(self) -> bool:
        return self.items is None

    def assemble(self, parts: Sequence[object]) -> object:
        """What a user gets for this value, from what they get for its items: a list, or None for an empty optional."""
        return None if self.items is None else list(parts)

    @staticmethod
    def of(items: Sequence[Tensor] | None, dtype: DType = DType.F32) -> ListTensor:
        """A sequence of these tensors; ``dtype`` counts when there are none."""
        kept = None if items is None else tuple(items)
        return ListTensor(kept[0].dtype if kept else dtype, (len(kept or ()),), items=kept)


def items(b: Builder, inputs: Sequence[Tensor | None], index: int) -> tuple[Tensor, ...]:
    """The tensors of a sequence operand."""
    found = operand(b, inputs, index)
    if type(found) is not ListTensor or found.items is None:
        what = "maps" if isinstance(found, ListTensor) and found.items is not None else str(found)
        raise ShapeError(f"{b.where}: input {index} must be a sequence of tensors, found {what}")
    return found.items


def _position(b: Builder, given: Tensor | None, count: int, room: int) -> int | None:
    """A position in a sequence; ``room`` is 1 where the end counts too."""
    if given is None:
        return None
    at = int(b.value(given, "the position").reshape(-1)[0])
    if not -count <= at < count + room:
        raise ShapeError(f"{b.where}: position {at} is outside a sequence of {count}")
    return at + count if at < 0 else at


@register("SequenceConstruct")
class SequenceConstruct(Operator):
    """The operands as a sequence."""

    gives_sequence = True
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [ListTensor.of([operand(b, inputs, i) for i in range(len(inputs))])]


@register("SequenceEmpty")
class SequenceEmpty(Operator):
    """A sequence of no tensors."""

    gives_sequence = True
    in_mnn = False
    attributes = {"dtype": "DT_FLOAT"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [ListTensor.of([], from_data_type(self.str_attr(node, "dtype"), b.where))]


@register("SequenceInsert")
class SequenceInsert(Operator):
    """sequence, tensor, position?: with the tensor put in before the position (at the end when absent)."""

    gives_sequence = True
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        kept, new = list(items(b, inputs, 0)), operand(b, inputs, 1)
        at = _position(b, optional(inputs, 2), len(kept), 1)
        kept.insert(len(kept) if at is None else at, new)
        return [ListTensor.of(kept)]


@register("SequenceErase")
class SequenceErase(Operator):
    """sequence, position?: without the tensor there (the last one when absent)."""

    gives_sequence = True
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        kept = list(items(b, inputs, 0))
        if not kept:
            raise ShapeError(f"{b.where}: nothing to take out of an empty sequence")
        at = _position(b, optional(inputs, 1), len(kept), 0)
        kept.pop(-1 if at is None else at)
        return [ListTensor.of(kept, operand(b, inputs, 0).dtype)]


@register("SequenceAt")
class SequenceAt(Operator):
    """sequence, position: the tensor there."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        kept = items(b, inputs, 0)
        at = _position(b, operand(b, inputs, 1), len(kept), 0)
        return [kept[at or 0]]


@register("SequenceLength")
class SequenceLength(Operator):
    """The number of tensors, a scalar i64."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [b.const(np.asarray(len(items(b, inputs, 0)), np.int64))]


@register("ConcatFromSequence")
class ConcatFromSequence(Operator):
    """The tensors one after the other along ``axis``, or stacked along a new one."""

    in_mnn = False
    attributes = {"axis": 0, "newAxis": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        kept = items(b, inputs, 0)
        if not kept:
            raise ShapeError(f"{b.where}: nothing to concatenate, the sequence is empty")
        axis = self.int_attr(node, "axis")
        if self.bool_attr(node, "newAxis"):
            axis = normalize_axis(axis, kept[0].rank + 1, b.where)
            kept = tuple(b.unsqueeze(t, [axis]) for t in kept)
        return [b.concat(kept, axis)]


@register("SplitToSequence")
class SplitToSequence(Operator):
    """x, sizes?: pieces along ``axis``; a scalar is the size of each, without sizes each has one element.

    ``keepDims`` False drops the axis when no sizes are given.
    """

    gives_sequence = True
    in_mnn = False
    attributes = {"axis": 0, "keepDims": True}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, given = operand(b, inputs, 0), optional(inputs, 1)
        axis = normalize_axis(self.int_attr(node, "axis"), x.rank, b.where)
        size = x.shape[axis]
        if given is None:
            pieces = split(b, x, axis, [1] * size)
            return [
                ListTensor.of(pieces if self.bool_attr(node, "keepDims") else [b.squeeze(t, [axis]) for t in pieces])
            ]
        sizes = b.ints(given, "the sizes")
        if given.rank == 0:
            if sizes[0] < 1:
                raise ShapeError(f"{b.where}: pieces of {sizes[0]} elements")
            sizes = tuple(min(sizes[0], size - at) for at in range(0, size, sizes[0]))
        return [ListTensor.of(split(b, x, axis, sizes), x.dtype)]


@register("Optional")
class Optional(Operator):
    """The operand, or nothing."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [optional(inputs, 0) or ListTensor.of(None)]


@register("OptionalHasElement")
class OptionalHasElement(Operator):
    """Whether there is a value."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        found = optional(inputs, 0)
        absent = found is None or (isinstance(found, ListTensor) and found.absent)
        return [b.const(np.asarray(not absent))]


@register("OptionalGetElement")
class OptionalGetElement(Operator):
    """The value. Raises :class:`ShapeError` when there is none."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        found = operand(b, inputs, 0)
        if isinstance(found, ListTensor) and found.absent:
            raise ShapeError(f"{b.where}: the optional is empty; ask with OptionalHasElement first")
        return [found]


@infer.rule(SequenceLength)
def _infer_length(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(DType.I64, ())]


@infer.rule(OptionalHasElement)
def _infer_presence(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(DType.BOOL, ())]
