"""ConvertTensor: a tensor's dimensions in the order of another format."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand

_FORMATS = ("NCHW", "NHWC", "NC4HW4")


def order_of(source: str, dest: str, rank: int) -> list[int]:
    """Where the dimensions of format ``dest`` lie in those of ``source``."""
    if (source == "NHWC") == (dest == "NHWC") or rank <= 2:
        return list(range(rank))
    return [0, *range(2, rank), 1] if dest == "NHWC" else [0, rank - 1, *range(1, rank - 1)]


@register("ConvertTensor")
class ConvertTensor(Operator):
    """From format ``source`` to ``dest``: NHWC has the channels last, NCHW and NC4HW4 have them second, at any rank.

    Up to two dimensions are the same in all formats.
    """

    attributes = {"source": "NCHW", "dest": "NCHW"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        source, dest = self.str_attr(node, "source"), self.str_attr(node, "dest")
        unknown = [f for f in (source, dest) if f not in _FORMATS]
        if unknown:
            raise ShapeError(f"{b.where}: format {unknown[0]} is none of {', '.join(_FORMATS)}")
        order = order_of(source, dest, x.rank)
        return [x if order == list(range(x.rank)) else b.permute(x, order)]
