"""A check of sizes that a program was read for: axes that it keeps unless they are of size 1, axes whose pieces are as
many as it has results, and axes that it has enough steps for."""

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
    """``x`` itself. None of its ``axes`` may be of size 1, for which the program it is from drops them; with ``pieces``
    they have to be as long as makes so many pieces, of equal lengths but the last one, or empty; with ``most`` they may
    have so many elements."""

    in_mnn = False
    attributes = {"axes": None, "pieces": 0, "most": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, pieces, most = operand(b, inputs, 0), self.int_attr(node, "pieces"), self.int_attr(node, "most")
        for axis in self.ints_attr(node, "axes"):
            size = x.shape[axis]
            if most:
                if size > most:
                    raise ShapeError(
                        f"{b.where}: axis {axis} of {list(x.shape)} is scanned in steps that reach over {most} "
                        "elements; scan it in parts, or convert the model for this size"
                    )
            elif pieces:
                found = -(-size // max(-(-size // pieces), 1))
                if size != 0 and found != pieces:
                    raise ShapeError(
                        f"{b.where}: axis {axis} of {list(x.shape)} is cut into {pieces} pieces, of which there are "
                        f"{found} of {-(-size // pieces)}; give a size that has all of them, or name sizes with split()"
                    )
            elif size == 1:
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
