"""A check of sizes that a program was read for: axes that it keeps unless they are of size 1."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand
from MNN.ops.inference import infer


@register("KeptAxes")
class KeptAxes(Operator):
    """``x`` itself. None of its ``axes`` may be of size 1, for which the program it is from drops them."""

    in_mnn = False
    attributes = {"axes": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        for axis in self.ints_attr(node, "axes"):
            if x.shape[axis] == 1:
                raise ShapeError(
                    f"{b.where}: axis {axis} of {list(x.shape)} has size 1, for which the program drops it and goes on "
                    "with another rank; convert the model for this size, or name the axes that squeeze() drops"
                )
        return [x]


@infer.rule(KeptAxes)
def _infer_kept_axes(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    infer.pass_numbers(h, node)
    return [(x.dtype, infer.sizes(x))]
