"""The graph that a network becomes, as handlers see it."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.graph import Value


class Context(GraphBuilder):
    """Blobs are f32 and keep their shapes. What handlers do often stands here."""

    def reshaped(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` in other sizes: 0 copies one, -1 follows from the others."""
        return self.op("Reshape", x, self.const(list(shape)))

    def sliced(self, x: Value, rank: int, axis: int, start: int, count: int) -> Value:
        """``count`` elements along one axis from ``start`` on; -1 means all that are left."""
        begins, counts = [0] * rank, [-1] * rank
        begins[axis], counts[axis] = start, count
        return self.op("SliceTf", x, self.const(begins), self.const(counts))

    def renamed(self, x: Value) -> Value:
        """The same blob under another name."""
        return self.op("Identity", x)
