"""Identity: the same tensor under another name."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.graph import Node, Value
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.inference import infer

COPY = "Identity"


@register(COPY)
class Identity(Operator):
    """``y = x``."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        if not inputs or inputs[0] is None:
            raise ShapeError(f"{b.where}: its input is missing")
        return [inputs[0]]


def is_copy(node: Node) -> bool:
    """Whether a node only gives its operand another name."""
    return node.op == COPY


def copying(value: Value, name: str) -> Node:
    """A node whose result, of this name, is a copy of a value."""
    return copied(value, Value(name, value.dtype, value.shape))


def copied(value: Value, out: Value) -> Node:
    """A node that gives a value under the name of ``out``."""
    return Node(COPY, out.name, [value], [out], {})


@infer.rule(Identity)
def _infer_identity(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    infer.pass_numbers(h, node)
    return [(x.dtype, infer.sizes(x))]
