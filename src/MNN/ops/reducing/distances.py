"""Distances between all rows of two matrices, as nearest neighbours need them."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError, UnsupportedError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand


@register("PairwiseDistance")
class PairwiseDistance(Operator):
    """``[N, D]`` and ``[M, D]`` to ``[N, M]``: ``metric`` SQEUCLIDEAN, the sum of squared differences, or EUCLIDEAN,
    its square root. Differences are squared, not products subtracted, so that near rows keep their digits."""

    attributes = {"metric": "SQEUCLIDEAN"}
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        left, right = operand(b, inputs, 0), operand(b, inputs, 1)
        metric = self.str_attr(node, "metric")
        if metric not in ("SQEUCLIDEAN", "EUCLIDEAN"):
            raise UnsupportedError(f"{b.where}: metric {metric} is not one of SQEUCLIDEAN, EUCLIDEAN")
        if left.rank != 2 or right.rank != 2 or left.shape[1] != right.shape[1]:
            raise ShapeError(
                f"{b.where}: distances are between rows of two matrices of equal width, not "
                f"{list(left.shape)} and {list(right.shape)}"
            )
        n, m, width = left.shape[0], right.shape[0], left.shape[1]
        apart = b.op("sub", b.reshape(left, (n, 1, width)), b.reshape(right, (1, m, width)))
        total = b.reduce("sum", b.op("mul", apart, apart), (2,), False)
        return [b.op("sqrt", total) if metric == "EUCLIDEAN" else total]
