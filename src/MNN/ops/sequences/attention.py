"""Scaled dot-product attention (Vaswani et al. 2017, arXiv:1706.03762), with grouped key and value heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from MNN.errors import ShapeError, UnsupportedError
from MNN.ir import symbolic
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, OwnState, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional, require_rank, wide
from MNN.ops.inference import infer
from MNN.ops.reducing.softmax import shift, softmax


@dataclass
class Scores:
    """Attention over ``q[B, H, Sq, D]``, ``k[B, G, Sk, D]``, ``v[B, G, Sk, E]`` with H a multiple of G.

    ``bias`` is added to the scores, and where one of ``allowed`` (bool) is false a key is left out; all broadcast to
    ``[B, H, Sq, Sk]``. A query that may look at nothing gets zeros. ``sink``, ``[1, H, 1, 1]``, is the score of one
    more key whose value is zero.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    softcap: float = 0.0
    bias: Tensor | None = None
    allowed: list[Tensor] = field(default_factory=list)
    sink: Tensor | None = None

    def check(self, b: Builder) -> None:
        for t in (self.q, self.k, self.v):
            require_rank(b, t, 4)
        q, k, v = self.q.shape, self.k.shape, self.v.shape
        if q[0] != k[0] or k[:3] != v[:3] or q[3] != k[3] or not k[1] or q[1] % k[1]:
            raise ShapeError(f"{b.where}: queries {list(q)}, keys {list(k)} and values {list(v)} do not fit")

    def raw(self, b: Builder) -> Tensor:
        """``q k^T * scale``, ``[B, H, Sq, Sk]``. Heads that share keys become more rows of one product."""
        (batch, heads, rows, size), groups = self.q.shape, self.k.shape[1]
        scale = self.scale
        q = b.map(lambda s, a: s("mul", a, s.const(scale, s.dtype(a))), self.q)
        q = b.reshape(q, (batch, groups, heads // groups * rows, size))
        product = b.matmul(q, b.permute(self.k, (0, 1, 3, 2)))
        return b.reshape(product, (batch, heads, rows, self.k.shape[2]))

    def capped(self, b: Builder, x: Tensor) -> Tensor:
        """``softcap * tanh(x / softcap)``."""
        cap = self.softcap
        if cap <= 0:
            return x

        def body(s: BodyBuilder, a: int) -> int:
            number = s.const(cap, s.dtype(a))
            return s("mul", s("tanh", s("div", a, number)), number)

        return b.map(body, x)

    def masked(self, b: Builder, x: Tensor) -> Tensor:
        """Scores with the bias added and forbidden keys at minus infinity."""
        if self.bias is not None:
            x = b.op("add", x, b.cast(self.bias, x.dtype))
        for mask in self.allowed:
            x = b.op("select", mask, x, b.like(float("-inf"), x))
        return x

    def weights(self, b: Builder, x: Tensor) -> Tensor:
        """Softmax over the keys; rows without any allowed key are zero."""
        if self.bias is None and not self.allowed and self.sink is None:
            return softmax(b, x, 3)
        x = wide(b, x)
        lowest = float(np.finfo(np.float32).min)
        top = b.clamp(shift(b, x, 3), lowest, None)
        sink = None if self.sink is None else b.cast(self.sink, x.dtype)
        if sink is not None:
            top = b.op("max", top, sink)
        powers = b.map(lambda s, a, m: s("exp", s("sub", a, m)), x, top)
        total = b.reduce("sum", powers, [3])
        if sink is not None:
            total = b.map(lambda s, t, a, m: s("add", t, s("exp", s("sub", a, m))), total, sink, top)

        def share(s: BodyBuilder, a: int, t: int) -> int:
            zero = s.const(0, s.dtype(a))
            return s("select", s("eq", t, zero), zero, s("div", a, t))

        return b.map(share, powers, total)

    def mix(self, b: Builder, weights: Tensor) -> Tensor:
        """``weights v``, ``[B, H, Sq, E]``."""
        batch, heads, rows, keys = weights.shape
        groups = self.v.shape[1]
        flat = b.reshape(b.cast(weights, self.v.dtype), (batch, groups, heads // groups * rows, keys))
        return b.reshape(b.matmul(flat, self.v), (batch, heads, rows, self.v.shape[3]))


@register("Attention")
class Attention(Operator):
    """MNN's fused attention: ``q[B, S, H, D]``, ``k, v[B, T, G, D]`` and a mask that broadcasts to ``[B, H, S, T]``
    (added, or 0/1 integers), to ``[B, S, H * D]``. ``attnScale`` 0 means ``1 / sqrt(D)``.

    With ``kv_cache`` the keys and values of earlier runs come first: operands 4 and 5, results 1 and 2, ``[B, G, T,
    D]``. A mask that is shorter than all keys is one for the last of them; those before are seen. Values may come as
    pixels ``[B * T, G * D, 1, 1]``, and with ``output_c4`` the result does.
    """

    attributes = {
        "kv_cache": True, "kv_shared_layer": "", "layer_index": -1, "kv_shared_layer_index": -1, "mhq_quant": None,
        "output_c4": False, "attnScale": 0.0,
    }  # fmt: skip

    def own_states(self, node: Node) -> Sequence[OwnState]:
        if not self.bool_attr(node, "kv_cache"):
            return ()
        sizes = ("batch", "groups", "past")
        names = ("past_key", "past_value")
        return [OwnState(name, 4 + i, 1 + i, (*sizes, f"{name}_size"), 2) for i, name in enumerate(names)]

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        cached = self.bool_attr(node, "kv_cache")
        past = [optional(inputs, i) for i in (4, 5)]
        if cached and (past[0] is None or past[1] is None):
            raise UnsupportedError(
                f"{b.where}: attention that keeps a cache runs in models that are opened from a file"
            )
        if self.int_attr(node, "kv_shared_layer_index") >= 0:
            raise UnsupportedError(
                f"{b.where}: attention over another layer's cache runs only inside the official language model "
                "runtime; export the model with the cache as inputs and outputs"
            )
        parts = [operand(b, inputs, i) for i in range(3)]
        for part in parts:
            require_rank(b, part, 4)
        keys, values = parts[1:]
        if values.shape[2:] == (1, 1) and values.shape[1] == keys.shape[2] * keys.shape[3]:
            parts[2] = b.reshape(values, keys.shape)
        q, k, v = (b.permute(part, (0, 2, 1, 3)) for part in parts)
        if cached:
            k, v = (
                b.concat([p, t], 2) if p is not None and 0 not in p.shape else t
                for p, t in zip(past, (k, v), strict=True)
            )
        mask = optional(inputs, 3)
        missing = k.shape[2] - mask.shape[-1] if cached and mask is not None and mask.rank and mask.shape[-1] > 1 else 0
        if mask is not None and missing > 0:
            mask = b.pad(mask, [0] * (mask.rank - 1) + [missing], [0] * mask.rank, 0 if mask.dtype.is_float else 1)
        scale = self.float_attr(node, "attnScale") or 1.0 / sqrt(max(q.shape[3], 1))
        scores = Scores(q, k, v, scale)
        if mask is not None and mask.dtype.is_float:
            scores.bias = mask
        elif mask is not None:
            scores.allowed.append(b.cast(mask, DType.BOOL))
        scores.check(b)
        out = b.permute(scores.mix(b, scores.weights(b, scores.masked(b, scores.raw(b)))), (0, 2, 1, 3))
        batch, rows, width = *out.shape[:2], out.shape[2] * out.shape[3]
        packed = self.bool_attr(node, "output_c4")
        result = b.reshape(out, (batch * rows, width, 1, 1) if packed else (batch, rows, width))
        return [result, k, v] if cached else [result]


@register("OnnxAttention")
class OnnxAttention(Operator):
    """ONNX's Attention: inputs ``Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen?``, in three dimensions
    ``[B, S, heads * D]`` or four ``[B, heads, S, D]``; outputs ``Y``, the present key and value, and the scores at the
    stage that ``qk_matmul_output_mode`` names."""

    in_mnn = False
    attributes = {
        "is_causal": False, "q_num_heads": 0, "kv_num_heads": 0, "scale": 0.0, "softcap": 0.0,
        "qk_matmul_output_mode": 0, "left_window_size": -1, "right_window_size": -1,
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        q, k, v = (operand(b, inputs, i) for i in range(3))
        mask, past_key, past_value, lengths = (optional(inputs, i) for i in range(3, 7))
        flat = q.rank == 3
        if flat:
            heads, groups = self.int_attr(node, "q_num_heads"), self.int_attr(node, "kv_num_heads")
            q, k, v = (self._split(b, t, n) for t, n in ((q, heads), (k, groups), (v, groups)))
        before = past_key.shape[2] if past_key is not None and past_key.rank == 4 else 0
        if past_key is not None and past_value is not None:
            k, v = b.concat([past_key, k], 2), b.concat([past_value, v], 2)
        scale = self.float_attr(node, "scale") or 1.0 / sqrt(max(q.shape[-1], 1))
        scores = Scores(q, k, v, scale, self.float_attr(node, "softcap"))
        scores.check(b)
        if mask is not None:
            self._add_mask(b, scores, mask)
        scores.allowed += self._windows(b, node, q.shape[2], k.shape[2], before, lengths)
        first = scores.raw(b)
        capped = scores.capped(b, first)
        masked = scores.masked(b, capped)
        weights = scores.weights(b, masked)
        out = scores.mix(b, weights)
        if flat:
            out = b.reshape(b.permute(out, (0, 2, 1, 3)), (out.shape[0], out.shape[2], -1))
        stage = (first, capped, masked, weights)[min(max(self.int_attr(node, "qk_matmul_output_mode"), 0), 3)]
        return [out, k, v, b.cast(stage, q.dtype)]

    def _split(self, b: Builder, x: Tensor, heads: int) -> Tensor:
        """``[B, S, heads * D]`` to ``[B, heads, S, D]``."""
        require_rank(b, x, 3)
        if heads < 1 or x.shape[2] % heads:
            raise ShapeError(f"{b.where}: {list(x.shape)} cannot be split into {heads} heads")
        return b.permute(b.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads)), (0, 2, 1, 3))

    def _add_mask(self, b: Builder, scores: Scores, mask: Tensor) -> None:
        """A mask shorter than the keys forbids those that it does not reach."""
        missing = scores.k.shape[2] - mask.shape[-1]
        if missing > 0:
            fill = False if mask.dtype is DType.BOOL else float("-inf")
            mask = b.pad(mask, [0] * mask.rank, [0] * (mask.rank - 1) + [missing], fill)
        if mask.dtype is DType.BOOL:
            scores.allowed.append(mask)
        else:
            scores.bias = mask

    def _windows(
        self, b: Builder, node: Node, rows: int, keys: int, before: int, lengths: Tensor | None
    ) -> list[Tensor]:
        """What causality, sliding windows and valid lengths allow. Query ``i`` stands at ``i + offset``."""
        left, right = self.int_attr(node, "left_window_size"), self.int_attr(node, "right_window_size")
        if self.bool_attr(node, "is_causal"):
            right = 0 if right < 0 else min(right, 0)
        place = np.arange(keys, dtype=np.int64).reshape(1, 1, 1, keys)
        found = []
        if lengths is not None:
            per = b.reshape(b.cast(lengths, DType.I64), (-1, 1, 1, 1))
            found.append(b.op("lt", b.const(place), per))
        if left < 0 and right < 0:
            return found
        query = np.arange(rows, dtype=np.int64).reshape(1, 1, rows, 1)
        if lengths is None or before:
            distance = query + before - place
            ok = np.ones(distance.shape, np.bool_)
            if left >= 0:
                ok &= distance <= left
            if right >= 0:
                ok &= -distance <= right
            return [*found, b.const(ok)] if not ok.all() else found
        shifted = b.op("add", b.op("sub", per, b.const(rows, DType.I64)), b.const(query - place))
        if left >= 0:
            found.append(b.op("le", shifted, b.const(left, DType.I64)))
        if right >= 0:
            found.append(b.op("ge", shifted, b.const(-right, DType.I64)))
        return found


@infer.rule(OnnxAttention)
def _infer_attention(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    """``q``, ``k``, ``v`` are ``[B, heads, S, D]`` or ``[B, S, heads * D]``; keys and values of the past come first."""
    q, k, v = (infer.operand(node, i) for i in range(3))
    shapes = [infer.sizes(t) for t in (q, k, v)]
    dtype = q.dtype
    if any(s is None or len(s) not in (3, 4) for s in shapes):
        return [(dtype, None)]
    (a, b, c), flat = [s for s in shapes if s is not None], len(shapes[0] or ()) == 3
    heads, groups = infer.number(node, "q_num_heads"), infer.number(node, "kv_num_heads")
    if flat:
        b, c = ((s[0], groups, s[1], symbolic.exact_quotient(s[2], groups)) for s in (b, c))
        out: infer.Sizes = (a[0], a[1], symbolic.multiply(c[3], heads))
    else:
        out = (*a[:3], c[3])
    past = [node.inputs[i] if len(node.inputs) > i else None for i in (4, 5)]
    kept: list[infer.Sizes] = []
    for now, before in zip((b, c), past, strict=True):
        shape = infer.sizes(before) if before is not None else (0,) * 4
        length = symbolic.add(shape[2], now[2]) if shape is not None and len(shape) == 4 else None
        kept.append((*now[:2], length, now[3]))
    rows = (a[0], heads if flat else a[1], a[1] if flat else a[2])
    return [(dtype, out), (k.dtype, kept[0]), (v.dtype, kept[1]), (dtype, (*rows, kept[0][2]))]
