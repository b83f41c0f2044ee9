"""Attention over a cache in pages, for many sequences at once (Kwon et al. 2023, arXiv:2309.06180)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from MNN.errors import ShapeError
from MNN.ir import prims as p
from MNN.ir import symbolic
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank
from MNN.ops.inference import infer


@register("PagedAttention")
class PagedAttention(Operator):
    """Writes keys and values of new tokens into a cache, and attends to what their sequences hold there.

    Inputs: ``q[B, S, H, D]``, ``k[B, S, G, D]``, ``v[B, S, G, E]``, whose tokens are those of several sequences one
    after the other; ``places``, ``table`` and ``tiles``; and the pools. :class:`MNN.ir.prims.CacheWrite` and
    :class:`MNN.ir.prims.PagedAttention` say what these are. Outputs: the result ``[B, S, H * E]``, and the pools.
    """

    in_mnn = False
    attributes = {
        "scale": 0.0, "softcap": 0.0, "window": 0, "tile": 8, "key_bits": 0, "value_bits": 0,
        "slopes": None, "sinks": None,
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        q, k, v, places, table, tiles, *pools = (operand(b, inputs, i) for i in range(len(inputs)))
        for t in (q, k, v, *pools):
            require_rank(b, t, 4)
        batch, rows, heads, size = q.shape
        groups, value_size = v.shape[2:]
        if q.shape[:2] != k.shape[:2] or k.shape[:3] != v.shape[:3] or k.shape[3] != size or heads % groups:
            raise ShapeError(
                f"{b.where}: queries {list(q.shape)}, keys {list(k.shape)} and values {list(v.shape)} do not fit"
            )
        bits = self.int_attr(node, "key_bits"), self.int_attr(node, "value_bits")
        flat = [b.reshape(b.cast(t, DType.F32), (batch * rows, *t.shape[2:])) for t in (q, k, v)]
        write = p.CacheWrite([*pools, *flat[1:], places], key_bits=bits[0], value_bits=bits[1])
        written = b.emit(write, *((t.dtype, t.shape) for t in pools))
        attend = p.PagedAttention(
            [flat[0], *written, table, tiles], scale=self.float_attr(node, "scale") or 1.0 / sqrt(max(size, 1)),
            softcap=self.float_attr(node, "softcap"), window=self.int_attr(node, "window"),
            tile=self.int_attr(node, "tile"), size=value_size, key_bits=bits[0], value_bits=bits[1],
            slopes=self.floats_attr(node, "slopes"), sinks=self.floats_attr(node, "sinks"),
        )  # fmt: skip
        (out,) = b.emit(attend, (DType.F32, (batch * rows, heads, value_size)))
        return [b.cast(b.reshape(out, (batch, rows, heads * value_size)), q.dtype), *written]


@infer.rule(PagedAttention)
def _infer_paged_attention(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    """The result ``[B, S, H * E]``; pools stay as they are."""
    q, v = infer.operand(node, 0), infer.operand(node, 2)
    a, c = infer.sizes(q), infer.sizes(v)
    out = None if a is None or c is None else (a[0], a[1], symbolic.multiply(a[2], c[3]))
    pools = [infer.operand(node, i) for i in range(6, len(node.inputs))]
    return [(q.dtype, out), *((t.dtype, infer.sizes(t)) for t in pools)]


__all__ = ["PagedAttention"]
