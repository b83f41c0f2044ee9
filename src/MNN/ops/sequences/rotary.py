"""Rotary positions (Su et al. 2021, arXiv:2104.09864) as the official engine's language models have them fused."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional, wide
from MNN.ops.reducing.normalization import root_mean_square


@register("RoPE")
class RoPE(Operator):
    """Queries and keys ``[S, heads * D, 1, 1]`` with the first ``rope_cut_head_dim`` numbers of each head turned, as
    ``[1, S, heads, D]``. Operands: queries, the weights of their norm and of the keys' (or none), the ``epsilon`` of
    both norms ``[2]``, keys, cosines and sines of ``[S, rope_cut_head_dim]`` numbers, whose halves are alike."""

    attributes = {"rope_cut_head_dim": 0, "num_head": 0, "kv_num_head": 0, "head_dim": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        size = self.int_attr(node, "head_dim")
        given = self.int_attr(node, "rope_cut_head_dim")
        width = given // 2 * 2 if 0 < given <= size else size
        epsilons = optional(inputs, 3)
        found = []
        for place, name, gamma in ((0, "num_head", 1), (4, "kv_num_head", 2)):
            x, heads = operand(b, inputs, place), self.int_attr(node, name)
            if x.rank < 2 or heads < 1 or x.shape[1] != heads * size:
                raise ShapeError(f"{b.where}: {list(x.shape)} is not of {heads} heads of {size} numbers")
            x = b.reshape(x, (1, x.shape[0], heads, size))
            weight = optional(inputs, gamma)
            if weight is not None and epsilons is not None:
                epsilon = float(b.value(epsilons, "the epsilons")[gamma - 1])
                normal, _ = root_mean_square(b, wide(b, x), [3], epsilon)
                x = b.cast(b.op("mul", normal, weight), x.dtype)
            turns = [b.reshape(operand(b, inputs, i), (1, x.shape[1], 1, width)) for i in (5, 6)]
            found.append(self._turned(b, x, turns[0], turns[1], width))
        return found

    def _turned(self, b: Builder, x: Tensor, cos: Tensor, sin: Tensor, width: int) -> Tensor:
        def part(begin: int, end: int) -> Tensor:
            return b.slice(x, (0, 0, 0, begin), (*x.shape[:3], end - begin))

        half, size = width // 2, x.shape[3]
        swapped = b.concat([b.map(lambda s, a: s("neg", a), part(half, width)), part(0, half)], 3)
        turned = b.op("add", b.op("mul", part(0, width), cos), b.op("mul", swapped, sin))
        return turned if width == size else b.concat([turned, part(width, size)], 3)
