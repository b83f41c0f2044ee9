"""The gradient as an operator of graphs."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.autodiff.backward import gradients
from MNN.autodiff.recompute import with_recomputation
from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand
from MNN.ops.inference import infer


@register("Gradient")
class Gradient(Operator):
    """Operands: a number ``y`` (one element), then tensors of floats. Results: the gradient of ``y`` with regard to
    each of them, in its shape and element type; zeros where ``y`` does not depend on it.

    As it is an operator, its results have gradients too. The tensors are usually inputs of the graph: of one that is
    another in another shape there is no gradient. ``activationMemory``: bytes that what ``y`` is computed from
    may take, of which the rest is computed again; 0: everything is kept, -1: all that is not cheaply computed again.
    ``scaled``: the second operand is a number that ``y`` is multiplied by on the way and that the results are divided
    by, so that numbers in between do not vanish in f16 (Micikevicius et al., "Mixed Precision Training", 2018).
    """

    in_mnn = False
    differentiates = True
    attributes = {"activationMemory": 0, "scaled": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        y = operand(b, inputs, 0)
        scale = b.cast(b.reshape(operand(b, inputs, 1), ()), y.dtype) if self.bool_attr(node, "scaled") else None
        wrt = [operand(b, inputs, i) for i in range(1 if scale is None else 2, len(inputs))]
        if elements(y.shape) != 1:
            raise ShapeError(
                f"{b.where}: gradients are taken of one number, '{y.name or 'the loss'}' has the shape "
                f"{list(y.shape)}; reduce it with a mean or a sum"
            )
        if not y.dtype.is_float:
            raise ShapeError(f"{b.where}: gradients are taken of a float, '{y.name or 'the loss'}' is {y.dtype.value}")
        budget, start = self.int_attr(node, "activationMemory"), len(b.prims)
        found = gradients(b, [y], [b.expand(b.like(1.0, y) if scale is None else scale, y.shape)], wrt)
        if scale is not None:
            share = b.op("div", b.like(1.0, scale), scale)
            found = [b.op("mul", g, b.cast(share, g.dtype)) for g in found]
        if budget:
            b.prims[:] = with_recomputation(b.prims, start, None if budget < 0 else budget, b.where)
        return found


@infer.rule(Gradient)
def _infer_gradient(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    first = 2 if node.attrs.get("scaled") else 1
    return [(v.dtype, infer.sizes(v)) for v in node.inputs[first:] if v is not None]
