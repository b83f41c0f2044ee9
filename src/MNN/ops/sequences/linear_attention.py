"""Layers that go on from a state of a fixed size, of many sequences at once: short convolutions, and attention whose
keys and values are summed up in a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank
from MNN.ops.inference import infer


@register("CausalConvolution")
class CausalConvolution(Operator):
    """A depthwise convolution over what came before.

    Inputs: the pool ``[S, K - 1, C]``, ``x[B, T, C]``, ``w[K, C]`` and ``segments``, which
    :class:`MNN.ir.prims.CausalConvolution` explains; rows are those of all ``B`` one after the other. Outputs: the
    pool, and ``y[B, T, C]``.
    """

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        pool, x, w, segments = (operand(b, inputs, i) for i in range(4))
        for t, rank in ((pool, 3), (x, 3), (w, 2), (segments, 2)):
            require_rank(b, t, rank)
        batch, tokens, width = x.shape
        if w.shape[1] != width or pool.shape[1:] != (w.shape[0] - 1, width):
            raise ShapeError(
                f"{b.where}: {list(x.shape)}, weights {list(w.shape)} and a pool {list(pool.shape)} do not fit"
            )
        flat = b.reshape(b.cast(x, DType.F32), (batch * tokens, width))
        prim = p.CausalConvolution([pool, flat, b.cast(w, DType.F32), segments])
        pool, y = b.emit(prim, (pool.dtype, pool.shape), (DType.F32, flat.shape))
        return [pool, b.cast(b.reshape(y, x.shape), x.dtype)]


@register("LinearAttention")
class LinearAttention(Operator):
    """Attention with a matrix for each head in place of keys and values.

    Inputs: the pool ``[S, H, D, E]``, ``q[B, T, G, D]``, ``k[B, T, G, D]``, ``v[B, T, H, E]``, ``decay[B, T, H]`` or
    ``[B, T, H, D]``, with ``delta`` also ``beta[B, T, H]``, and ``segments``, which
    :class:`MNN.ir.prims.LinearAttention` explains.
    Outputs: the pool, and ``y[B, T, H, E]``.
    """

    in_mnn = False
    attributes = {"delta": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        delta = self.bool_attr(node, "delta")
        pool, q, k, v, *weights, segments = (operand(b, inputs, i) for i in range(6 + delta))
        for t in (pool, q, k, v):
            require_rank(b, t, 4)
        heads, size = v.shape[2], q.shape[3]
        fits = q.shape == k.shape and q.shape[:2] == v.shape[:2] and heads % max(q.shape[2], 1) == 0
        fits &= weights[0].shape in (v.shape[:3], (*v.shape[:3], size)) and all(
            t.shape == v.shape[:3] for t in weights[1:]
        )
        if not fits or pool.shape[1:] != (heads, size, v.shape[3]):
            raise ShapeError(
                f"{b.where}: queries {list(q.shape)}, keys {list(k.shape)}, values {list(v.shape)} and a pool "
                f"{list(pool.shape)} do not fit"
            )
        rows = v.shape[0] * v.shape[1]
        flat = [b.reshape(b.cast(t, DType.F32), (rows, *t.shape[2:])) for t in (q, k, v, *weights)]
        prim = p.LinearAttention([pool, *flat, segments], delta=delta)
        pool, y = b.emit(prim, (pool.dtype, pool.shape), (DType.F32, flat[2].shape))
        return [pool, b.cast(b.reshape(y, v.shape), v.dtype)]


@infer.rule(CausalConvolution)
def _infer_causal_convolution(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    """Everything keeps its shape."""
    return [(t.dtype, infer.sizes(t)) for t in (infer.operand(node, 0), infer.operand(node, 1))]


@infer.rule(LinearAttention)
def _infer_linear_attention(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    """The results have the values' shape."""
    return [(t.dtype, infer.sizes(t)) for t in (infer.operand(node, 0), infer.operand(node, 3))]


__all__ = ["CausalConvolution", "LinearAttention"]
